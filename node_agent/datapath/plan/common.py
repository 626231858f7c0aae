"""What every part of the planner stands on: the tables of a VPC, priorities, metrics, an attachment's parts. Pure."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network

from node_agent.datapath.model import Address, Attachment, GuestAddress, Interface, NodeConfig, Prefix, Vpc
from node_agent.datapath.objects import Family, Route, RouteKind, SetSysctl

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


def skip_source_lookup(device: str) -> SetSysctl:
    """Take IPv4 packets of a device of ours without asking the routes for their source.

    As soon as there are rules, the kernel walks them a second time for each packet, although the reverse path filter is
    off: to see that the source is not the node's own. Who may send what is settled before, by rule and firewall; and a
    guest may well have an address that in another network is a node's.
    """
    return SetSysctl(f"net/ipv4/conf/{device}/accept_local", "1")


def tenant_table(config: NodeConfig, vpc: Vpc) -> int:
    """T: what a guest of the VPC can reach."""
    return config.tenant_tables + vpc.index


def underlay_table(config: NodeConfig, vpc: Vpc) -> int:
    """T': what is encapsulated behind the VPC's pair."""
    return config.underlay_tables + vpc.index


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


def host_interface(address: Address) -> Interface:
    """An address with its full length."""
    return IPv4Interface(address) if isinstance(address, IPv4Address) else IPv6Interface(address)
