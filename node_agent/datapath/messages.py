"""Kernel objects as netlink messages: plain data, fields and attributes by name. Pure.

Numbers are the kernel's (linux/rtnetlink.h, linux/fib_rules.h, linux/neighbour.h, linux/if_addr.h).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from socket import AF_INET, AF_INET6
from typing import Any, Protocol, TypeVar

from node_agent.datapath.model import Address
from node_agent.datapath.names import LINK_GROUP, PROTOCOL
from node_agent.datapath.objects import (
    Decapsulate,
    DeviceAddress,
    Encapsulate,
    Family,
    Neighbour,
    Object,
    ProxyNeighbour,
    Route,
    RouteKind,
    Rule,
    Tap,
    Veth,
    Vrf,
)

Decoded = TypeVar("Decoded")
Decoder = Callable[["Received"], Decoded | None]

GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.ENXIO, errno.EADDRNOTAVAIL})
"""What the kernel says of something that is not there: success for whoever wants it away."""

REQUEST, ACK, ROOT_DUMP = 0x1, 0x4, 0x300
REPLACE, EXCLUSIVE, CREATE = 0x100, 0x200, 0x400

NEW_LINK, DEL_LINK, GET_LINK = 16, 17, 18
NEW_ADDRESS, DEL_ADDRESS, GET_ADDRESS = 20, 21, 22
NEW_ROUTE, DEL_ROUTE, GET_ROUTE = 24, 25, 26
NEW_NEIGHBOUR, DEL_NEIGHBOUR, GET_NEIGHBOUR = 28, 29, 30
NEW_RULE, DEL_RULE, GET_RULE = 32, 33, 34

IFF_UP, IFF_LOWER_UP = 0x1, 0x10000
SKIP_STATISTICS = 0x8
ROUTE_ONLINK = 0x4
ROUTE_TYPES = {RouteKind.UNICAST: 1, RouteKind.LOCAL: 2, RouteKind.UNREACHABLE: 7}
SCOPE_UNIVERSE, SCOPE_LINK, SCOPE_HOST, SCOPE_NOWHERE = 0, 253, 254, 255
RULE_LOOKUP, RULE_BLACKHOLE = 1, 6
PERMANENT, PROXY = 0x80, 0x08
NODAD, NOPREFIXROUTE = 0x02, 0x200
SEG6, SEG6_LOCAL = 5, 7
RED = "encap.red"
WIDE_TABLE = 252
LOCAL_TABLE = 255
ADDR_GEN_NONE = 1

ACTIONS = {"End.DX6": 5, "End.DX4": 6, "End.DT46": 16}

_FAMILY_NUMBER: dict[int, int] = {4: AF_INET, 6: AF_INET6}
FAMILY_OF_NUMBER: dict[int, Family] = {AF_INET: 4, AF_INET6: 6}


class Received(Protocol):
    """A received message: fields and attributes by ``get`` with their names."""

    def get(self, key: str, default: Any = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Message:
    """One netlink request: ``kind`` names its layout, the rest is its content.

    ``namespace``: the path of a network namespace that the message refers to. It is opened by whoever sends the message
    and closed after the kernel took it: a descriptor kept any other way may by then be another namespace's.
    """

    kind: str
    type: int
    flags: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    attributes: tuple[tuple[str, Any], ...] = ()
    namespace: str | None = None


def family_number(family: int) -> int:
    """AF_INET or AF_INET6."""
    return _FAMILY_NUMBER[family]


# -- objects ----------------------------------------------------------------------------------------------------------


def devices_of(wanted: Object) -> tuple[str, ...]:
    """The devices whose index has to be known before the object can be written (rules go by name)."""
    if isinstance(wanted, Rule):
        return ()
    return (wanted.dev,) if wanted.dev is not None else ()


def ensure(wanted: Object, index: Mapping[str, int]) -> Message:
    """The message that installs an object; ``index``: device name to ifindex."""
    match wanted:
        case Rule():
            return Message("rule", NEW_RULE, REQUEST | ACK | CREATE | EXCLUSIVE, *_rule(wanted))
        case Route():
            return _new_route(wanted, index)
        case Neighbour():
            return Message(
                "neighbour",
                NEW_NEIGHBOUR,
                REQUEST | ACK | CREATE | REPLACE,
                {"family": _number(wanted.address), "ifindex": index[wanted.dev], "state": PERMANENT},
                (("NDA_DST", str(wanted.address)), ("NDA_LLADDR", wanted.mac)),
            )
        case ProxyNeighbour():
            return Message("neighbour", NEW_NEIGHBOUR, REQUEST | ACK | CREATE | REPLACE, *_proxy(wanted, index))
        case DeviceAddress():
            return Message("address", NEW_ADDRESS, REQUEST | ACK | CREATE | REPLACE, *_address(wanted, index))


def add_address(wanted: DeviceAddress, index: Mapping[str, int]) -> Message:
    """The message that adds an address, refused with EEXIST when it is there."""
    return Message("address", NEW_ADDRESS, REQUEST | ACK | CREATE | EXCLUSIVE, *_address(wanted, index))


def remove(unwanted: Object, index: Mapping[str, int]) -> Message:
    """The message that removes an object."""
    match unwanted:
        case Rule():
            return Message("rule", DEL_RULE, REQUEST | ACK, *_rule(unwanted))
        case Route():
            return _del_route(unwanted, index)
        case Neighbour():
            where = {"family": _number(unwanted.address), "ifindex": index[unwanted.dev]}
            return Message("neighbour", DEL_NEIGHBOUR, REQUEST | ACK, where, (("NDA_DST", str(unwanted.address)),))
        case ProxyNeighbour():
            return Message("neighbour", DEL_NEIGHBOUR, REQUEST | ACK, *_proxy(unwanted, index))
        case DeviceAddress():
            return Message("address", DEL_ADDRESS, REQUEST | ACK, *_address(unwanted, index))


def _table_field(table: int) -> int:
    """The header has one byte for the table; a larger one stands in the attribute."""
    return table if table < 256 else WIDE_TABLE


Content = tuple[dict[str, Any], tuple[tuple[str, Any], ...]]


def _number(address: object) -> int:
    return AF_INET6 if getattr(address, "version") == 6 else AF_INET  # noqa: B009


def _rule(rule: Rule) -> Content:
    fields = {
        "family": _FAMILY_NUMBER[rule.family],
        "action": RULE_BLACKHOLE if rule.table is None else RULE_LOOKUP,
        "table": _table_field(rule.table or 0),
    }
    attributes: list[tuple[str, Any]] = [("FRA_PRIORITY", rule.priority)]
    attributes += [("FRA_PROTOCOL", PROTOCOL)] if rule.ours else []
    attributes += [("FRA_TABLE", rule.table)] if rule.table is not None else []
    attributes += [("FRA_IIFNAME", rule.iif)] if rule.iif else []
    attributes += [("FRA_OIFNAME", rule.oif)] if rule.oif else []
    attributes += [("FRA_FWMARK", rule.mark)] if rule.mark is not None else []
    if rule.source is not None:
        fields["src_len"] = rule.source.prefixlen
        attributes.append(("FRA_SRC", str(rule.source.network_address)))
    if rule.destination is not None:
        fields["dst_len"] = rule.destination.prefixlen
        attributes.append(("FRA_DST", str(rule.destination.network_address)))
    return fields, tuple(attributes)


def _route_key(route: Route, index: Mapping[str, int]) -> Content:
    destination = route.destination
    fields = {
        "family": _FAMILY_NUMBER[destination.version],
        "dst_len": destination.prefixlen,
        "table": _table_field(route.table),
        "flags": ROUTE_ONLINK if route.via is not None else 0,
    }
    attributes: list[tuple[str, Any]] = [("RTA_TABLE", route.table)]
    attributes += [("RTA_DST", str(destination.network_address))] if destination.prefixlen else []
    attributes += [("RTA_PRIORITY", route.metric)] if route.metric is not None else []
    attributes += [("RTA_GATEWAY", str(route.via))] if route.via is not None else []
    if route.dev is not None:
        attributes.append(("RTA_OIF", index[route.dev]))
    return fields, tuple(attributes)


def _new_route(route: Route, index: Mapping[str, int]) -> Message:
    fields, attributes = _route_key(route, index)
    scope = SCOPE_UNIVERSE
    if route.kind is RouteKind.LOCAL:
        scope = SCOPE_HOST
    elif route.kind is RouteKind.UNICAST and route.via is None:
        scope = SCOPE_LINK
    fields |= {"type": ROUTE_TYPES[route.kind], "proto": PROTOCOL, "scope": scope}
    if route.source is not None:
        attributes += (("RTA_PREFSRC", str(route.source)),)
    match route.encap:
        case Encapsulate(sid=sid):
            segments = {"mode": RED, "segs": [str(sid)]}
            attributes += (("RTA_ENCAP_TYPE", SEG6), ("RTA_ENCAP", {"attrs": [("SEG6_IPTUNNEL_SRH", segments)]}))
        case Decapsulate() as end:
            attributes += (("RTA_ENCAP_TYPE", SEG6_LOCAL), ("RTA_ENCAP", {"attrs": _seg6local(end)}))
        case None:
            pass
    return Message("route", NEW_ROUTE, REQUEST | ACK | CREATE | REPLACE, fields, attributes)


def _del_route(route: Route, index: Mapping[str, int]) -> Message:
    fields, attributes = _route_key(route, index)
    fields |= {"type": ROUTE_TYPES[route.kind], "scope": SCOPE_NOWHERE, "proto": PROTOCOL if route.ours else 0}
    return Message("route", DEL_ROUTE, REQUEST | ACK, fields, attributes)


def remove_any(route: Route) -> Message:
    """The message that removes an observed route, whatever device and next hop it has."""
    fields = {
        "family": _FAMILY_NUMBER[route.destination.version],
        "dst_len": route.destination.prefixlen,
        "table": _table_field(route.table),
        "scope": SCOPE_NOWHERE,
    }
    attributes: list[tuple[str, Any]] = [("RTA_TABLE", route.table)]
    attributes += [("RTA_DST", str(route.destination.network_address))] if route.destination.prefixlen else []
    attributes += [("RTA_PRIORITY", route.metric)] if route.metric is not None else []
    return Message("route", DEL_ROUTE, REQUEST | ACK, fields, tuple(attributes))


def _seg6local(end: Decapsulate) -> list[tuple[str, Any]]:
    attributes: list[tuple[str, Any]] = [("SEG6_LOCAL_ACTION", ACTIONS[end.action])]
    if end.vrf_table is not None:
        attributes.append(("SEG6_LOCAL_VRFTABLE", end.vrf_table))
    if end.nexthop is not None:
        attributes.append((f"SEG6_LOCAL_NH{end.nexthop.version}", str(end.nexthop)))
    return attributes


def _proxy(proxy: ProxyNeighbour, index: Mapping[str, int]) -> Content:
    fields = {"family": _number(proxy.address), "ifindex": index[proxy.dev], "flags": PROXY, "state": PERMANENT}
    return fields, (("NDA_DST", str(proxy.address)),)


def _address(address: DeviceAddress, index: Mapping[str, int]) -> Content:
    interface = address.interface
    flags = (NODAD if interface.version == 6 else 0) | (0 if address.prefix_route else NOPREFIXROUTE)
    fields = {
        "family": _FAMILY_NUMBER[interface.version],
        "prefixlen": interface.network.prefixlen,
        "index": index[address.dev],
        "scope": SCOPE_LINK if interface.is_link_local else SCOPE_UNIVERSE,
    }
    return fields, (("IFA_LOCAL", str(interface.ip)), ("IFA_ADDRESS", str(interface.ip)), ("IFA_FLAGS", flags))


# -- devices ----------------------------------------------------------------------------------------------------------


def new_veth(veth: Veth) -> Message:
    """A veth pair in one message, the peer born in its namespace."""
    peer: list[tuple[str, Any]] = [("IFLA_IFNAME", veth.peer), ("IFLA_ADDRESS", veth.peer_mac), ("IFLA_MTU", veth.mtu)]
    peer.append(("IFLA_GROUP", LINK_GROUP) if veth.netns is None else ("IFLA_NET_NS_FD", veth.netns))
    made = _new_link(veth.name, "veth", [("VETH_INFO_PEER", {"attrs": peer})], mac=veth.mac, mtu=veth.mtu)
    return replace(made, namespace=veth.netns)


def new_vrf(vrf: Vrf) -> Message:
    """A VRF device."""
    return _new_link(vrf.name, "vrf", [("IFLA_VRF_TABLE", vrf.table)])


def _new_link(
    name: str, kind: str, data: list[tuple[str, Any]], *, mac: str | None = None, mtu: int | None = None
) -> Message:
    attributes: list[tuple[str, Any]] = [("IFLA_IFNAME", name), ("IFLA_GROUP", LINK_GROUP)]
    attributes += [("IFLA_ADDRESS", mac)] if mac is not None else []
    attributes += [("IFLA_MTU", mtu)] if mtu is not None else []
    attributes.append(("IFLA_LINKINFO", {"attrs": [("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", {"attrs": data})]}))
    return Message("link", NEW_LINK, REQUEST | ACK | CREATE | EXCLUSIVE, {}, tuple(attributes))


def adorn_link(device: str, alias: str) -> Message:
    """What cannot be part of the creating message: the alias, and no link-local address by itself."""
    return Message(
        "link", NEW_LINK, REQUEST | ACK, {}, (("IFLA_IFNAME", device), ("IFLA_IFALIAS", alias), _no_link_local())
    )


def adorn_tap(tap: Tap) -> Message:
    """A tap is made by an ioctl that takes a name only; everything else follows while it is still down."""
    attributes = (
        ("IFLA_IFNAME", tap.name),
        ("IFLA_IFALIAS", tap.alias),
        ("IFLA_ADDRESS", tap.mac),
        ("IFLA_MTU", tap.mtu),
        ("IFLA_GROUP", LINK_GROUP),
        _no_link_local(),
    )
    return Message("link", NEW_LINK, REQUEST | ACK, {}, attributes)


def set_hardware(device: str, mac: str, mtu: int) -> Message:
    """Set MAC and MTU of a device."""
    attributes = (("IFLA_IFNAME", device), ("IFLA_ADDRESS", mac), ("IFLA_MTU", mtu))
    return Message("link", NEW_LINK, REQUEST | ACK, {}, attributes)


def set_link(device: str, *, up: bool | None, master: int | None, no_link_local: bool) -> Message:
    """Change a device by its name."""
    fields = {} if up is None else {"flags": IFF_UP if up else 0, "change": IFF_UP}
    attributes: list[tuple[str, Any]] = [("IFLA_IFNAME", device)]
    attributes += [("IFLA_MASTER", master)] if master is not None else []
    attributes += [_no_link_local()] if no_link_local else []
    return Message("link", NEW_LINK, REQUEST | ACK, fields, tuple(attributes))


def del_link(index: int) -> Message:
    """Remove a device by its index: a new one of the same name is another."""
    return Message("link", DEL_LINK, REQUEST | ACK, {"index": index}, ())


def get_link(device: str) -> Message:
    """Read a device by its name."""
    return Message("link", GET_LINK, REQUEST | ACK, {}, (("IFLA_IFNAME", device), ("IFLA_EXT_MASK", SKIP_STATISTICS)))


def _no_link_local() -> tuple[str, Any]:
    return "IFLA_AF_SPEC", {"attrs": [("AF_INET6", {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", ADDR_GEN_NONE)]})]}


# -- dumps ------------------------------------------------------------------------------------------------------------


def dump_links() -> Message:
    """Every device (used by the sweep alone)."""
    return Message("link", GET_LINK, REQUEST | ROOT_DUMP, {}, (("IFLA_EXT_MASK", SKIP_STATISTICS),))


def dump_rules(family: int) -> Message:
    """The rules of a family: the kernel has no filter for them."""
    return Message("rule", GET_RULE, REQUEST | ROOT_DUMP, {"family": _FAMILY_NUMBER[family]})


def dump_routes(family: int, *, table: int | None = None, oif: int | None = None, ours: bool = True) -> Message:
    """Routes of a family, filtered by the kernel; ``ours``: only those of our making."""
    attributes: list[tuple[str, Any]] = [("RTA_TABLE", table)] if table is not None else []
    attributes += [("RTA_OIF", oif)] if oif is not None else []
    fields = {"family": _FAMILY_NUMBER[family], "proto": PROTOCOL if ours else 0}
    return Message("route", GET_ROUTE, REQUEST | ROOT_DUMP, fields, tuple(attributes))


def get_route(destination: Address) -> Message:
    """How the kernel would send a packet to an address."""
    fields = {"family": _number(destination), "dst_len": destination.max_prefixlen}
    return Message("route", GET_ROUTE, REQUEST | ACK, fields, (("RTA_DST", str(destination)),))


def dump_neighbours(family: int, index: int, *, proxies: bool) -> Message:
    """The neighbours (or the proxied ones) of a device."""
    fields = {"family": _FAMILY_NUMBER[family], "flags": PROXY if proxies else 0}
    return Message("neighbour", GET_NEIGHBOUR, REQUEST | ROOT_DUMP, fields, (("NDA_IFINDEX", index),))


def dump_addresses(family: int, index: int) -> Message:
    """The addresses of a device."""
    return Message("address", GET_ADDRESS, REQUEST | ROOT_DUMP, {"family": _FAMILY_NUMBER[family], "index": index})
