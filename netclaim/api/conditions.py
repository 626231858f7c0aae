"""Reading and making conditions. Pure: works on raw objects, asks no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from netclaim.api.meta import Raw

ConditionStatus = Literal["True", "False", "Unknown"]


def condition(obj: Raw | None, type_: str) -> Raw | None:
    """The object's condition of that type, as it is stored, or None."""
    if obj is None:
        return None
    listed: list[Raw] = (obj.get("status") or {}).get("conditions") or []
    return next((entry for entry in listed if entry.get("type") == type_), None)


def status_of(obj: Raw | None, type_: str) -> str | None:
    """True, False or Unknown as text; None when nobody wrote the condition."""
    found = condition(obj, type_)
    return None if found is None else str(found.get("status", "Unknown"))


def reason_of(obj: Raw | None, type_: str) -> str:
    """The condition's reason; empty when nobody wrote the condition."""
    return str((condition(obj, type_) or {}).get("reason", ""))


def message_of(obj: Raw | None, type_: str) -> str:
    """The condition's message; empty when there is none."""
    return str((condition(obj, type_) or {}).get("message", ""))


def is_true(obj: Raw | None, type_: str) -> bool:
    """Whether the condition is True."""
    return status_of(obj, type_) == "True"


def is_false(obj: Raw | None, type_: str) -> bool:
    """Whether the condition is False; Unknown and absent are not."""
    return status_of(obj, type_) == "False"


def timestamp(moment: datetime) -> str:
    """The moment as the API writes it: RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make(  # noqa: PLR0917 (a condition reads in this order wherever one is written)
    existing_obj: Raw | None, type_: str, status: ConditionStatus, reason: str, message: str, now: datetime
) -> Raw:
    """The condition to write, given the object as it is.

    `lastTransitionTime` is kept unless `status` flips; `observedGeneration` is the object's generation. An empty
    message is left out.
    """
    before = condition(existing_obj, type_)
    since = (before or {}).get("lastTransitionTime")
    if before is None or since is None or before.get("status") != status:
        since = timestamp(now)
    made: Raw = {"type": type_, "status": status, "reason": reason, "lastTransitionTime": since}
    if message:
        made["message"] = message
    generation = ((existing_obj or {}).get("metadata") or {}).get("generation")
    if generation is not None:
        made["observedGeneration"] = generation
    return made
