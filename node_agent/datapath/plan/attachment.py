"""Plans for an attachment: the device, what keeps it to its own VPC, putting it up, taking it away. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_network

from node_agent.datapath.model import GATEWAY_MAC, Address, Attachment, Mode, NodeConfig, Prefix, Routing, Vpc
from node_agent.datapath.objects import (
    FAMILIES,
    AddElements,
    Create,
    DeviceAddress,
    Element,
    Ensure,
    Link,
    Neighbour,
    Object,
    ProxyNeighbour,
    Remove,
    RemoveElements,
    RemoveLink,
    Route,
    Rule,
    SetLink,
    SetSysctl,
    Step,
    Tap,
    Veth,
    map_of,
)
from node_agent.datapath.plan.common import (
    LINK_LOCAL_GATEWAY,
    LOCAL_METRIC,
    LOCAL_TABLE,
    SOLICITED_NODES,
    families,
    family_of,
    gateways,
    host_interface,
    skip_source_lookup,
    tenant_table,
)
from node_agent.datapath.plan.guest import guest_up


@dataclass(frozen=True, slots=True)
class BringUp:
    """Putting an attachment up: first everything on the host, then, in the guest's namespace, its own end."""

    host: tuple[Step, ...]
    guest: tuple[Step, ...]


def guest_mac(vpc: int, attachment: int) -> str:
    """The MAC of a guest: locally administered, the same for the attachment wherever and however often it is made."""
    digest = hashlib.sha256(vpc.to_bytes(6, "big") + attachment.to_bytes(2, "big")).digest()
    return ":".join(f"{byte:02x}" for byte in (0x0A, *digest[:5]))


def attachment_link(attachment: Attachment, netns: str | None) -> Link:
    """The device of an attachment, down: a veth whose peer is born in ``netns``, or a persistent tap."""
    if attachment.mode is Mode.HYPERVISOR:
        return Tap(name=attachment.device, mac=GATEWAY_MAC, mtu=attachment.mtu, alias=alias(attachment.owner))
    return Veth(
        name=attachment.device,
        mac=GATEWAY_MAC,
        mtu=attachment.mtu,
        alias=alias(attachment.owner),
        peer=attachment.guest_ifname,
        peer_mac=attachment.guest_mac,
        netns=netns,
    )


def alias(owner: str) -> str:
    """The alias of an attachment's device: it says whose it is."""
    return f"netclaim {owner}"


def attachment_rules(config: NodeConfig, attachment: Attachment) -> tuple[Rule, ...]:
    """Without VRF: own sources go to T, everything else of this device nowhere; neighbour solicitations to the node."""
    if config.routing is Routing.VRF:
        return ()
    device, tenant = attachment.device, tenant_table(config, attachment.vpc)
    rules = [Rule(family=family, priority=1001, iif=device, table=None) for family in FAMILIES]
    rules += [
        Rule(family=family_of(each), priority=1000, iif=device, source=each.block, table=tenant)
        for each in attachment.addresses
    ]
    if 6 in families(attachment):
        solicited: tuple[Prefix, Prefix] = (SOLICITED_NODES, ip_network(LINK_LOCAL_GATEWAY.ip))
        rules += [Rule(family=6, priority=990, iif=device, destination=to, table=LOCAL_TABLE) for to in solicited]
        rules += [Rule(family=6, priority=1002, oif=device, table=tenant)]
    return tuple(rules)


def attachment_elements(config: NodeConfig, attachment: Attachment) -> tuple[Element, ...]:
    """What opens the device in the firewall: its own sources, each with (without VRF) the mark of its VPC."""
    device = attachment.device
    mark = attachment.vpc.mark if config.routing is Routing.RULES else 0
    elements: list[Element] = []
    for each in attachment.addresses:
        elements.append(Element("inet", map_of(each.block), device, each.block, mark))
        if family_of(each) == 4:
            elements.append(Element("arp", "src4", device, each.block))
    return tuple(elements)


def attachment_sysctls(config: NodeConfig, attachment: Attachment) -> tuple[SetSysctl, ...]:
    """Settings of the host end; without VRF it answers neighbour solicitations for the gateway, and at once."""
    device = attachment.device
    settings = [
        SetSysctl(f"net/ipv4/conf/{device}/rp_filter", "0"),
        SetSysctl(f"net/ipv6/conf/{device}/disable_ipv6", "0", optional=True),
        SetSysctl(f"net/ipv6/conf/{device}/accept_ra", "0", optional=True),
    ]
    if config.routing is Routing.RULES:
        settings.append(skip_source_lookup(device))
    if config.routing is Routing.RULES and 6 in families(attachment):
        settings.append(SetSysctl(f"net/ipv6/conf/{device}/proxy_ndp", "1"))
        settings.append(SetSysctl(f"net/ipv6/neigh/{device}/proxy_delay", "0"))
    return tuple(settings)


def before_up(config: NodeConfig, attachment: Attachment, netns: str | None) -> tuple[Step, ...]:
    """The device, down, and everything that keeps it to its own VPC."""
    device = attachment.device
    steps: list[Step] = [
        Create(attachment_link(attachment, netns)),
        *(Ensure(rule) for rule in attachment_rules(config, attachment)),
        *attachment_sysctls(config, attachment),
    ]
    if config.routing is Routing.VRF:
        steps.append(SetLink(device, master=attachment.vpc.vrf))
    steps.append(AddElements(attachment_elements(config, attachment)))
    return tuple(steps)


def host_objects(config: NodeConfig, attachment: Attachment) -> tuple[Object, ...]:
    """What the host end holds while it is up: addresses, neighbours, the routes to the guest."""
    device, tenant = attachment.device, tenant_table(config, attachment.vpc)
    vrf = config.routing is Routing.VRF
    found: list[Object] = []
    if vrf:
        found += [DeviceAddress(device, host_interface(gateway)) for gateway in gateways(attachment)]
    if 6 in families(attachment):
        found.append(DeviceAddress(device, LINK_LOCAL_GATEWAY, prefix_route=True))
    found += [Neighbour(device, each.address, attachment.guest_mac) for each in attachment.addresses]
    if not vrf:
        found += [ProxyNeighbour(device, gateway) for gateway in gateways(attachment) if gateway.version == 6]
    for each in attachment.addresses:
        found.append(
            Route(
                table=tenant,
                destination=each.block,
                dev=device,
                via=None if each.block.num_addresses == 1 else each.address,
                source=None if vrf else each.gateway,
                metric=LOCAL_METRIC,
            )
        )
    return tuple(found)


def bring_up(config: NodeConfig, attachment: Attachment) -> BringUp:
    """Host first, guest last: by the time the guest can send, everything that its packets need is there."""
    device = attachment.device
    host = host_objects(config, attachment)
    early = tuple(Ensure(each) for each in host if isinstance(each, DeviceAddress))
    late = tuple(Ensure(each) for each in host if not isinstance(each, DeviceAddress))
    on_host: tuple[Step, ...] = (*early, SetLink(device, up=True), *late)
    if attachment.mode is Mode.HYPERVISOR:
        return BringUp(on_host, ())
    return BringUp(on_host, guest_up(attachment))


def detach(config: NodeConfig, attachment: Attachment) -> tuple[Step, ...]:
    """Close first: the device goes (with its other end, its routes and neighbours), then the firewall, rules last."""
    return (
        RemoveLink(attachment.device),
        RemoveElements(attachment_elements(config, attachment)),
        *(Remove(rule) for rule in reversed(attachment_rules(config, attachment))),
    )


def gateways_in_use(attachments: Iterable[Attachment], vpc: Vpc) -> frozenset[Address]:
    """The gateways that the live attachments of a VPC need: the reference count is this set, never a number kept."""
    return frozenset(gateway for each in attachments if each.vpc == vpc for gateway in gateways(each))
