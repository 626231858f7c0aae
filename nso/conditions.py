"""Conditions as plans write them, and as they read them on objects that a reconcile has taken in hand."""

from __future__ import annotations

from netclaim.api.conditions import ConditionStatus
from netclaim.api.meta import Condition, ConditionedStatus, Raw


def told(raw: Raw, kind: str, status: ConditionStatus, reason: str, message: str) -> Raw:
    """A condition about this version of `raw`, without lastTransitionTime: the apply keeps or sets that."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": raw["metadata"].get("generation", 0),
    }


def find(status: ConditionedStatus, kind: str) -> Condition | None:
    """The condition of that type, None while nobody has written it."""
    return next((entry for entry in status.conditions if entry.type == kind), None)


def is_true(status: ConditionedStatus, kind: str) -> bool:
    """Whether the condition is there and True."""
    entry = find(status, kind)
    return entry is not None and entry.status == "True"


def message_of(status: ConditionedStatus, kind: str) -> str:
    """The condition's message, empty when there is none."""
    entry = find(status, kind)
    return (entry.message or "") if entry is not None else ""


def summary(raw: Raw) -> dict[str, tuple[str, str, str]]:
    """(status, reason, message) of each condition by type: what a predicate compares."""
    listed = (raw.get("status") or {}).get("conditions") or ()
    return {one["type"]: (one.get("status", ""), one.get("reason", ""), one.get("message", "")) for one in listed}
