"""Why an instance is not there or not ready: every reason once, next to the message that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

READY: Final = "Ready"
PROGRAMMED: Final = "Programmed"
POD_READY: Final = "PodReady"
ALL_READY: Final = "AllReady"
SCALED_TO_ZERO: Final = "ScaledToZero"
NOT_READY: Final = "NotReady"
NOT_PROGRAMMED: Final = "NotProgrammed"
"""A claim's own reason while all it lacks is the data plane."""

NAME_CONFLICT: Final = "NameConflict"
BEING_REPLACED: Final = "BeingReplaced"
AWAITING_COLLECTION: Final = "AwaitingCollection"
AWAITING_LOWER: Final = "AwaitingLowerOrdinal"
CLAIM_GOING: Final = "ClaimBeingDeleted"
CLAIM_GONE: Final = "ClaimReplaced"
SCALED_DOWN: Final = "ScaledDown"
TEMPLATE_CHANGED: Final = "TemplateChanged"
CREATE_REFUSED: Final = "CreateRefused"
QUOTA_EXCEEDED: Final = "QuotaExceeded"

AWAITING_CLAIM: Final = "AwaitingClaim"
AWAITING_NETWORK: Final = "AwaitingNetwork"
GATED: Final = "Gated"
POD_PENDING: Final = "PodPending"
POD_NOT_READY: Final = "PodNotReady"
POD_FINISHED: Final = "PodFinished"
POD_GOING: Final = "PodBeingDeleted"
POD_REFUSED: Final = "PodRefused"
POD_INVALID: Final = "PodInvalid"
NO_POD_PROVIDER: Final = "NoPodProvider"

ON_ITS_WAY: Final = frozenset(
    {
        *("NotBound", "NotAllocated", "NotPrepared", NOT_PROGRAMMED, NOT_READY),
        *(AWAITING_CLAIM, AWAITING_NETWORK, AWAITING_LOWER, BEING_REPLACED, GATED, POD_PENDING, POD_NOT_READY),
    }
)
"""Stations of an instance that is coming up, its claims' own among them. All others are refusals."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason with the text for this case."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


def name_conflict(kind: str, name: str, owner: str) -> Refusal:
    """Somebody else's object has the name; it is never adopted."""
    whose = f"it belongs to {owner}" if owner else "nobody owns it"
    return Refusal(
        NAME_CONFLICT, f"{kind} {name} is not this workload's: {whose}. Delete it, or give the workload another name."
    )


def stray_pod(name: str) -> Refusal:
    """A Pod of ours without an owner: nothing will ever collect it."""
    return Refusal(NAME_CONFLICT, f"Pod {name} has lost its owner and keeps the slot's name: delete it.")


def being_replaced(name: str) -> Refusal:
    """The last instance, or its Pod, is still going."""
    return Refusal(
        BEING_REPLACED, f"Instance {name} is being replaced: waiting for the last one and its Pod to be gone."
    )


def awaiting_collection(kind: str, name: str) -> Refusal:
    """It belongs to an owner that is gone."""
    return Refusal(AWAITING_COLLECTION, f"{kind} {name} is of an owner that is gone: waiting for it to be collected.")


def awaiting_lower(name: str) -> Refusal:
    """OrderedReady: one after the other."""
    return Refusal(AWAITING_LOWER, f"Instance {name} waits until all lower ordinals are ready (OrderedReady).")


def claim_going(name: str) -> Refusal:
    """The last claim of that name is not released yet."""
    return Refusal(
        CLAIM_GOING, f"NetworkInterfaceClaim {name} is still being deleted; it is made anew when it is gone."
    )


def claim_gone(name: str) -> Refusal:
    """The claim that an instance started with is no more."""
    return Refusal(
        CLAIM_GONE,
        f"NetworkInterfaceClaim {name} is not the one that the instance started with: Pod first, then claim.",
    )


def scaled_down(replicas: int) -> Refusal:
    """More slots than wanted."""
    return Refusal(SCALED_DOWN, f"The workload has {replicas} replicas.")


def template_changed(name: str) -> Refusal:
    """The instance is of an older template."""
    return Refusal(TEMPLATE_CHANGED, f"Instance {name} is of an older template and is being replaced.")


def create_refused(what: str, answer: str) -> Refusal:
    """The API server did not take a claim or an instance."""
    reason = QUOTA_EXCEEDED if "exceeded quota" in answer else CREATE_REFUSED
    return Refusal(reason, f"The API server refuses {what}: {answer}")


def awaiting_claim(name: str) -> Refusal:
    """No such claim."""
    return Refusal(AWAITING_CLAIM, f"NetworkInterfaceClaim {name} is not there yet.")


def awaiting_network(name: str) -> Refusal:
    """Nobody has said anything about the claim."""
    return Refusal(
        AWAITING_NETWORK,
        f"Nobody has looked at NetworkInterfaceClaim {name} yet. If this stays, see that nso runs with the claims "
        "controllers for this location.",
    )


def gated(gates: str) -> Refusal:
    """Gates of others."""
    return Refusal(GATED, f"Waiting for scheduling gates: {gates}.")


def pod_pending(name: str, detail: str) -> Refusal:
    """The Pod is not on a node, or its containers have not started."""
    return Refusal(POD_PENDING, f"Pod {name} is pending{f': {detail}' if detail else ''}.")


def pod_not_ready(name: str, detail: str) -> Refusal:
    """The Pod runs, but does not say it is ready."""
    return Refusal(POD_NOT_READY, f"Pod {name} is not ready{f': {detail}' if detail else ''}.")


def pod_finished(name: str, phase: str, detail: str) -> Refusal:
    """The Pod has ended and is being replaced."""
    return Refusal(POD_FINISHED, f"Pod {name} has {phase.lower()}{f' ({detail})' if detail else ''} and is replaced.")


def pod_going(name: str) -> Refusal:
    """The Pod is on its way out."""
    return Refusal(POD_GOING, f"Pod {name} is being deleted; the next one follows when it is gone.")


def pod_conflict(name: str, owner: str) -> Refusal:
    """A Pod of that name is somebody else's."""
    return Refusal(
        NAME_CONFLICT,
        f"Pod {name} is not this instance's: {f'it belongs to {owner}' if owner else 'nobody owns it'}. Delete it.",
    )


def no_pod_provider() -> Refusal:
    """Somebody else runs instances and does not say how they are."""
    return Refusal(NO_POD_PROVIDER, "Another provider runs this instance (--pod-provider=false).")
