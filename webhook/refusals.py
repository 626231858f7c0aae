"""Why a Pod is refused: every reason once, next to the message that goes with it. Pure.

A refusal is what the API server's client sees, so each message names the Pod, what is wrong, and what to do. Code 403
is permanent for this very Pod; 503 says that the same Pod may be admitted a little later.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from netclaim.api.resources import Resource

NOT_OWNED_BY_INSTANCE: Final = "NotOwnedByInstance"
INSTANCE_NOT_FOUND: Final = "InstanceNotFound"
INSTANCE_REPLACED: Final = "InstanceReplaced"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
NO_INTERFACE_DECLARED: Final = "NoInterfaceDeclared"
INTERFACE_NOT_BOUND: Final = "InterfaceNotBound"
INTERFACE_NOT_PREPARED: Final = "InterfaceNotPrepared"
ATTACHMENT_NOT_FOUND: Final = "AttachmentNotFound"
NETWORK_ATTACHMENT_NOT_FOUND: Final = "NetworkAttachmentNotFound"
NETWORK_ATTACHMENT_FOREIGN: Final = "NetworkAttachmentForeign"
INTERFACE_NAME_TAKEN: Final = "InterfaceNameTaken"
DEFAULT_NETWORK_CONFLICT: Final = "DefaultNetworkConflict"
ANNOTATION_UNREADABLE: Final = "AnnotationUnreadable"
HOST_NETWORK: Final = "HostNetwork"
LOOKUP_FAILED: Final = "LookupFailed"
REVIEW_FAILED: Final = "ReviewFailed"

MESSAGES: Final[dict[str, str]] = {
    NOT_OWNED_BY_INSTANCE: (
        "it carries the label {label} but no Instance controls it: interfaces are claimed by instances; "
        "remove the label, or run the Pod through a Workload"
    ),
    INSTANCE_NOT_FOUND: "its instance {instance} does not exist any more: let the Pod go with it",
    INSTANCE_REPLACED: (
        "its instance {instance} was replaced by a namesake (uid {found}, the Pod names {wanted}): "
        "let the new instance make its own Pod"
    ),
    INSTANCE_TERMINATING: "its instance {instance} is being deleted: wait for the replacement",
    NO_INTERFACE_DECLARED: (
        "its instance {instance} declares no network interface: remove the label {label}, "
        "or give the workload a networkInterfaceClaimTemplate"
    ),
    INTERFACE_NOT_BOUND: (
        "interface {declared} of instance {instance}: no interface is bound for claim {claim}{why}; "
        "see kubectl describe networkinterfaceclaim {claim}, then try again"
    ),
    INTERFACE_NOT_PREPARED: (
        "interface {declared} of instance {instance}: networkinterface {interface} is not prepared{why}; "
        "try again later"
    ),
    ATTACHMENT_NOT_FOUND: (
        "interface {declared} of instance {instance}: VPCAttachment {attachment} of networkinterface {interface} is "
        "not there{why}; the VPC controller makes it again, try again later"
    ),
    NETWORK_ATTACHMENT_NOT_FOUND: (
        "interface {declared} of instance {instance}: NetworkAttachmentDefinition {attachment} of networkinterface "
        "{interface} is not there; the VPC controller makes it again, try again later"
    ),
    NETWORK_ATTACHMENT_FOREIGN: (
        "interface {declared} of instance {instance}: NetworkAttachmentDefinition {attachment} does not belong to the "
        "VPCAttachment of that name: delete it, so that the VPC controller can make its own"
    ),
    INTERFACE_NAME_TAKEN: (
        "interface {declared} of instance {instance}: the name {interface_name} inside the Pod is already taken by "
        "{taken_by}: give one of the two another name"
    ),
    DEFAULT_NETWORK_CONFLICT: (
        "interface {declared} of instance {instance} is to be the Pod's eth0, but annotation {annotation} asks for "
        "{found}: remove that annotation"
    ),
    ANNOTATION_UNREADABLE: (
        "annotation {annotation} cannot be read: {why}; write a comma list or a JSON list of networks"
    ),
    HOST_NETWORK: (
        "it uses the host's network: no interface can be attached to it, it would boot without one; "
        "remove hostNetwork, or the label {label}"
    ),
    LOOKUP_FAILED: "the API server could not be asked about {subject}: {why}; try again later",
    REVIEW_FAILED: "it could not be decided on ({why}): try again later, and look into the webhook's log",
}

WAITING_HELPS: Final = frozenset(
    {
        INTERFACE_NOT_BOUND,
        INTERFACE_NOT_PREPARED,
        ATTACHMENT_NOT_FOUND,
        NETWORK_ATTACHMENT_NOT_FOUND,
        LOOKUP_FAILED,
        REVIEW_FAILED,
    }
)
"""Reasons that go away by themselves: answered with 503."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """One object whose live state may prove a refusal wrong (the cache may lag)."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Pod that is not admitted. `field` points into the Pod; `recheck` is set when something was *missing*."""

    reason: str
    pod: str
    detail: str
    field: str = ""
    recheck: Lookup | None = None

    @property
    def code(self) -> int:
        """503 when waiting helps, else 403."""
        return HTTPStatus.SERVICE_UNAVAILABLE if self.reason in WAITING_HELPS else HTTPStatus.FORBIDDEN

    @property
    def message(self) -> str:
        """The whole sentence: which Pod, what is wrong, what to do."""
        return f"Pod {self.pod}: {self.detail}"


def refuse(reason: str, pod: str, *, field: str = "", recheck: Lookup | None = None, **values: str) -> Refusal:
    """The refusal of `pod` for `reason`, its message filled in with `values`."""
    return Refusal(reason, pod, MESSAGES[reason].format(**values), field, recheck)
