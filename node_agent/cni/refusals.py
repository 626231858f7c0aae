"""Every reason for which a CNI call is refused, next to its message and its CNI error code.

Codes below 100 are the specification's; 11 says "try again later" and is used wherever waiting helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

TRY_AGAIN: Final = 11
NOT_AVAILABLE: Final = 50


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call is refused: a CamelCase word for events and tests, the CNI code, and the text for people."""

    word: str
    code: int
    text: str


class Refusal(Exception):  # noqa: N818 - an answer, not a fault of the agent
    """A call that is answered with an error."""

    def __init__(self, reason: Reason, details: str = "", **values: object) -> None:
        self.reason = reason
        self.message = reason.text.format(**values)
        self.details = details
        super().__init__(f"{reason.word}: {self.message}" + (f" ({details})" if details else ""))

    def as_json(self) -> dict[str, Any]:
        """The error as the CNI specification writes it."""
        return {"code": self.reason.code, "msg": self.message, "details": self.details}


UNREADABLE: Final = Reason("Unreadable", 6, "the call cannot be read: {why}")
PROTOCOL: Final = Reason(
    "ProtocolMismatch",
    6,
    "netclaim-cni speaks protocol {theirs}, this agent {ours}: install the agent's own binary again",
)
UNKNOWN_VERB: Final = Reason("UnknownVerb", 4, "the node agent does not know the CNI command {verb}")
NO_POINTER: Final = Reason(
    "NoPointer",
    7,
    "the network configuration does not point to a VPCAttachment: it needs vpc, vpcAttachment and attachment.namespace"
    " and .name, as the NetworkAttachmentDefinition of an interface has them",
)
NO_POD: Final = Reason(
    "NoPod",
    4,
    "the call names no Pod: CNI_ARGS must hold K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID for a Netns attachment",
)
OTHER_NAMESPACE: Final = Reason(
    "OtherNamespace",
    100,
    "Pod {pod} may not use VPCAttachment {attachment}: an attachment serves Pods of its own namespace only",
)
ATTACHMENT_GONE: Final = Reason(
    "AttachmentGone", TRY_AGAIN, "VPCAttachment {attachment} does not exist; it is made for a bound NetworkInterface"
)
ATTACHMENT_GOING: Final = Reason("AttachmentGoing", TRY_AGAIN, "VPCAttachment {attachment} is being deleted")
NO_IDENTITY: Final = Reason("AwaitingIdentity", TRY_AGAIN, "VPCAttachment {attachment} has no identifiers yet")
IDENTITY_DIFFERS: Final = Reason(
    "IdentityDiffers",
    101,
    "the network configuration names VPC {asked_vpc} attachment {asked}, VPCAttachment {attachment} is VPC {vpc}"
    " attachment {found}: use the NetworkAttachmentDefinition that was made for it",
)
NOT_PROGRAMMABLE: Final = Reason(
    "NotProgrammable",
    102,
    "VPCAttachment {attachment} cannot be programmed: {why}; correct the interface that it realizes",
)
OTHER_CONTAINER: Final = Reason(
    "OtherContainer",
    TRY_AGAIN,
    "VPCAttachment {attachment} is in use by container {container} (Pod {pod}) on node {node}; it is free once"
    " that is gone",
)
CONTENDED: Final = Reason("Contended", TRY_AGAIN, "VPCAttachment {attachment} changed at every attempt to claim it")
API_AWAY: Final = Reason(
    "ApiUnreachable", TRY_AGAIN, "the API server cannot be asked for VPCAttachment {attachment}: {why}"
)
API_REFUSED: Final = Reason("ApiRefused", TRY_AGAIN, "the API server refused VPCAttachment {attachment}: {why}")
BAD_NAMESPACE: Final = Reason("BadNamespace", 8, "the network namespace {path} cannot be used: {why}")
KERNEL: Final = Reason("KernelRefused", TRY_AGAIN, "the device {device} could not be made: {why}")
DEVICE_TAKEN: Final = Reason("DeviceTaken", TRY_AGAIN, "the device {device} is taken: {why}")
INTERFACE_TAKEN: Final = Reason(
    "InterfaceTaken", TRY_AGAIN, "interface {ifname} of container {container} is attached already, as {device}"
)
NO_INDEX: Final = Reason("NodeFull", TRY_AGAIN, "{why}")
UNKNOWN_CONTAINER: Final = Reason("UnknownContainer", 3, "container {container} has no interface {ifname} on this node")
DIFFERS: Final = Reason("Differs", 103, "container {container}, interface {ifname}: {difference}")
BUSY: Final = Reason("Busy", TRY_AGAIN, "the node agent has {waiting} calls waiting already")
TOO_SLOW: Final = Reason("TooSlow", TRY_AGAIN, "the call was not done within {seconds:g} s")
NOT_READY: Final = Reason("NotReady", NOT_AVAILABLE, "the node agent is not ready: {why}")
STARTING: Final = Reason("Starting", TRY_AGAIN, "the node agent is not ready: {why}")
INTERNAL: Final = Reason("Internal", 999, "the node agent failed: {why}; its log has more")
