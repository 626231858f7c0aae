"""Address arithmetic: blocks, families, the first usable address, and the forms that addresses are written in.

Pure. Addresses enter and leave as text in canonical form (lower case, shortest): equal addresses are equal text.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
    ip_network,
)
from typing import TypeAlias

from netclaim.api.networking import IPV4, IPV6, IPFamily

Block: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address


@lru_cache(maxsize=4096)
def block(text: str) -> Block:
    """The block of a CIDR or of a bare address (full length).

    Raises:
        ValueError: not an address or block, or it has host bits.
    """
    return ip_network(text)


def address(text: str) -> Address:
    """The address of a text without a prefix length.

    Raises:
        ValueError: not an address.
    """
    return ip_address(text)


def family(text: str) -> IPFamily:
    """The family of an address or block; host bits do not matter.

    Raises:
        ValueError: not an address or block.
    """
    return IPV4 if _interface(text).version == 4 else IPV6


def family_of(value: Block | Address) -> IPFamily:
    """The family of a parsed address or block."""
    return IPV4 if value.version == 4 else IPV6


def is_full_length(value: Block) -> bool:
    """Whether the block is a single address."""
    return value.prefixlen == value.max_prefixlen


def first_usable(value: Block) -> Address:
    """The first address of the block that a host can have: its second, or the only one of a single address.

    The first address of a longer block is the subnet's own (IPv4) or the routers' anycast (IPv6).
    """
    return value.network_address if is_full_length(value) else value.network_address + 1


def gateway(subnet: str) -> str:
    """The gateway of a subnet: its first usable address, bare (`10.128.0.0/20` -> `10.128.0.1`)."""
    return str(first_usable(block(subnet)))


def endpoint_form(cidr: str) -> str:
    """How a claim and an interface publish an address on the network: the block that belongs to it, as a CIDR.

    `2001:db8:a001::1:0:0/96`, `10.128.0.2/32`; a bare address gets its full length.
    """
    return str(block(cidr))


def external_form(cidr: str) -> str:
    """How an external address is published: bare when it is a single address, else as a CIDR."""
    value = block(cidr)
    return str(value.network_address) if is_full_length(value) else str(value)


def host_form(cidr: str) -> str:
    """The guest's own address inside its block, with the block's length.

    `fd00:10:ff01:0:1::/96` -> `fd00:10:ff01:0:1::1/96`, `172.20.1.7/32` -> `172.20.1.7/32`.
    """
    value = block(cidr)
    return f"{first_usable(value)}/{value.prefixlen}"


def host_address(cidr: str) -> str:
    """The bare address that answers a ping: `fd20:1000:0:1::1:0:0/96` -> `fd20:1000:0:1::1:0:1`."""
    return str(first_usable(block(cidr)))


def block_of_host(cidr: str) -> str:
    """The block that a host form lies in: `fd00:10:ff01:0:1::1/96` -> `fd00:10:ff01:0:1::/96`."""
    return str(_interface(cidr).network)


def contains(outer: str, inner: str) -> bool:
    """Whether the block `outer` holds all of `inner` (a CIDR or a bare address); never across families."""
    return _within(block(inner), block(outer))


def overlap(one: str, other: str) -> bool:
    """Whether two blocks share an address; never across families."""
    first, second = block(one), block(other)
    return _within(first, second) or _within(second, first)


def same(one: str, other: str) -> bool:
    """Whether two texts mean the same block or address, however they are written."""
    return one == other or _interface(one) == _interface(other)


def _within(inner: Block, outer: Block) -> bool:
    return (
        inner.version == outer.version
        and inner.prefixlen >= outer.prefixlen
        and int(inner.network_address) >> (inner.max_prefixlen - outer.prefixlen)
        == int(outer.network_address) >> (outer.max_prefixlen - outer.prefixlen)
    )


@lru_cache(maxsize=4096)
def _interface(text: str) -> IPv4Interface | IPv6Interface:
    return ip_interface(text)
