"""The planner: from a node, a VPC, an attachment or a remote prefix to ordered steps. Pure.

Both backends stand on one design: every VPC has a table T for its own routes and a veth pair through which packets
for other nodes leave T; behind it they are encapsulated in a table T' that nothing else reaches, so a guest can
never address a segment. Without VRF, rules by device lead into T; with VRF, a VRF device does.

Order is what keeps it closed: rules and firewall elements are there before a host end is up, and a host end is down
before they go (a rule outlives its device and would revive for a new one of that name).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network, ip_network

from netclaim import identity
from node_agent.datapath import firewall
from node_agent.datapath.model import (
    GATEWAY_MAC,
    Address,
    Attachment,
    GuestAddress,
    Interface,
    Mode,
    NodeConfig,
    Prefix,
    RemoteNode,
    RemotePrefix,
    Routing,
    Sid,
    Vpc,
)
from node_agent.datapath.objects import (
    FAMILIES,
    AddElements,
    Create,
    Decapsulate,
    DeviceAddress,
    Element,
    Encapsulate,
    Ensure,
    EnsureHidden,
    Family,
    FlushTable,
    Link,
    LoadFirewall,
    Neighbour,
    Object,
    ProxyNeighbour,
    Remove,
    RemoveElements,
    RemoveLink,
    Route,
    RouteKind,
    Rule,
    SetLink,
    SetSysctl,
    SetTunnelSource,
    Step,
    Tap,
    TunnelSource,
    Veth,
    Vrf,
)

LOCAL_TABLE = 255
MAIN_TABLE = 254
LOCAL_PRIORITY = 30_000
"""Where the rule for the table ``local`` goes, behind all of ours: a guest's packet never sees the node's addresses."""

LAST_METRIC = 4_278_198_272
"""Metric of ``unreachable default``: behind a default route of the VPC's own."""
LOCAL_METRIC = 100
REMOTE_METRIC = 200
"""A guest that is here wins against an advertisement that says it is elsewhere (a late one, while it moves)."""

INNER_MAC = "02:00:00:00:00:02"
OUTER_MAC = "02:00:00:00:00:03"
PAIR_INNER: dict[int, Address] = {4: IPv4Address("169.254.0.1"), 6: IPv6Address("fe80::1")}
PAIR_OUTER: dict[int, Address] = {4: IPv4Address("169.254.0.2"), 6: IPv6Address("fe80::2")}
LINK_LOCAL_GATEWAY = IPv6Interface("fe80::1/64")
SOLICITED_NODES = IPv6Network("ff02::1:ff00:0/104")
DEFAULT: dict[Family, Prefix] = {4: IPv4Network("0.0.0.0/0"), 6: IPv6Network("::/0")}


@dataclass(frozen=True, slots=True)
class BringUp:
    """Putting an attachment up: first everything on the host, then, in the guest's namespace, its own end."""

    host: tuple[Step, ...]
    guest: tuple[Step, ...]


def guest_mac(vpc: int, attachment: int) -> str:
    """The MAC of a guest: locally administered, the same for the attachment wherever and however often it is made."""
    digest = hashlib.sha256(vpc.to_bytes(6, "big") + attachment.to_bytes(2, "big")).digest()
    return ":".join(f"{byte:02x}" for byte in (0x0A, *digest[:5]))


def tenant_table(config: NodeConfig, vpc: Vpc) -> int:
    """T: what a guest of the VPC can reach."""
    return config.tenant_tables + vpc.index


def underlay_table(config: NodeConfig, vpc: Vpc) -> int:
    """T': what is encapsulated behind the VPC's pair."""
    return config.underlay_tables + vpc.index


def sids(config: NodeConfig, vpc: Vpc) -> tuple[Sid, ...]:
    """The segments of a VPC on this node: locator /64, the VPC's 48 bits, a function of 16 bits."""

    def sid(family: int, function: int, action: str) -> Sid:
        return Sid(family, identity.sid(config.locator, vpc.identifier, function), action)

    if config.routing is Routing.VRF:
        return (sid(0, identity.SID_DT46, "End.DT46"),)
    return (sid(4, identity.SID_DX4, "End.DX4"), sid(6, identity.SID_DX6, "End.DX6"))


# -- the node ---------------------------------------------------------------------------------------------------------


def node_sysctls(config: NodeConfig) -> tuple[SetSysctl, ...]:
    """Forwarding on; no reverse path filter, redirects or source routes; ICMP answers follow the guest's mark."""
    settings = [
        SetSysctl("net/ipv4/ip_forward", "1"),
        SetSysctl("net/ipv6/conf/all/forwarding", "1"),
        SetSysctl(f"net/ipv4/conf/{config.uplink}/rp_filter", "0"),
        SetSysctl("net/ipv6/conf/default/seg6_enabled", "0", optional=True),
    ]
    for scope in ("all", "default"):
        settings += [
            SetSysctl(f"net/ipv4/conf/{scope}/{name}", "0")
            for name in ("rp_filter", "send_redirects", "accept_redirects", "accept_source_route")
        ]
        settings.append(SetSysctl(f"net/ipv6/conf/{scope}/accept_redirects", "0"))
    if config.routing is Routing.RULES:
        settings += [SetSysctl(f"net/ipv{family}/fwmark_reflect", "1") for family in FAMILIES]
    else:
        settings.append(SetSysctl("net/vrf/strict_mode", "1"))
        settings += [SetSysctl(f"net/ipv4/{kind}_l3mdev_accept", "0") for kind in ("tcp", "udp", "raw")]
    return tuple(settings)


def node_objects(config: NodeConfig) -> tuple[Object, ...]:
    """Rules and routes of the node itself: SIDs are looked up for packets from the uplink only."""
    found: list[Object] = [
        *(Rule(family=family, priority=LOCAL_PRIORITY, table=LOCAL_TABLE) for family in FAMILIES),
        unreachable(config.sid_table, DEFAULT[6]),
        Rule(family=6, priority=500, iif=config.uplink, destination=config.locator, table=config.sid_table),
        unreachable(MAIN_TABLE, config.locator_block),
    ]
    if config.routing is Routing.RULES:
        found += [unreachable(config.nexthop_table, DEFAULT[family]) for family in FAMILIES]
        found += [
            Rule(family=4, priority=501, iif=config.uplink, destination=config.nexthops4, table=config.nexthop_table),
            Rule(family=6, priority=501, iif=config.uplink, destination=config.nexthops6, table=config.nexthop_table),
        ]
    return tuple(found)


def node_up(config: NodeConfig) -> tuple[Step, ...]:
    """Everything a node needs once. The rule for ``local`` is added behind ours before the kernel's own is removed."""
    return (
        *node_sysctls(config),
        LoadFirewall(firewall.ruleset(config)),
        *(Ensure(each) for each in node_objects(config)),
        *(Remove(Rule(family=family, priority=0, table=LOCAL_TABLE, ours=False)) for family in FAMILIES),
        SetTunnelSource(TunnelSource(config.tunnel_source)),
    )


def locator_route(config: NodeConfig, node: RemoteNode, gateway: IPv6Address | None = None) -> Route:
    """The route to another node's locator; ``gateway``: the router towards its underlay address, None when on link."""
    return Route(table=MAIN_TABLE, destination=node.locator, dev=config.uplink, via=gateway or node.underlay)


# -- a VPC ------------------------------------------------------------------------------------------------------------


def vpc_links(config: NodeConfig, vpc: Vpc) -> tuple[Link, ...]:
    """The devices of a VPC: its pair, and its VRF where there is one."""
    alias = f"netclaim vpc {vpc.identifier:x}"
    mtu = _mtu(config)
    pair = Veth(name=vpc.inner, mac=INNER_MAC, mtu=mtu, alias=alias, peer=vpc.outer, peer_mac=OUTER_MAC)
    if config.routing is Routing.RULES:
        return (pair,)
    return (Vrf(name=vpc.vrf, table=tenant_table(config, vpc), alias=alias), pair)


def vpc_devices(config: NodeConfig, vpc: Vpc) -> tuple[str, ...]:
    """The names of the devices of a VPC."""
    pair = (vpc.inner, vpc.outer)
    return pair if config.routing is Routing.RULES else (*pair, vpc.vrf)


def vpc_tables(config: NodeConfig, vpc: Vpc) -> tuple[Route, ...]:
    """What T and T' hold before anything else: nothing is reachable, and the locator block never will be."""
    tenant, underlay = tenant_table(config, vpc), underlay_table(config, vpc)
    block_metric = 1 if config.routing is Routing.RULES else LAST_METRIC - 1
    return (
        *(unreachable(table, DEFAULT[family]) for table in (tenant, underlay) for family in FAMILIES),
        Route(
            table=tenant, destination=config.locator_block, kind=RouteKind.UNREACHABLE, dev="lo", metric=block_metric
        ),
    )


def vpc_rules(config: NodeConfig, vpc: Vpc) -> tuple[Rule, ...]:
    """The rules of a VPC's pair; without VRF also the one that leads the node's ICMP answers into T by their mark."""
    tenant, underlay = tenant_table(config, vpc), underlay_table(config, vpc)
    block = config.locator_block
    if config.routing is Routing.VRF:
        rules = [Rule(family=6, priority=899, iif=vpc.outer, destination=block, table=MAIN_TABLE)]
        for family in FAMILIES:
            rules.append(Rule(family=family, priority=900, iif=vpc.outer, table=underlay))
            rules.append(Rule(family=family, priority=901, iif=vpc.outer, table=None))
        return tuple(rules)
    rules = [Rule(family=6, priority=1999, iif=vpc.outer, destination=block, table=MAIN_TABLE)]
    for family in FAMILIES:
        rules.append(Rule(family=family, priority=3000, iif="lo", mark=vpc.mark, table=tenant))
        for device, table in ((vpc.inner, tenant), (vpc.outer, underlay)):
            rules.append(Rule(family=family, priority=2000, iif=device, table=table))
            rules.append(Rule(family=family, priority=2001, iif=device, table=None))
    return tuple(rules)


def vpc_segments(config: NodeConfig, vpc: Vpc) -> tuple[Object, ...]:
    """What the pair needs once it is up: neighbours, next hops, the SIDs.

    The SIDs hang on the pair (or the VRF), not on the uplink: an uplink that flaps would take them along. End.DX4 and
    End.DX6 look their next hop up with the uplink as input device, so it has to be an address that no tenant can pick.
    """
    outwards: tuple[Object, ...] = tuple(Neighbour(vpc.inner, PAIR_OUTER[family], OUTER_MAC) for family in FAMILIES)
    if config.routing is Routing.VRF:
        (sid,) = sids(config, vpc)
        end = Decapsulate("End.DT46", vrf_table=tenant_table(config, vpc))
        return (*outwards, _segment(config, sid, end, vpc.vrf))
    inwards = tuple(Neighbour(vpc.outer, PAIR_INNER[family], INNER_MAC) for family in FAMILIES)
    hop4, hop6 = config.nexthops4[vpc.index], config.nexthops6[vpc.index]
    hops = tuple(
        Route(table=config.nexthop_table, destination=ip_network(hop), dev=vpc.outer, via=PAIR_INNER[hop.version])
        for hop in (hop4, hop6)
    )
    sid4, sid6 = sids(config, vpc)
    return (
        *outwards,
        *inwards,
        *hops,
        _segment(config, sid4, Decapsulate("End.DX4", nexthop=hop4), vpc.outer),
        _segment(config, sid6, Decapsulate("End.DX6", nexthop=hop6), vpc.outer),
    )


def vpc_up(config: NodeConfig, vpc: Vpc) -> tuple[Step, ...]:
    """Everything of a VPC, before its first attachment."""
    vrf = config.routing is Routing.VRF
    steps: list[Step] = []
    if vrf:
        steps += [Create(vpc_links(config, vpc)[0])]
    steps += [Ensure(route) for route in vpc_tables(config, vpc)]
    if vrf:
        steps += [SetLink(vpc.vrf, up=True)]
    steps += [Create(vpc_links(config, vpc)[-1])]
    steps += [Ensure(rule) for rule in vpc_rules(config, vpc)]
    steps += [SetSysctl(f"net/ipv4/conf/{device}/rp_filter", "0") for device in (vpc.inner, vpc.outer)]
    if vrf:
        steps += [SetLink(vpc.inner, master=vpc.vrf)]
    steps += [SetLink(vpc.inner, up=True), SetLink(vpc.outer, up=True)]
    steps += [Ensure(each) for each in vpc_segments(config, vpc)]
    return tuple(steps)


def vpc_down(config: NodeConfig, vpc: Vpc) -> tuple[Step, ...]:
    """The reverse, after its last attachment: the pair takes routes, next hops, neighbours and SIDs along."""
    steps: list[Step] = [RemoveLink(vpc.inner)]
    if config.routing is Routing.VRF:
        steps += [RemoveLink(vpc.vrf)]
    steps += [FlushTable(tenant_table(config, vpc)), FlushTable(underlay_table(config, vpc))]
    steps += [Remove(each) for each in vpc_segments(config, vpc) if isinstance(each, Route)]
    steps += [Remove(rule) for rule in reversed(vpc_rules(config, vpc))]
    return tuple(steps)


# -- a gateway --------------------------------------------------------------------------------------------------------


def gateway_objects(config: NodeConfig, vpc: Vpc, gateway: Address) -> tuple[Object, ...]:
    """Without VRF: the gateway is an address of the pair (so the node can answer with it) and local in T alone."""
    if config.routing is Routing.VRF:
        return ()
    host = _host(gateway)
    return (
        DeviceAddress(vpc.inner, host),
        Route(table=tenant_table(config, vpc), destination=host.network, kind=RouteKind.LOCAL, dev="lo"),
    )


def gateway_up(config: NodeConfig, vpc: Vpc, gateway: Address) -> tuple[Step, ...]:
    """A tenant picks the gateway's address: it must not stay in the table ``local``, or the node would lose its own."""
    if config.routing is Routing.VRF:
        return ()
    address = DeviceAddress(vpc.inner, _host(gateway))
    (local,) = [each for each in gateway_objects(config, vpc, gateway) if isinstance(each, Route)]
    return (EnsureHidden(address, hidden_local(vpc, gateway)), Ensure(local))


def gateway_down(config: NodeConfig, vpc: Vpc, gateway: Address) -> tuple[Step, ...]:
    """After the last attachment behind this gateway. Its address stays on the pair until the VPC goes.

    A device that loses its last IPv4 address loses its IPv4 neighbours and routes too, the VPC's remote ones with them.
    """
    return tuple(Remove(each) for each in gateway_objects(config, vpc, gateway) if isinstance(each, Route))


# -- an attachment ----------------------------------------------------------------------------------------------------


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
    """What opens the device in the firewall: its own sources, and (without VRF) the mark of its VPC."""
    device = attachment.device
    elements: list[Element] = []
    for each in attachment.addresses:
        elements.append(Element("inet", "src4" if family_of(each) == 4 else "src6", device, each.block))
        if family_of(each) == 4:
            elements.append(Element("arp", "src4", device, each.block))
    if config.routing is Routing.RULES:
        elements.append(Element("inet", "marks", device, value=attachment.vpc.mark))
    return tuple(elements)


def before_up(config: NodeConfig, attachment: Attachment, netns: str | None) -> tuple[Step, ...]:
    """The device, down, and everything that keeps it to its own VPC."""
    device = attachment.device
    steps: list[Step] = [
        Create(attachment_link(attachment, netns)),
        *(Ensure(rule) for rule in attachment_rules(config, attachment)),
        SetSysctl(f"net/ipv4/conf/{device}/rp_filter", "0"),
        SetSysctl(f"net/ipv6/conf/{device}/accept_ra", "0", optional=True),
    ]
    if config.routing is Routing.VRF:
        steps.append(SetLink(device, master=attachment.vpc.vrf))
    elif 6 in families(attachment):
        steps += [
            SetSysctl(f"net/ipv6/conf/{device}/proxy_ndp", "1"),
            SetSysctl(f"net/ipv6/neigh/{device}/proxy_delay", "0"),
        ]
    steps.append(AddElements(attachment_elements(config, attachment)))
    return tuple(steps)


def host_objects(config: NodeConfig, attachment: Attachment) -> tuple[Object, ...]:
    """What the host end holds while it is up: addresses, neighbours, the routes to the guest."""
    device, tenant = attachment.device, tenant_table(config, attachment.vpc)
    vrf = config.routing is Routing.VRF
    found: list[Object] = []
    if vrf:
        found += [DeviceAddress(device, _host(gateway)) for gateway in gateways(attachment)]
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


def guest_objects(attachment: Attachment) -> tuple[Object, ...]:
    """What the guest's end holds: its addresses, its gateways as neighbours, a default route a family, onlink."""
    device = attachment.guest_ifname
    found: list[Object] = [DeviceAddress(device, each.interface) for each in attachment.addresses]
    found += [Neighbour(device, gateway, GATEWAY_MAC) for gateway in gateways(attachment)]
    first: dict[Family, Address] = {}
    for each in attachment.addresses:
        first.setdefault(family_of(each), each.gateway)
    found += [
        Route(table=MAIN_TABLE, destination=DEFAULT[family], dev=device, via=gateway)
        for family, gateway in sorted(first.items())
    ]
    return tuple(found)


def bring_up(config: NodeConfig, attachment: Attachment) -> BringUp:
    """Host first, guest last: by the time the guest can send, everything that its packets need is there."""
    device, inside = attachment.device, attachment.guest_ifname
    host = host_objects(config, attachment)
    early = tuple(Ensure(each) for each in host if isinstance(each, DeviceAddress))
    late = tuple(Ensure(each) for each in host if not isinstance(each, DeviceAddress))
    on_host: tuple[Step, ...] = (*early, SetLink(device, up=True), *late)
    if attachment.mode is Mode.HYPERVISOR:
        return BringUp(on_host, ())
    guest = guest_objects(attachment)
    steps: list[Step] = []
    if 6 in families(attachment):
        steps += [
            SetSysctl(f"net/ipv6/conf/{inside}/disable_ipv6", "0", optional=True),
            SetSysctl(f"net/ipv6/conf/{inside}/accept_ra", "0", optional=True),
        ]
    steps.append(SetLink(inside, no_link_local=True))
    steps += [Ensure(each) for each in guest if not isinstance(each, Route)]
    steps.append(SetLink(inside, up=True))
    steps += [Ensure(each) for each in guest if isinstance(each, Route)]
    return BringUp(on_host, tuple(steps))


def detach(config: NodeConfig, attachment: Attachment) -> tuple[Step, ...]:
    """Close first: the device goes down and away (with its routes and neighbours), then the firewall, rules last."""
    device = attachment.device
    return (
        SetLink(device, up=False),
        RemoveLink(device),
        RemoveElements(attachment_elements(config, attachment)),
        *(Remove(rule) for rule in reversed(attachment_rules(config, attachment))),
    )


# -- prefixes elsewhere -----------------------------------------------------------------------------------------------


def remote_objects(config: NodeConfig, vpc: Vpc, remote: RemotePrefix) -> tuple[Route, Route]:
    """The two routes of a prefix on another node: behind the pair it is encapsulated, in T it leads to the pair."""
    return (
        Route(
            table=underlay_table(config, vpc),
            destination=remote.prefix,
            dev=vpc.outer,
            metric=REMOTE_METRIC,
            encap=Encapsulate(remote.sid),
        ),
        Route(
            table=tenant_table(config, vpc),
            destination=remote.prefix,
            dev=vpc.inner,
            via=PAIR_OUTER[remote.prefix.version],
            metric=REMOTE_METRIC,
        ),
    )


def accept_remote(config: NodeConfig, remote: RemotePrefix) -> None:
    """Refuse what would reopen the way to the segments. Raises ValueError.

    A prefix that merely covers the block (a default route) is harmless: T holds the block itself as unreachable.
    """
    block = config.locator_block
    if isinstance(remote.prefix, IPv6Network) and remote.prefix.subnet_of(block):
        raise ValueError(f"the prefix {remote.prefix} lies inside the locator block {block}")
    if remote.sid not in block:
        raise ValueError(f"the segment {remote.sid} of {remote.prefix} lies outside the locator block {block}")


# -- small things -----------------------------------------------------------------------------------------------------


def unreachable(table: int, destination: Prefix) -> Route:
    """The last resort of a table. (The kernel hangs an IPv6 route of this kind on ``lo``: said here, to compare.)"""
    dev = "lo" if destination.version == 6 else None
    return Route(table=table, destination=destination, kind=RouteKind.UNREACHABLE, dev=dev, metric=LAST_METRIC)


def family_of(address: GuestAddress) -> Family:
    """4 or 6."""
    return 4 if address.interface.version == 4 else 6


def families(attachment: Attachment) -> frozenset[Family]:
    """The families that an attachment has addresses of."""
    return frozenset(family_of(each) for each in attachment.addresses)


def gateways(attachment: Attachment) -> tuple[Address, ...]:
    """The gateways of an attachment, each once, in order."""
    return tuple(dict.fromkeys(each.gateway for each in attachment.addresses))


def gateways_in_use(attachments: Iterable[Attachment], vpc: Vpc) -> frozenset[Address]:
    """The gateways that the live attachments of a VPC need: the reference count is this set, never a number kept."""
    return frozenset(gateway for each in attachments if each.vpc == vpc for gateway in gateways(each))


def _segment(config: NodeConfig, sid: Sid, end: Decapsulate, dev: str) -> Route:
    return Route(table=config.sid_table, destination=IPv6Network(sid.address), dev=dev, encap=end)


def _host(address: Address) -> Interface:
    return IPv4Interface(address) if isinstance(address, IPv4Address) else IPv6Interface(address)


def hidden_local(vpc: Vpc, gateway: Address) -> Route:
    """The route that the kernel adds for a gateway on the pair, and that must not stay."""
    return Route(table=LOCAL_TABLE, destination=_host(gateway).network, kind=RouteKind.LOCAL, dev=vpc.inner, ours=False)


def _mtu(config: NodeConfig) -> int:
    if config.mtu is None:
        raise ValueError("the MTU of the node's overlay is not known yet")
    return config.mtu
