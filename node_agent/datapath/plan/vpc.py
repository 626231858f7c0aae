"""Plans for a VPC on a node: its tables, its pair, its segments, its gateways, its prefixes elsewhere. Pure."""

from __future__ import annotations

from ipaddress import IPv6Network, ip_network

from netclaim import identity
from node_agent.datapath.model import Address, NodeConfig, RemotePrefix, Routing, Sid, Vpc
from node_agent.datapath.objects import (
    FAMILIES,
    Create,
    Decapsulate,
    DeviceAddress,
    Encapsulate,
    Ensure,
    EnsureHidden,
    FlushTable,
    Link,
    Neighbour,
    Object,
    Remove,
    RemoveLink,
    Route,
    RouteKind,
    Rule,
    SetLink,
    SetSysctl,
    Step,
    Veth,
    Vrf,
)
from node_agent.datapath.plan.common import (
    DEFAULT,
    INNER_MAC,
    LAST_METRIC,
    LOCAL_TABLE,
    MAIN_TABLE,
    OUTER_MAC,
    PAIR_INNER,
    PAIR_OUTER,
    REMOTE_METRIC,
    host_interface,
    skip_source_lookup,
    tenant_table,
    underlay_table,
    unreachable,
)

_ALIAS = "netclaim vpc "
"""Begins the alias of every device of a VPC; its identifier in hex follows."""


def vpc_of_alias(alias: str) -> int | None:
    """The identifier of the VPC that a device belongs to, None when it is no VPC's."""
    digits = alias.removeprefix(_ALIAS)
    return int(digits, 16) if alias.startswith(_ALIAS) and digits.isalnum() else None


def sids(config: NodeConfig, vpc: Vpc) -> tuple[Sid, ...]:
    """The segments of a VPC on this node: locator /64, the VPC's 48 bits, a function of 16 bits."""

    def sid(family: int, function: int, action: str) -> Sid:
        return Sid(family, identity.sid(config.locator, vpc.identifier, function), action)

    if config.routing is Routing.VRF:
        return (sid(0, identity.SID_DT46, "End.DT46"),)
    return (sid(4, identity.SID_DX4, "End.DX4"), sid(6, identity.SID_DX6, "End.DX6"))


def vpc_links(config: NodeConfig, vpc: Vpc) -> tuple[Link, ...]:
    """The devices of a VPC: its pair, and its VRF where there is one."""
    alias = f"{_ALIAS}{vpc.identifier:x}"
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
    """The rules of a VPC's pair; without VRF also the one that leads the node's ICMP answers into T by their mark.

    Rules are walked one by one for every packet. Those of the pair come before those of the guests, so that what goes
    to or comes from another node does not pay for the number of guests.
    """
    vrf = config.routing is Routing.VRF
    ways = {vpc.outer: underlay_table(config, vpc)}
    if not vrf:
        ways[vpc.inner] = tenant_table(config, vpc)
    rules = [Rule(family=6, priority=899, iif=vpc.outer, destination=config.locator_block, table=MAIN_TABLE)]
    for family in FAMILIES:
        rules += [Rule(family=family, priority=900, iif=device, table=table) for device, table in ways.items()]
        rules += [Rule(family=family, priority=901 if vrf else 2001, iif=device, table=None) for device in ways]
        if not vrf:
            rules.append(Rule(family=family, priority=3000, iif="lo", mark=vpc.mark, table=ways[vpc.inner]))
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
    for device in vpc_devices(config, vpc):
        # Both may be the default of the node for new devices.
        steps += [SetSysctl(f"net/ipv6/conf/{device}/disable_ipv6", "0", optional=True)]
        steps += [SetSysctl(f"net/ipv4/conf/{device}/rp_filter", "0")]
        if not vrf:
            steps += [skip_source_lookup(device)]
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


def gateway_objects(config: NodeConfig, vpc: Vpc, gateway: Address) -> tuple[Object, ...]:
    """Without VRF: the gateway is an address of the pair (so the node can answer with it) and local in T alone."""
    if config.routing is Routing.VRF:
        return ()
    host = host_interface(gateway)
    return (
        DeviceAddress(vpc.inner, host),
        Route(table=tenant_table(config, vpc), destination=host.network, kind=RouteKind.LOCAL, dev="lo"),
    )


def gateway_up(config: NodeConfig, vpc: Vpc, gateway: Address) -> tuple[Step, ...]:
    """A tenant picks the gateway's address: it must not stay in the table ``local``, or the node would lose its own."""
    if config.routing is Routing.VRF:
        return ()
    address = DeviceAddress(vpc.inner, host_interface(gateway))
    (local,) = [each for each in gateway_objects(config, vpc, gateway) if isinstance(each, Route)]
    return (EnsureHidden(address, hidden_local(vpc, gateway)), Ensure(local))


def gateway_down(config: NodeConfig, vpc: Vpc, gateway: Address) -> tuple[Step, ...]:
    """After the last attachment behind this gateway. Its address stays on the pair until the VPC goes.

    A device that loses its last IPv4 address loses its IPv4 neighbours and routes too, the VPC's remote ones with them.
    """
    return tuple(Remove(each) for each in gateway_objects(config, vpc, gateway) if isinstance(each, Route))


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


def _segment(config: NodeConfig, sid: Sid, end: Decapsulate, dev: str) -> Route:
    return Route(table=config.sid_table, destination=IPv6Network(sid.address), dev=dev, encap=end)


def hidden_local(vpc: Vpc, gateway: Address) -> Route:
    """The route that the kernel adds for a gateway on the pair, and that must not stay."""
    return Route(
        table=LOCAL_TABLE, destination=host_interface(gateway).network, kind=RouteKind.LOCAL, dev=vpc.inner, ours=False
    )


def _mtu(config: NodeConfig) -> int:
    if config.mtu is None:
        raise ValueError("the MTU of the node's overlay is not known yet")
    return config.mtu
