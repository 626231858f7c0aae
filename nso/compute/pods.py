"""The Pods of instances: what to do about the Pod of one instance, and what its state says. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from netclaim.api.meta import Raw
from netclaim.kube.errors import ApiError, Forbidden, Invalid, NotFound, ServerError
from netclaim.kube.objects import is_going, uid_of
from nso.compute import reasons
from nso.compute.observed import controller_of, is_instance
from nso.compute.reasons import Refusal

RESTART_PAUSE: Final = 5.0
"""A Pod that ended is replaced when it is this many seconds old: one that fails at once is not made in a loop."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The Pod is the instance's and runs, or is about to. `why` says what it lacks, None when it is ready."""

    why: Refusal | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Something else has to happen first."""

    why: Refusal


@dataclass(frozen=True, slots=True)
class Replace:
    """The Pod has ended: delete it, in `after` seconds."""

    uid: str
    why: Refusal
    after: float


@dataclass(frozen=True, slots=True)
class Make:
    """There is no Pod: create it."""


PodStep: TypeAlias = Keep | Wait | Replace | Make


def decide(name: str, instance_uid: str, pod: Raw | None, now: datetime) -> PodStep:
    """What to do about the Pod of that name, for an instance that may run."""
    if pod is None:
        return Make()
    owner = controller_of(pod)
    if owner is None or owner["uid"] != instance_uid:
        if owner is not None and is_instance(owner):
            return Wait(reasons.pod_going(name))
        return Wait(reasons.pod_conflict(name, f"{owner['kind']} {owner['name']}" if owner else ""))
    if is_going(pod):
        return Wait(reasons.pod_going(name))
    status = pod.get("status") or {}
    phase = str(status.get("phase") or "Pending")
    if phase in ("Failed", "Succeeded"):
        why = reasons.pod_finished(name, phase, str(status.get("reason") or ""))
        return Replace(uid_of(pod), why, max(0.0, RESTART_PAUSE - _age(pod, now)))
    if _condition(status, "Ready").get("status") == "True":
        return Keep(None)
    detail = _detail(status)
    return Keep(reasons.pod_pending(name, detail) if phase == "Pending" else reasons.pod_not_ready(name, detail))


def is_refusal(error: ApiError) -> bool:
    """Whether the API server looked at a Pod and said no (or the webhook could not be asked)."""
    return isinstance(error, Forbidden | Invalid | NotFound | ServerError) or error.status == 400


def refused(error: ApiError) -> Refusal:
    """A refused Pod in the words of whoever refused it; the webhook gives its reason as the first cause."""
    causes = [cause for cause in error.details.get("causes") or () if isinstance(cause, dict)]
    if isinstance(error, Invalid):
        return Refusal(reasons.POD_INVALID, error.message)
    reason = next((str(cause["reason"]) for cause in causes if cause.get("reason")), reasons.POD_REFUSED)
    return Refusal(reason, error.message)


def summary(pod: Raw) -> tuple[object, ...]:
    """What of a Pod's status matters here: a predicate compares it."""
    status = pod.get("status") or {}
    ready = _condition(status, "Ready").get("status")
    node = (pod.get("spec") or {}).get("nodeName")
    return (status.get("phase"), status.get("reason"), ready, node, _detail(status))


def _detail(status: Raw) -> str:
    scheduled = _condition(status, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "")
    for container in status.get("containerStatuses") or ():
        state = (container.get("state") or {}).get("waiting") or (container.get("state") or {}).get("terminated")
        if state:
            said = ": ".join(str(state[word]) for word in ("reason", "message") if state.get(word))
            return f"container {container['name']}: {said}"
    return ""


def _condition(status: Raw, kind: str) -> Raw:
    return next((one for one in status.get("conditions") or () if one.get("type") == kind), {})


def _age(pod: Raw, now: datetime) -> float:
    created = pod["metadata"].get("creationTimestamp")
    return (now - datetime.fromisoformat(created)).total_seconds() if created else 0.0
