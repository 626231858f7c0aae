"""What the data path is told: the node, its VPCs, the attachments, prefixes elsewhere.

Values only: no kernel handle, no Kubernetes object. Everything here prints well, compares by value and, where the
journal keeps it, turns into plain JSON and back (``as_json`` / ``from_json``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
    ip_address,
    ip_interface,
)
from typing import Any, Self

from netclaim import identity

Address = IPv4Address | IPv6Address
Prefix = IPv4Network | IPv6Network
Interface = IPv4Interface | IPv6Interface

LAST_INDEX = 49_999
"""VPC indexes of one node run from 1 to this: it keeps T (100000-149999) and T' (150000-199999) apart."""

NEXTHOPS4 = IPv4Network("198.18.0.0/16")
NEXTHOPS6 = IPv6Network("fdff::/112")
"""Where the next hops of End.DX4 and End.DX6 come from: one of each for a VPC, by its index, seen by nobody else."""

MARK = 0x6E000000
"""What every packet mark of ours begins with."""

GATEWAY_MAC = "02:00:00:00:00:01"
"""MAC of every host end: the guest's gateway, the same on every node, so that a moved guest needs no new neighbour."""


class Routing(StrEnum):
    """How a guest's packet finds the table of its VPC."""

    RULES = "rules"
    VRF = "vrf"


class Mode(StrEnum):
    """What the guest is: a network namespace (veth) or a virtual machine (persistent tap)."""

    NETNS = "Netns"
    HYPERVISOR = "Hypervisor"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One node, as it never changes while the agent runs.

    ``locator`` is this node's SRv6 /64, ``locator_block`` the prefix that holds every node's locator: nothing inside it
    is ever routed for a tenant. ``underlay`` is the node's own address on ``uplink``. ``mtu`` is the largest packet of
    a tenant that still fits into the uplink once encapsulated (40 bytes for encap.red with one segment); None: taken
    from the uplink when the data path is opened.
    """

    node_name: str
    uplink: str
    underlay: IPv6Address
    locator: IPv6Network
    locator_block: IPv6Network
    routing: Routing
    mtu: int | None = None
    tenant_tables: int = 100_000
    underlay_tables: int = 150_000
    nexthops4: IPv4Network = NEXTHOPS4
    nexthops6: IPv6Network = NEXTHOPS6

    def __post_init__(self) -> None:
        if self.locator.prefixlen != 64:
            raise ValueError(f"the SRv6 locator of a node is a /64, not {self.locator}")
        if not self.locator.subnet_of(self.locator_block):
            raise ValueError(f"the locator {self.locator} lies outside the locator block {self.locator_block}")

    def as_json(self) -> dict[str, Any]:
        """What differs from node to node, as plain JSON; ``from_json`` reads it back."""
        return {
            "node": self.node_name,
            "uplink": self.uplink,
            "underlay": str(self.underlay),
            "locator": str(self.locator),
            "locatorBlock": str(self.locator_block),
            "routing": self.routing.value,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """The configuration that ``as_json`` wrote. Raises KeyError or ValueError on anything else."""
        return cls(
            node_name=stored["node"],
            uplink=stored["uplink"],
            underlay=IPv6Address(stored["underlay"]),
            locator=IPv6Network(stored["locator"]),
            locator_block=IPv6Network(stored["locatorBlock"]),
            routing=Routing(stored["routing"]),
        )

    @property
    def tunnel_source(self) -> IPv6Address:
        """Outer source address of every packet that this node encapsulates (``locator::1``)."""
        return self.locator[1]

    @property
    def sid_table(self) -> int:
        """Table of this node's SIDs; only packets from the uplink are looked up in it."""
        return self.tenant_tables

    def owns_table(self, table: int) -> bool:
        """Whether a routing table lies in our ranges."""
        return any(base <= table <= base + LAST_INDEX for base in (self.tenant_tables, self.underlay_tables))

    @property
    def nexthop_table(self) -> int:
        """Table of the per-VPC next hops of End.DX4 and End.DX6 (without VRF)."""
        return self.underlay_tables


@dataclass(frozen=True, slots=True)
class Vpc:
    """A VPC on this node. ``identifier``: 48 bits; ``index``: 1..49999, unique on the node, the caller remembers it."""

    identifier: int
    index: int

    def __post_init__(self) -> None:
        if not 0 < self.index <= LAST_INDEX:
            raise ValueError(f"the index of a VPC on a node lies between 1 and {LAST_INDEX}, not {self.index}")

    @property
    def mark(self) -> int:
        """Packet mark of the VPC's guests (without VRF).

        The first byte keeps it apart from the small numbers that others mark with. Bits 14 and 15 belong to kube-proxy
        and the kubelet (masquerade, drop): the index steps around them.
        """
        return MARK | (self.index & 0x3FFF) | (self.index >> 14) << 16

    @property
    def vrf(self) -> str:
        """Name of the VPC's VRF device (reported in both backends, present only with VRF)."""
        return identity.vrf_interface(self.identifier)

    @property
    def inner(self) -> str:
        """The end of the VPC's veth pair on the tenants' side (``V<vpc>I``)."""
        return identity.pair_inner(self.identifier)

    @property
    def outer(self) -> str:
        """The end of the VPC's veth pair on the underlay's side (``V<vpc>O``)."""
        return identity.pair_outer(self.identifier)


@dataclass(frozen=True, slots=True)
class GuestAddress:
    """One address of a guest: the host form in its block (``fd00::1:0:0:1/96``, ``10.0.0.7/32``) and its gateway."""

    interface: Interface
    gateway: Address

    def __post_init__(self) -> None:
        if self.interface.version != self.gateway.version:
            raise ValueError(f"address {self.interface} and gateway {self.gateway} are of different families")
        if self.gateway in self.interface.network:
            raise ValueError(f"the gateway {self.gateway} lies inside the guest's own block {self.interface.network}")

    @property
    def address(self) -> Address:
        """The guest's address without the length of its block."""
        return self.interface.ip

    @property
    def block(self) -> Prefix:
        """All the addresses that are the guest's own: a /32, or a /96."""
        return self.interface.network


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """One guest interface on this node.

    ``identifier``: 16 bits, unique in the VPC; with the VPC it makes the device's name. ``owner`` is written to the
    device as its alias, and a device whose alias names another owner is never touched: a container id (with the
    interface's name where one container has several), so that a late detach misses its successor. At most 200 ASCII
    characters.
    """

    vpc: Vpc
    identifier: int
    mode: Mode
    mtu: int
    guest_ifname: str
    guest_mac: str
    addresses: tuple[GuestAddress, ...]
    owner: str

    @property
    def device(self) -> str:
        """Name of the host end (``G<vpc><attachment>H``), of a veth or of a tap."""
        return identity.host_interface(self.vpc.identifier, self.identifier)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON for the journal; ``from_json`` reads it back unchanged."""
        return {
            "vpc": self.vpc.identifier,
            "index": self.vpc.index,
            "attachment": self.identifier,
            "mode": self.mode.value,
            "mtu": self.mtu,
            "guestInterface": self.guest_ifname,
            "guestMAC": self.guest_mac,
            "addresses": [{"address": str(a.interface), "gateway": str(a.gateway)} for a in self.addresses],
            "owner": self.owner,
        }

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """The attachment that ``as_json`` wrote. Raises KeyError or ValueError on anything else."""
        return cls(
            vpc=Vpc(stored["vpc"], stored["index"]),
            identifier=stored["attachment"],
            mode=Mode(stored["mode"]),
            mtu=stored["mtu"],
            guest_ifname=stored["guestInterface"],
            guest_mac=stored["guestMAC"],
            addresses=tuple(
                GuestAddress(ip_interface(a["address"]), ip_address(a["gateway"])) for a in stored["addresses"]
            ),
            owner=stored["owner"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the journal keeps of an attachment: enough to bring it up, to check it, and to remove it without asking.

    ``ifindex`` is 0 as long as no device was made; ``netns`` is the path of the guest's namespace (None for a tap).
    """

    attachment: Attachment
    netns: str | None
    ifindex: int = 0

    def with_ifindex(self, ifindex: int) -> Self:
        """The same record for the device of this index."""
        return replace(self, ifindex=ifindex)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON for the journal."""
        return {"attachment": self.attachment.as_json(), "netns": self.netns, "ifindex": self.ifindex}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Self:
        """The record that ``as_json`` wrote."""
        return cls(
            attachment=Attachment.from_json(stored["attachment"]), netns=stored["netns"], ifindex=stored["ifindex"]
        )


@dataclass(frozen=True, slots=True)
class Sid:
    """A segment identifier of a VPC on a node; ``family`` 4, 6, or 0 when one SID serves both (End.DT46)."""

    family: int
    address: IPv6Address
    function: str


@dataclass(frozen=True, slots=True)
class RemotePrefix:
    """A prefix of a VPC that lives on another node, and the SID that takes its packets there."""

    prefix: Prefix
    sid: IPv6Address


@dataclass(frozen=True, slots=True)
class RemoteNode:
    """Another node: its locator and the underlay address that packets for it are sent to."""

    locator: IPv6Network
    underlay: IPv6Address


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be: what, how it should be, and what was found (None: nothing)."""

    subject: str
    wanted: str
    found: str | None

    def __str__(self) -> str:
        return f"{self.subject}: {'missing' if self.found is None else self.found}, wanted {self.wanted}"


@dataclass(frozen=True, slots=True)
class RouteChange:
    """What one call of ``set_remotes`` or ``set_nodes`` changed in the kernel: prefixes (or nodes) set and removed."""

    added: int
    removed: int


@dataclass(frozen=True, slots=True, order=True)
class Stray:
    """A kernel object in our name space that nobody owns. Compares by value, so two observations can be intersected.

    ``kind``: ``device``, ``rule``, ``element`` (of the firewall), ``table`` (of a VPC not here) or ``segment`` (a
    route in the table of SIDs or of next hops).
    """

    kind: str
    name: str
