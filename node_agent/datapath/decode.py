"""Netlink messages as kernel objects: what was received, read through ``get`` as pyroute2 hands it over. Pure.

What is decoded compares equal to what the planner wants exactly when it does the same: a default of the kernel's own
is left out on both sides, and what we never install decodes to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_interface, ip_network
from typing import Literal

from node_agent.datapath.messages import (
    FAMILY_OF_NUMBER,
    IFF_LOWER_UP,
    IFF_UP,
    NOPREFIXROUTE,
    PERMANENT,
    PROXY,
    RED,
    ROUTE_TYPES,
    RULE_BLACKHOLE,
    RULE_LOOKUP,
    SEG6,
    SEG6_LOCAL,
    Received,
)
from node_agent.datapath.names import LINK_GROUP, PROTOCOL
from node_agent.datapath.objects import (
    Decapsulate,
    DeviceAddress,
    Encapsulate,
    Neighbour,
    ProxyNeighbour,
    Route,
    RouteKind,
    Rule,
)

_IPV6_DEFAULT_METRIC = 1024
_TENTATIVE_OR_FAILED = 0x40 | 0x08
_ACTIONS: dict[int, Literal["End.DX4", "End.DX6", "End.DT46"]] = {6: "End.DX4", 5: "End.DX6", 16: "End.DT46"}
_OPERATING = frozenset({0, 6})
"""IF_OPER_UNKNOWN (a device that never says) and IF_OPER_UP."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as the kernel describes it. ``peer``: the index of the other end of a veth, in its own namespace."""

    name: str
    index: int
    kind: str
    mac: str
    mtu: int
    up: bool
    running: bool
    alias: str
    group: int
    master: int
    peer: int

    @property
    def ours(self) -> bool:
        """Whether it carries our mark."""
        return self.group == LINK_GROUP


def device(message: Received) -> Device:
    """A device from RTM_NEWLINK."""
    information = message.get("IFLA_LINKINFO")
    return Device(
        name=message.get("IFLA_IFNAME"),
        index=message.get("index"),
        kind=(information.get("IFLA_INFO_KIND") if information is not None else None) or "",
        mac=message.get("IFLA_ADDRESS") or "",
        mtu=message.get("IFLA_MTU") or 0,
        up=bool(message.get("flags") & IFF_UP),
        running=bool(message.get("flags") & IFF_LOWER_UP) and message.get("IFLA_OPERSTATE") in _OPERATING,
        alias=message.get("IFLA_IFALIAS") or "",
        group=message.get("IFLA_GROUP") or 0,
        master=message.get("IFLA_MASTER") or 0,
        peer=message.get("IFLA_LINK") or 0,
    )


def rule(message: Received) -> Rule | None:
    """A rule from RTM_NEWRULE; None for an action that we never use."""
    family, action = FAMILY_OF_NUMBER.get(message.get("family")), message.get("action")
    if family is None or action not in (RULE_LOOKUP, RULE_BLACKHOLE):
        return None
    source, destination = message.get("FRA_SRC"), message.get("FRA_DST")
    return Rule(
        family=family,
        priority=message.get("FRA_PRIORITY") or 0,
        table=message.get("FRA_TABLE") if action == RULE_LOOKUP else None,
        iif=message.get("FRA_IIFNAME"),
        oif=message.get("FRA_OIFNAME"),
        source=ip_network(f"{source}/{message.get('src_len')}") if source else None,
        destination=ip_network(f"{destination}/{message.get('dst_len')}") if destination else None,
        mark=message.get("FRA_FWMARK"),
        ours=message.get("FRA_PROTOCOL") == PROTOCOL,
    )


def route(message: Received, device_name: Mapping[int, str]) -> Route | None:
    """A route from RTM_NEWROUTE; None for a kind that we never use."""
    family = FAMILY_OF_NUMBER.get(message.get("family"))
    kind = next((k for k, number in ROUTE_TYPES.items() if number == message.get("type")), None)
    if family is None or kind is None:
        return None
    destination = message.get("RTA_DST") or ("0.0.0.0" if family == 4 else "::")
    metric, via, source = message.get("RTA_PRIORITY"), message.get("RTA_GATEWAY"), message.get("RTA_PREFSRC")
    index = message.get("RTA_OIF")
    return Route(
        table=message.get("RTA_TABLE") or message.get("table"),
        destination=ip_network(f"{destination}/{message.get('dst_len')}"),
        kind=kind,
        dev=device_name.get(index, f"#{index}") if index else None,
        via=ip_address(via) if via else None,
        source=ip_address(source) if source else None,
        metric=None if metric in (None, 0, _IPV6_DEFAULT_METRIC) else metric,
        encap=_encap(message),
        ours=message.get("proto") == PROTOCOL,
    )


def is_local(message: Received) -> bool:
    """Whether a route leads to the namespace itself."""
    return bool(message.get("type") == ROUTE_TYPES[RouteKind.LOCAL])


def _encap(message: Received) -> Encapsulate | Decapsulate | None:
    kind, content = message.get("RTA_ENCAP_TYPE"), message.get("RTA_ENCAP")
    if kind == SEG6:
        segments = content.get("SEG6_IPTUNNEL_SRH")
        # Anything but one segment in reduced form is not what we install: it compares as nothing.
        if segments["mode"] == RED and len(segments["segs"]) == 1:
            return Encapsulate(IPv6Address(segments["segs"][0]))
    if kind == SEG6_LOCAL:
        hop = content.get("SEG6_LOCAL_NH4") or content.get("SEG6_LOCAL_NH6")
        table = content.get("SEG6_LOCAL_VRFTABLE")
        action = _ACTIONS.get(content.get("SEG6_LOCAL_ACTION"))
        if action is not None:
            return Decapsulate(action, ip_address(hop) if hop else None, table)
    return None


def neighbour(message: Received, dev: str) -> Neighbour | ProxyNeighbour | None:
    """A permanent or proxied neighbour from RTM_NEWNEIGH; None for a learned one."""
    address = message.get("NDA_DST")
    if message.get("flags") & PROXY:
        return ProxyNeighbour(dev, ip_address(address))
    if not message.get("state") & PERMANENT:
        return None
    return Neighbour(dev, ip_address(address), message.get("NDA_LLADDR") or "")


def address(message: Received, dev: str) -> DeviceAddress | None:
    """An address from RTM_NEWADDR; None for one that is tentative or failed duplicate address detection."""
    flags = message.get("IFA_FLAGS") or 0
    if flags & _TENTATIVE_OR_FAILED:
        return None
    interface = ip_interface(f"{message.get('IFA_LOCAL') or message.get('IFA_ADDRESS')}/{message.get('prefixlen')}")
    return DeviceAddress(dev, interface, prefix_route=not flags & NOPREFIXROUTE)
