"""A VPCAttachment as the agent takes it in hand: may this call have it, what is programmed, what is reported. Pure.

Everything that is programmed comes from here, that is from the API server; nothing of it from the network
configuration, which a tenant may have written.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface
from typing import Any

from pydantic import ValidationError

from netclaim import identity
from netclaim.api.cloud import HYPERVISOR, NETNS, VPCAttachment
from netclaim.api.meta import Raw
from node_agent.cni import refusals
from node_agent.cni.protocol import Call, Pointer
from node_agent.cni.refusals import Refusal
from node_agent.datapath.model import Attachment, GuestAddress, Mode, Vpc
from node_agent.datapath.plan import guest_mac

DEFAULT_MTU = 1460
"""MTU of an attachment that names none: the default of a Network."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who an attachment is: the 48-bit VPC and the 16-bit attachment identifier."""

    vpc: int
    attachment: int

    @property
    def device(self) -> str:
        """Name of the host end."""
        return identity.host_interface(self.vpc, self.attachment)


def read_attachment(pointer: Pointer, raw: Raw) -> VPCAttachment:
    """The object as a model. Raises Refusal(NOT_PROGRAMMABLE) when it is malformed."""
    try:
        return VPCAttachment.model_validate(raw)
    except ValidationError as error:
        raise Refusal(
            refusals.NOT_PROGRAMMABLE, attachment=pointer, why="the object is malformed", details=str(error)
        ) from error


def check_namespace(call: Call, pointer: Pointer) -> None:
    """Refuse a Pod that points to an attachment of another namespace. Needs no answer from the API server."""
    pod = call.pod
    if pod is not None and pod.namespace != pointer.namespace:
        raise Refusal(refusals.OTHER_NAMESPACE, pod=pod, attachment=pointer)


def check_pod(call: Call, mode: str) -> None:
    """Refuse a call for a namespace that does not say whose it is."""
    if call.pod is None and mode == NETNS:
        raise Refusal(refusals.NO_POD)


def check_identity(pointer: Pointer, attachment: VPCAttachment) -> Identity:
    """The attachment's identity; refused when it is going, has none yet, or is not what the configuration says."""
    status = attachment.status
    if attachment.is_going:
        raise Refusal(refusals.ATTACHMENT_GOING, attachment=pointer)
    if not status.vpc or not status.vpc_attachment:
        raise Refusal(refusals.NO_IDENTITY, attachment=pointer)
    if (status.vpc, status.vpc_attachment) != (pointer.vpc, pointer.attachment):
        raise Refusal(
            refusals.IDENTITY_DIFFERS,
            attachment=pointer,
            asked_vpc=pointer.vpc,
            asked=pointer.attachment,
            vpc=status.vpc,
            found=status.vpc_attachment,
        )
    try:
        return Identity(identity.from_base62(status.vpc), identity.from_base62(status.vpc_attachment))
    except ValueError as error:
        raise Refusal(refusals.NOT_PROGRAMMABLE, attachment=pointer, why=str(error)) from error


def check_free(call: Call, pointer: Pointer, attachment: VPCAttachment, departed: Collection[str]) -> None:
    """Refuse an attachment that records another container.

    ``departed``: containers that this node has detached from it and whose facts it has yet to clear.
    """
    status = attachment.status
    if status.container_id and status.container_id != call.container and status.container_id not in departed:
        raise Refusal(
            refusals.OTHER_CONTAINER,
            attachment=pointer,
            container=status.container_id,
            pod=status.pod_name or "unknown",
            node=status.node or "unknown",
        )


def plan_attachment(call: Call, pointer: Pointer, attachment: VPCAttachment, who: Identity, index: int) -> Attachment:
    """What the data path is to make. ``index``: the VPC's index on this node. Raises Refusal(NOT_PROGRAMMABLE)."""
    interface = attachment.spec.interface
    gateways = {ip_address(text).version: ip_address(text) for text in interface.gateways}
    addresses = []
    for text in interface.addresses:
        address = ip_interface(text)
        if address.version not in gateways:
            raise Refusal(refusals.NOT_PROGRAMMABLE, attachment=pointer, why=f"address {text} has no gateway")
        try:
            addresses.append(GuestAddress(address, gateways[address.version]))
        except ValueError as error:
            raise Refusal(refusals.NOT_PROGRAMMABLE, attachment=pointer, why=str(error)) from error
    mode = Mode.HYPERVISOR if interface.mode == HYPERVISOR else Mode.NETNS
    if mode is Mode.NETNS and not call.netns:
        raise Refusal(refusals.BAD_NAMESPACE, path="", why="the call names none")
    return Attachment(
        vpc=Vpc(who.vpc, index),
        identifier=who.attachment,
        mode=mode,
        mtu=interface.mtu or DEFAULT_MTU,
        guest_ifname=call.ifname,
        guest_mac=guest_mac(who.vpc, who.attachment),
        addresses=tuple(addresses),
        owner=owner_mark(call.container, call.ifname),
    )


def owner_mark(container: str, ifname: str) -> str:
    """What is written on the device: whose it is."""
    return f"{container}/{ifname}"


def node_facts(node: str, call: Call, attachment: Attachment) -> dict[str, Any]:
    """The complete set of VPCAttachment.status fields that the agent owns; no value is ever null."""
    pod = call.pod
    blocks = [str(address.block) for address in attachment.addresses]
    facts: dict[str, Any] = {
        "node": node,
        "containerID": call.container,
        "hostInterface": attachment.device,
        "guestInterface": attachment.guest_ifname,
        "vrfInterface": attachment.vpc.vrf,
    }
    if pod is not None:
        facts["podName"] = pod.name
        if pod.uid:
            facts["podUID"] = pod.uid
    if blocks:
        facts["podSubnet"] = blocks[0]
        facts["podSubnets"] = blocks
    return facts
