"""Kernel objects and the steps that put them there or take them away. Pure values: they print, compare and hash.

An object is complete: the same value is what the planner wants, what is installed, and what an observation of the
kernel is decoded to. So "is it there?" is a comparison, and removing needs nothing but the object.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address
from typing import Literal

from node_agent.datapath.model import Address, Interface, Prefix

Family = Literal[4, 6]
FAMILIES: tuple[Family, Family] = (4, 6)


class RouteKind(StrEnum):
    """What a route does with a packet."""

    UNICAST = "unicast"
    LOCAL = "local"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Encapsulate:
    """encap.red with one segment: an outer IPv6 header of 40 bytes and no SRH."""

    sid: IPv6Address

    def __str__(self) -> str:
        return f"encap.red {self.sid}"


@dataclass(frozen=True, slots=True)
class Decapsulate:
    """A seg6local action: End.DX4 and End.DX6 with a next hop, End.DT46 with the table of a VRF."""

    action: Literal["End.DX4", "End.DX6", "End.DT46"]
    nexthop: Address | None = None
    vrf_table: int | None = None

    def __str__(self) -> str:
        return f"{self.action} {self.nexthop if self.nexthop is not None else f'vrf table {self.vrf_table}'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A routing policy rule; ``table`` None is a blackhole. ``ours``: it carries our protocol number."""

    family: Family
    priority: int
    table: int | None
    iif: str | None = None
    oif: str | None = None
    source: Prefix | None = None
    destination: Prefix | None = None
    mark: int | None = None
    ours: bool = True

    def __str__(self) -> str:
        parts = [f"rule -{self.family} {self.priority}:"]
        parts += [f"iif {self.iif}"] if self.iif else []
        parts += [f"oif {self.oif}"] if self.oif else []
        parts += [f"from {self.source}"] if self.source else []
        parts += [f"to {self.destination}"] if self.destination else []
        parts += [f"fwmark {self.mark:#x}"] if self.mark is not None else []
        parts.append("blackhole" if self.table is None else f"lookup {self.table}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route in ``table``. ``metric`` None: the kernel's own default (0 for IPv4, 1024 for IPv6)."""

    table: int
    destination: Prefix
    kind: RouteKind = RouteKind.UNICAST
    dev: str | None = None
    via: Address | None = None
    source: Address | None = None
    metric: int | None = None
    encap: Encapsulate | Decapsulate | None = None
    ours: bool = True

    def __str__(self) -> str:
        parts = ["route", str(self.destination)]
        parts += [self.kind.value] if self.kind is not RouteKind.UNICAST else []
        parts += [str(self.encap)] if self.encap else []
        parts += [f"via {self.via} onlink"] if self.via else []
        parts += [f"dev {self.dev}"] if self.dev else []
        parts += [f"src {self.source}"] if self.source else []
        parts += [f"metric {self.metric}"] if self.metric is not None else []
        parts.append(f"table {self.table}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A permanent neighbour entry."""

    dev: str
    address: Address
    mac: str

    def __str__(self) -> str:
        return f"neighbour {self.address} lladdr {self.mac} dev {self.dev} permanent"


@dataclass(frozen=True, slots=True)
class ProxyNeighbour:
    """An address that the node answers neighbour solicitations for on this device, without owning it."""

    dev: str
    address: Address

    def __str__(self) -> str:
        return f"neighbour proxy {self.address} dev {self.dev}"


@dataclass(frozen=True, slots=True)
class DeviceAddress:
    """An address on a device, without duplicate address detection. ``prefix_route``: with the kernel's route."""

    dev: str
    interface: Interface
    prefix_route: bool = False

    def __str__(self) -> str:
        return f"address {self.interface} dev {self.dev}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Veth:
    """A veth pair, both ends down, MAC and MTU of both in the creating message; the peer born in ``netns``."""

    name: str
    mac: str
    mtu: int
    alias: str
    peer: str
    peer_mac: str
    netns: str | None = None

    def __str__(self) -> str:
        where = f" in {self.netns}" if self.netns else ""
        return f"veth {self.name} with peer {self.peer}{where}, mtu {self.mtu}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """A persistent tap, down."""

    name: str
    mac: str
    mtu: int
    alias: str

    def __str__(self) -> str:
        return f"tap {self.name}, mtu {self.mtu}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vrf:
    """A VRF device, down."""

    name: str
    table: int
    alias: str

    def __str__(self) -> str:
        return f"vrf {self.name} table {self.table}"


@dataclass(frozen=True, slots=True)
class TunnelSource:
    """Outer source address of everything that this network namespace encapsulates."""

    address: IPv6Address

    def __str__(self) -> str:
        return f"segment routing tunnel source {self.address}"


Nftables = Literal["inet", "arp"]
SetName = Literal["own4", "own6", "range4", "range6", "src4"]
LENGTHS: dict[SetName, int] = {"own4": 32, "own6": 96}
"""The length of every block in a map without intervals. Blocks of another length go into ``range4`` and ``range6``."""


@dataclass(frozen=True, slots=True)
class Element:
    """Opens a device for its own block: an element of one of our nftables maps, or (family arp) of the set ``src4``.

    ``value``: the mark that the guest's packets get (0: none), None in a set.
    """

    family: Nftables
    set: SetName
    device: str
    source: Prefix
    value: int | None = None

    @property
    def key(self) -> tuple[str | Address | Prefix, str | Address | Prefix]:
        """Device and block, in the kernel's order: a block that is masked has to come first, or nft cannot read it."""
        exact = self.set in LENGTHS or self.source.num_addresses == 1
        block = self.source.network_address if exact else self.source
        return (block, self.device) if self.family == "inet" else (self.device, block)

    def __str__(self) -> str:
        value = "" if self.value is None else f" : {self.value:#x}"
        return f"{self.family} {self.set} {{ {self.device} . {self.source}{value} }}"


def map_of(block: Prefix) -> SetName:
    """The map that opens a device for this block."""
    if block.version == 4:
        return "own4" if block.prefixlen == LENGTHS["own4"] else "range4"
    return "own6" if block.prefixlen == LENGTHS["own6"] else "range6"


Link = Veth | Tap | Vrf
Object = Rule | Route | Neighbour | ProxyNeighbour | DeviceAddress


@dataclass(frozen=True, slots=True)
class Create:
    """Make a device that is not there. One that is ours already is left as it is."""

    link: Link

    def __str__(self) -> str:
        return f"create {self.link}"


@dataclass(frozen=True, slots=True)
class Ensure:
    """Have exactly this object; one that is there already is success."""

    object: Object

    def __str__(self) -> str:
        return f"ensure {self.object}"


@dataclass(frozen=True, slots=True)
class EnsureHidden:
    """Have an address on a device, but not the route in the table ``local`` that the kernel adds for it."""

    address: DeviceAddress
    local: Route

    def __str__(self) -> str:
        return f"ensure {self.address}, hidden from the table local"


@dataclass(frozen=True, slots=True)
class AwaitLocal:
    """Wait until the kernel takes packets for an address: for IPv6 a moment after the address is there."""

    address: Address

    def __str__(self) -> str:
        return f"wait until {self.address} is taken as local"


@dataclass(frozen=True, slots=True)
class Remove:
    """Not have this object; one that is gone already is success."""

    object: Object

    def __str__(self) -> str:
        return f"remove {self.object}"


@dataclass(frozen=True, slots=True)
class SetLink:
    """Change a device: put it up or down, enslave it, keep the kernel from giving it a link-local address.

    The last is done to every device that we create on the host in any case."""

    device: str
    up: bool | None = None
    master: str | None = None
    no_link_local: bool = False

    def __str__(self) -> str:
        parts = [f"set {self.device}"]
        parts += ["no link-local"] if self.no_link_local else []
        parts += [f"master {self.master}"] if self.master else []
        parts += ["up" if self.up else "down"] if self.up is not None else []
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class RemoveLink:
    """Remove a device (with its peer, routes, neighbours and addresses)."""

    device: str

    def __str__(self) -> str:
        return f"remove device {self.device}"


@dataclass(frozen=True, slots=True)
class FlushTable:
    """Remove every route of a table of ours, both families."""

    table: int

    def __str__(self) -> str:
        return f"flush table {self.table}"


@dataclass(frozen=True, slots=True)
class SetSysctl:
    """Write one value below /proc/sys. ``optional``: a kernel without that file is good enough."""

    path: str
    value: str
    optional: bool = False

    def __str__(self) -> str:
        return f"sysctl {self.path} = {self.value}"


@dataclass(frozen=True, slots=True)
class SetTunnelSource:
    """Set the namespace's outer source address."""

    source: TunnelSource

    def __str__(self) -> str:
        return f"set {self.source}"


@dataclass(frozen=True, slots=True)
class LoadFirewall:
    """Run one nftables transaction on our static tables."""

    ruleset: str
    purpose: str = "load the static firewall tables"

    def __str__(self) -> str:
        return self.purpose


@dataclass(frozen=True, slots=True)
class AddElements:
    """Add elements in one transaction."""

    elements: tuple[Element, ...]

    def __str__(self) -> str:
        return "open the firewall for " + ", ".join(map(str, self.elements))


@dataclass(frozen=True, slots=True)
class RemoveElements:
    """Remove elements in one transaction; those that are gone already are success."""

    elements: tuple[Element, ...]

    def __str__(self) -> str:
        return "close the firewall for " + ", ".join(map(str, self.elements))


Step = (
    Create
    | Ensure
    | EnsureHidden
    | AwaitLocal
    | Remove
    | SetLink
    | RemoveLink
    | FlushTable
    | SetSysctl
    | SetTunnelSource
    | LoadFirewall
    | AddElements
    | RemoveElements
)
