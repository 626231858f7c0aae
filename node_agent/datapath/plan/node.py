"""Plans for a node: what it needs once, and the routes to the other nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address

from node_agent.datapath import firewall
from node_agent.datapath.model import NodeConfig, RemoteNode, Routing
from node_agent.datapath.objects import (
    FAMILIES,
    Element,
    Ensure,
    LoadFirewall,
    Object,
    Remove,
    Route,
    Rule,
    SetSysctl,
    SetTunnelSource,
    Step,
    TunnelSource,
)
from node_agent.datapath.plan.common import DEFAULT, LOCAL_PRIORITY, LOCAL_TABLE, MAIN_TABLE, unreachable


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


def node_up(config: NodeConfig, elements: Iterable[Element] = ()) -> tuple[Step, ...]:
    """Everything a node needs once; ``elements``: those of the guests that live on it already.

    The rule for ``local`` is added behind ours before the kernel's own is removed.
    """
    return (
        *node_sysctls(config),
        LoadFirewall(firewall.ruleset(config, elements)),
        *(Ensure(each) for each in node_objects(config)),
        *(Remove(Rule(family=family, priority=0, table=LOCAL_TABLE, ours=False)) for family in FAMILIES),
        SetTunnelSource(TunnelSource(config.tunnel_source)),
    )


def node_down(config: NodeConfig) -> tuple[Step, ...]:
    """The reverse: the kernel's own rule for ``local`` is back before ours goes; the firewall goes last."""
    return (
        *(Ensure(Rule(family=family, priority=0, table=LOCAL_TABLE, ours=False)) for family in FAMILIES),
        *(Remove(each) for each in reversed(node_objects(config))),
        SetTunnelSource(TunnelSource(IPv6Address(0))),
        LoadFirewall(firewall.REMOVAL, "remove the firewall tables"),
    )


def locator_route(config: NodeConfig, node: RemoteNode, gateway: IPv6Address | None = None) -> Route:
    """The route to another node's locator; ``gateway``: the router towards its underlay address, None when on link."""
    return Route(table=MAIN_TABLE, destination=node.locator, dev=config.uplink, via=gateway or node.underlay)
