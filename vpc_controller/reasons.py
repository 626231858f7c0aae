"""Every reason that the VPC controller gives in a condition, once, next to its message. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim.api.conditions import ConditionStatus
from netclaim.api.meta import Raw


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a condition is going to say."""

    status: ConditionStatus
    reason: str
    message: str

    def condition(self, kind: str, generation: int) -> Raw:
        """The condition of that type about an object of that generation; the runtime adds when it flipped."""
        return {
            "type": kind,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": generation,
        }


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason: the status that goes with it, and its message as a format."""

    name: str
    status: ConditionStatus
    text: str

    def __call__(self, **values: object) -> Verdict:
        """The verdict with the message filled in."""
        return Verdict(self.status, self.name, self.text.format(**values))


VPC_READY: Final = Reason("Ready", "True", "VPC {vpc} realizes network context {context}")
IDENTIFIERS_EXHAUSTED: Final = Reason(
    "IdentifiersExhausted",
    "False",
    "{what}: all {capacity} identifiers of {space} are taken; one comes free when an interface that nobody needs is "
    "deleted and its advertisement is gone",
)
NAME_CONFLICT: Final = Reason(
    "NameConflict",
    "False",
    "{what} cannot be made: {kind} {name} is there already and belongs to {owner}; delete or rename it",
)

ATTACHMENT_READY: Final = Reason("Ready", "True", "Attachment {attachment} of VPC {vpc} can be programmed")

PREPARED: Final = Reason(
    "Prepared", "True", "A Pod can be attached: VPC {vpc}, attachment {attachment}, NetworkAttachmentDefinition {name}"
)
AWAITING_ALLOCATION: Final = Reason(
    "AwaitingAllocation", "False", "Interface {name} has no addresses that are its own yet ({why})"
)
INTERFACE_NOT_BOUND: Final = Reason(
    "InterfaceNotBound", "False", "Interface {name} is held by no claim: it keeps its identity for the next one"
)
AWAITING_CONTEXT: Final = Reason(
    "AwaitingNetworkContext", "False", "Interface {name} is not placed in a network context yet"
)
AWAITING_VPC: Final = Reason("AwaitingVPC", "False", "VPC {vpc} of interface {name} is not there yet")
AWAITING_VPC_IDENTIFIER: Final = Reason(
    "AwaitingVPCIdentifier", "False", "VPC {vpc} of interface {name} has no identifier yet ({why})"
)
PASSING: Final = frozenset(
    reason.name
    for reason in (INTERFACE_NOT_BOUND, AWAITING_ALLOCATION, AWAITING_CONTEXT, AWAITING_VPC, AWAITING_VPC_IDENTIFIER)
)
"""What every new interface waits for, mostly for less than a second."""

ATTACHMENT_BEING_RELEASED: Final = Reason(
    "AttachmentBeingReleased",
    "False",
    "VPCAttachment {name} is being deleted and still held by {holder}; it is made anew once that let go",
)
VPC_CHANGED: Final = Reason(
    "VPCChanged",
    "False",
    "Interface {name} is still used by {holder} in VPC {old}; it moves to VPC {new} once that is gone",
)
PREVIOUS_HOLDER_ATTACHED: Final = Reason(
    "PreviousHolderAttached",
    "False",
    "Interface {name} is still used by {holder} of the claim that held it before (uid {claim}); "
    "it is free for this claim once that is gone",
)

PROGRAMMED: Final = Reason("Programmed", "True", "Node {node} carries the interface and advertises {prefixes}")
AWAITING_DATA_PLANE: Final = Reason(
    "AwaitingDataPlane", "Unknown", "The data plane has not said yet whether it carries the interface ({why})"
)
DETACHED: Final = Reason("Detached", "False", "No node carries the interface ({why})")
NODE_GONE: Final = Reason("NodeGone", "False", "Node {node}, which carried the interface, is gone")

PROGRAMMED_REASONS: Final = frozenset(
    reason.name for reason in (PROGRAMMED, AWAITING_DATA_PLANE, DETACHED, NODE_GONE, PREVIOUS_HOLDER_ATTACHED)
)
"""Reasons by which a Programmed condition is known to be ours, not the seed that says that nobody has spoken."""
