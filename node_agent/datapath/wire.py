"""Netlink messages as bytes, both ways. Pure.

Written out by hand for the five kinds of message that the data path uses: a general library takes a quarter of a
millisecond to encode one and more to decode one, and an attachment needs some thirty. The unit tests hold every
message against pyroute2's reading of it. Numbers and layouts: linux/rtnetlink.h, if_link.h, fib_rules.h, neighbour.h,
seg6_iptunnel.h, seg6_local.h.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from node_agent.datapath.messages import Message

HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_NESTED = 0x8000
_TYPE_MASK = 0x3FFF
ERROR, DONE = 2, 3
INTERRUPTED = 0x10
CAPPED, EXTENDED = 0x100, 0x200

_LAYOUTS = {
    "link": (struct.Struct("=BxHiII"), ("family", "type", "index", "flags", "change")),
    "address": (struct.Struct("=BBBBI"), ("family", "prefixlen", "flags", "scope", "index")),
    "route": (
        struct.Struct("=BBBBBBBBI"),
        ("family", "dst_len", "src_len", "tos", "table", "proto", "scope", "type", "flags"),
    ),
    "neighbour": (struct.Struct("=BxxxiHBB"), ("family", "ifindex", "state", "flags", "ndm_type")),
    "rule": (
        struct.Struct("=BBBBBBBBI"),
        ("family", "dst_len", "src_len", "tos", "table", "res1", "res2", "action", "flags"),
    ),
}

Table = dict[str, tuple[int, Any]]

_GEN_MODE: Table = {"IFLA_INET6_ADDR_GEN_MODE": (8, "u8")}
_AF_SPEC: Table = {"AF_INET6": (10, _GEN_MODE)}
_DATA: Table = {"VETH_INFO_PEER": (1, "peer"), "IFLA_VRF_TABLE": (1, "u32")}
_LINK_INFORMATION: Table = {"IFLA_INFO_KIND": (1, "text"), "IFLA_INFO_DATA": (2, _DATA)}
_LINK: Table = {
    "IFLA_ADDRESS": (1, "mac"),
    "IFLA_IFNAME": (3, "text"),
    "IFLA_MTU": (4, "u32"),
    "IFLA_LINK": (5, "u32"),
    "IFLA_MASTER": (10, "u32"),
    "IFLA_OPERSTATE": (16, "u8"),
    "IFLA_LINKINFO": (18, _LINK_INFORMATION),
    "IFLA_IFALIAS": (20, "text"),
    "IFLA_AF_SPEC": (26, _AF_SPEC),
    "IFLA_GROUP": (27, "u32"),
    "IFLA_NET_NS_FD": (28, "namespace"),
    "IFLA_EXT_MASK": (29, "u32"),
}
_SEG6: Table = {"SEG6_IPTUNNEL_SRH": (1, "srh")}
_SEG6_LOCAL: Table = {
    "SEG6_LOCAL_ACTION": (1, "u32"),
    "SEG6_LOCAL_NH4": (4, "address"),
    "SEG6_LOCAL_NH6": (5, "address"),
    "SEG6_LOCAL_VRFTABLE": (9, "u32"),
}
_ENCAPS = {5: _SEG6, 7: _SEG6_LOCAL}
_TABLES: dict[str, Table] = {
    "link": _LINK,
    "address": {"IFA_ADDRESS": (1, "address"), "IFA_LOCAL": (2, "address"), "IFA_FLAGS": (8, "u32")},
    "route": {
        "RTA_DST": (1, "address"),
        "RTA_OIF": (4, "u32"),
        "RTA_GATEWAY": (5, "address"),
        "RTA_PRIORITY": (6, "u32"),
        "RTA_PREFSRC": (7, "address"),
        "RTA_TABLE": (15, "u32"),
        "RTA_ENCAP_TYPE": (21, "u16"),
        "RTA_ENCAP": (22, "encap"),
    },
    "neighbour": {"NDA_DST": (1, "address"), "NDA_LLADDR": (2, "mac"), "NDA_IFINDEX": (8, "u32")},
    "rule": {
        "FRA_DST": (1, "address"),
        "FRA_SRC": (2, "address"),
        "FRA_IIFNAME": (3, "text"),
        "FRA_PRIORITY": (6, "u32"),
        "FRA_FWMARK": (10, "u32"),
        "FRA_TABLE": (15, "u32"),
        "FRA_OIFNAME": (17, "text"),
        "FRA_PROTOCOL": (21, "u8"),
    },
}
KINDS = {16: "link", 17: "link", 20: "address", 24: "route", 28: "neighbour", 32: "rule"}
_INTEGERS = {"u8": struct.Struct("=B"), "u16": struct.Struct("=H"), "u32": struct.Struct("=I")}
_SEGMENTS = struct.Struct("=IBBBBBBH")
_ROUTING_HEADER_TYPE = 4
_MODES = {"inline": 0, "encap": 1, "l2encap": 2, "encap.red": 3, "l2encap.red": 4}
_MODE_NAMES = {number: name for name, number in _MODES.items()}


# -- writing ----------------------------------------------------------------------------------------------------------


def encode(message: Message, sequence: int, namespace: int = -1) -> bytes:
    """One request as the kernel reads it; ``namespace``: the open descriptor of the one that it refers to.

    Raises KeyError for an attribute that is not in the tables.
    """
    layout, names = _LAYOUTS[message.kind]
    fields = layout.pack(*(message.fields.get(name, 0) for name in names))
    body = fields + _attributes(_TABLES[message.kind], message.attributes, namespace)
    return HEADER.pack(HEADER.size + len(body), message.type, message.flags, sequence, 0) + body


def _attributes(table: Table, attributes: Any, namespace: int) -> bytes:
    parts = []
    for name, value in attributes:
        number, kind = table[name]
        content = _content(kind, namespace if kind == "namespace" else value, attributes, namespace)
        if isinstance(kind, dict) or kind == "encap":
            number |= _NESTED
        length = _ATTRIBUTE.size + len(content)
        parts.append(_ATTRIBUTE.pack(length, number) + content + bytes(-length & 3))
    return b"".join(parts)


def _content(kind: Any, value: Any, siblings: Any, namespace: int) -> bytes:
    match kind:
        case "u8" | "u16" | "u32":
            return _INTEGERS[kind].pack(value)
        case "namespace":
            return _INTEGERS["u32"].pack(value)
        case "text":
            return str(value).encode() + b"\0"
        case "mac":
            return bytes.fromhex(value.replace(":", ""))
        case "address":
            return ip_address(value).packed
        case "peer":
            layout, _ = _LAYOUTS["link"]
            return layout.pack(0, 0, 0, 0, 0) + _attributes(_LINK, value["attrs"], namespace)
        case "encap":
            return _attributes(_ENCAPS[dict(siblings)["RTA_ENCAP_TYPE"]], value["attrs"], namespace)
        case "srh":
            return _routing_header(value)
    return _attributes(kind, value["attrs"], namespace)


def _routing_header(value: Any) -> bytes:
    segments = [IPv6Address(segment).packed for segment in value["segs"]]
    last = len(segments) - 1
    head = _SEGMENTS.pack(_MODES[value["mode"]], 0, 2 * len(segments), _ROUTING_HEADER_TYPE, last, last, 0, 0)
    return head + b"".join(segments)


# -- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a datagram: its type, flags, sequence number and body."""

    type: int
    flags: int
    sequence: int
    body: bytes


def parts(datagram: bytes) -> Iterator[Part]:
    """The messages of a datagram; what is cut short ends it."""
    offset = 0
    while offset + HEADER.size <= len(datagram):
        length, kind, flags, sequence, _ = HEADER.unpack_from(datagram, offset)
        if length < HEADER.size or offset + length > len(datagram):
            return
        yield Part(kind, flags, sequence, datagram[offset + HEADER.size : offset + length])
        offset += length + 3 & ~3


def refusal(part: Part) -> tuple[int, str] | None:
    """What an error message says: errno and the kernel's own words; None: it is an acknowledgement."""
    (code,) = struct.unpack_from("=i", part.body)
    if code == 0:
        return None
    said = ""
    if part.flags & EXTENDED:
        offset = 4 + HEADER.size
        if not part.flags & CAPPED:
            (length,) = struct.unpack_from("=I", part.body, 4)
            offset = 4 + (length + 3 & ~3)
        for number, content in _split(part.body[offset:]):
            if number == 1:
                said = content.rstrip(b"\0").decode("utf-8", "replace")
    return abs(code) or errno.EIO, said


def decode(part: Part) -> dict[str, Any] | None:
    """A message by the names of its fields and attributes; None: one of a kind that is of no interest here."""
    kind = KINDS.get(part.type)
    if kind is None:
        return None
    layout, names = _LAYOUTS[kind]
    if len(part.body) < layout.size:
        return None
    found: dict[str, Any] = dict(zip(names, layout.unpack_from(part.body), strict=True))
    found |= _named(_READ[kind], part.body[layout.size :])
    if "RTA_ENCAP" in found:
        table = _READ_ENCAPS.get(found.get("RTA_ENCAP_TYPE", 0), {})
        found["RTA_ENCAP"] = _named(table, found["RTA_ENCAP"])
    return found


def _split(content: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _ATTRIBUTE.size <= len(content):
        length, number = _ATTRIBUTE.unpack_from(content, offset)
        if length < _ATTRIBUTE.size:
            return
        yield number & _TYPE_MASK, content[offset + _ATTRIBUTE.size : offset + length]
        offset += length + 3 & ~3


def _named(table: dict[int, tuple[str, Any]], content: bytes) -> dict[str, Any]:
    found = {}
    for number, value in _split(content):
        known = table.get(number)
        if known is not None:
            name, kind = known
            found[name] = _value(kind, value)
    return found


def _value(kind: Any, content: bytes) -> Any:
    match kind:
        case "u8" | "u16" | "u32":
            return int.from_bytes(content, "little" if _LITTLE else "big")
        case "text":
            return content.rstrip(b"\0").decode("utf-8", "replace")
        case "mac":
            return content.hex(":")
        case "address":
            return str(ip_address(content)) if len(content) in (4, 16) else None
        case "srh":
            return _read_routing_header(content)
        case "encap" | "peer":
            return content
    return _named(kind, content)


def _read_routing_header(content: bytes) -> dict[str, Any]:
    mode, _, _, _, last, _, _, _ = _SEGMENTS.unpack_from(content)
    segments = [content[_SEGMENTS.size + 16 * n : _SEGMENTS.size + 16 * (n + 1)] for n in range(last + 1)]
    return {"mode": _MODE_NAMES.get(mode, str(mode)), "segs": [str(IPv6Address(each)) for each in segments]}


def _by_number(table: Table) -> dict[int, tuple[str, Any]]:
    return {
        number: (name, _by_number(kind) if isinstance(kind, dict) else kind) for name, (number, kind) in table.items()
    }


_LITTLE = struct.pack("=H", 1) == b"\1\0"
_READ = {kind: _by_number(table) for kind, table in _TABLES.items()}
_READ_ENCAPS = {number: _by_number(table) for number, table in _ENCAPS.items()}
