"""What a node has said about an attachment, and whom that stands against. Pure.

Node facts are the part of a VPCAttachment's status that the node's agent writes. As long as one of them is there, a
guest may be running on the attachment's addresses.
"""

from __future__ import annotations

from typing import Final

from netclaim.api import cloud, resources
from netclaim.api.cloud import VPCAttachment
from netclaim.api.meta import KubeObject
from netclaim.api.networking import NetworkInterface
from netclaim.api.resources import Resource
from netclaim.kube.writes import Owned

FIELDS: Final = frozenset(
    {
        "node",
        "podName",
        "podUID",
        "containerID",
        "hostInterface",
        "guestInterface",
        "vrfInterface",
        "podSubnet",
        "podSubnets",
    }
)
OWNED: Final = Owned(fields=FIELDS, conditions=frozenset())


def are_empty(attachment: VPCAttachment) -> bool:
    """Whether no node has the attachment."""
    status = attachment.status
    return not any(
        (
            status.node,
            status.pod_name,
            status.pod_uid,
            status.container_id,
            status.host_interface,
            status.guest_interface,
            status.vrf_interface,
            status.pod_subnet,
            status.pod_subnets,
        )
    )


def holder(attachment: VPCAttachment) -> str:
    """Who has the attachment, for messages: the Pod and the node."""
    status = attachment.status
    pod = f"Pod {status.pod_name}" if status.pod_name else "a guest"
    return f"{pod} on node {status.node}" if status.node else pod


def is_previous_holders(interface: NetworkInterface, attachment: VPCAttachment) -> bool:
    """Whether the attachment is still used for another claim than the one that holds the interface now."""
    claim, written_for = interface.spec.claim_ref, attachment.spec.claim_uid
    return claim is not None and written_for is not None and claim.uid != written_for and not are_empty(attachment)


def is_of_interface(attachment: VPCAttachment) -> bool:
    """Whether we made the attachment: for an interface of its name, of this or an earlier life.

    Whoever deletes an interface and asks to orphan what it owns leaves an attachment without owner, held by us.
    """
    if not attachment.metadata.owner_references:
        ref = attachment.spec.interface_ref
        return attachment.has_finalizer(cloud.IN_USE_FINALIZER) and ref is not None and ref.name == attachment.name
    return is_of_namesake(attachment, resources.INTERFACES)


def is_of_namesake(found: KubeObject, owners: Resource) -> bool:
    """Whether its controller is an object of that kind and of its own name, of this or an earlier life."""
    owner = found.controller_ref
    if owner is None:
        return False
    group, _, _ = owner.api_version.partition("/")
    return (group, owner.kind, owner.name) == (owners.group, owners.kind, found.name)


def owner_of(found: KubeObject) -> str:
    """Whom an object belongs to, for messages."""
    owner = found.controller_ref
    return f"{owner.kind} {owner.name} (uid {owner.uid})" if owner else "nobody that we know"
