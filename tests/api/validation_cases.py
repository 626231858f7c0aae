"""The rules of every kind as a table: one object that each accepts, one that it refuses, and what it says then."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from netclaim.api import resources as r
from netclaim.api.resources import Resource

Spec = dict[str, Any]

INTERFACE_ADDRESS = {"family": "IPv4", "address": "10.128.0.2/32", "gateway": "10.128.0.1", "primary": True}
CLAIM_TEMPLATE = {"metadata": {"name": "eth0"}, "spec": {"network": {"name": "default"}}}
HOLDER = {"kind": "NetworkContext", "namespace": "shop", "name": "default-here", "uid": "u-1"}
OWNER = {"controlPlane": "cp-1", "kind": "NetworkInterfaceClaim", "namespace": "shop", "name": "web-0-eth0", "uid": "1"}
POD_TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}]}}

BASE: dict[Resource, Spec] = {
    r.NETWORKS: {},
    r.NETWORK_CONTEXTS: {"network": {"name": "default"}, "location": "us-central-1"},
    r.NETWORK_BINDINGS: {"network": {"name": "default"}},
    r.SUBNET_CLAIMS: {"networkContext": {"name": "default-us-central-1"}, "ipFamily": "IPv4"},
    r.SUBNETS: {"networkContext": {"name": "default-us-central-1"}, "ipFamily": "IPv4"},
    r.CLAIMS: {"network": {"name": "default"}},
    r.INTERFACES: {"network": {"name": "default"}, "mtu": 1460, "addresses": [INTERFACE_ADDRESS]},
    r.VPCS: {"networkContextRef": {"name": "default-us-central-1"}},
    r.ATTACHMENTS: {"vpc": {"name": "default-us-central-1"}, "interface": {"name": "eth0", "mode": "Netns"}},
    r.IDENTIFIERS: {"holder": HOLDER},
    r.BGP_ROUTERS: {
        "targetRef": {"kind": "Node", "name": "node-1"},
        "srv6Locator": "fd00:ff:0:1::/64",
        "nextHop": "fd00:fe::1",
    },
    r.BGP_ADVERTISEMENTS: {
        "routerRef": {"name": "node-1"},
        "attachmentRef": {"namespace": "shop", "name": "web-0-eth0", "uid": "u-1"},
    },
    r.IP_CLASSES: {"ipFamily": "IPv6", "prefixLength": 96},
    r.IP_POOLS: {"cidr": "10.128.0.0/16"},
    r.IP_CLAIMS: {"className": "endpoint-ipv4"},
    r.IP_ALLOCATIONS: {
        "poolRef": {"name": "p"},
        "cidr": "10.128.0.2/32",
        "purpose": "Claim",
        "claimRef": {"name": "c", "uid": "u-1"},
    },
    r.WORKLOADS: {"template": POD_TEMPLATE, "networkInterfaceClaimTemplates": [CLAIM_TEMPLATE]},
    r.INSTANCES: {
        "workloadRef": {"name": "web", "uid": "u-1"},
        "ordinal": 0,
        "template": POD_TEMPLATE,
        "templateHash": "abc",
    },
}
"""The least spec of each kind."""


@dataclass(frozen=True)
class Case:
    """`accepted` and `refused` are laid over the least spec; a value of None removes a field.

    With `before`, an object is made of that first and the two are updates of it. `part` is what they are laid over.
    """

    what: str
    resource: Resource
    accepted: Spec
    refused: Spec
    message: str
    before: Spec | None = None
    part: str = "spec"

    def __str__(self) -> str:
        return f"{self.resource.kind}: {self.what}".replace(" ", "-")


def laid_over(base: Spec, changes: Spec) -> Spec:
    """The base with the changes; None removes."""
    merged = {**deepcopy(base), **deepcopy(changes)}
    return {name: value for name, value in merged.items() if value is not None}


def interface(**changes: Any) -> Spec:
    return {"interface": {"name": "eth0", "mode": "Netns", **changes}}


def templates(*named: tuple[str, Spec]) -> Spec:
    return {
        "networkInterfaceClaimTemplates": [
            {"metadata": {"name": name}, "spec": {"network": {"name": "default"}, **spec}} for name, spec in named
        ]
    }


CIDR = "write an address block"
BARE = "write one bare address"
NEVER = "a claim never changes"
NAME = "write an interface name of 1 to 15 printable ASCII characters"

NETWORKING_CASES = [
    Case("families are one or two", r.NETWORKS, {"ipFamilies": ["IPv4"]}, {"ipFamilies": []}, "at least 1 items"),
    Case(
        "families are unique",
        r.NETWORKS,
        {"ipFamilies": ["IPv6", "IPv4"]},
        {"ipFamilies": ["IPv6", "IPv6"]},
        "name each IP family once",
    ),
    Case("families are known", r.NETWORKS, {"ipFamilies": ["IPv6"]}, {"ipFamilies": ["IPX"]}, '"IPv4", "IPv6"'),
    Case("mtu is at least 1280", r.NETWORKS, {"mtu": 1280}, {"mtu": 1279}, "greater than or equal to 1280"),
    Case("mtu is at most 8856", r.NETWORKS, {"mtu": 8856}, {"mtu": 8857}, "less than or equal to 8856"),
    Case("locations are unique", r.NETWORKS, {"locations": ["a", "b"]}, {"locations": ["a", "a"]}, "Duplicate value"),
    Case(
        "network is immutable",
        r.NETWORK_CONTEXTS,
        {},
        {"network": {"name": "other"}},
        "a context stays with its network",
        before={},
    ),
    Case(
        "location is immutable", r.NETWORK_CONTEXTS, {}, {"location": "x"}, "a context stays in its location", before={}
    ),
    Case("location is required", r.NETWORK_CONTEXTS, {}, {"location": None}, "spec.location: Required value"),
    Case("network is required", r.NETWORK_BINDINGS, {"location": "here"}, {"network": None}, "Required value"),
    Case(
        "prefix length is at most 128",
        r.SUBNET_CLAIMS,
        {"prefixLength": 20},
        {"prefixLength": 129},
        "less than or equal to 128",
    ),
    Case("start is an address", r.SUBNET_CLAIMS, {"startAddress": "10.0.0.0"}, {"startAddress": "10.0.0.0/8"}, BARE),
    Case("spec is immutable", r.SUBNET_CLAIMS, {}, {"prefixLength": 24}, "a subnet claim never changes", before={}),
    Case("family is immutable", r.SUBNETS, {}, {"ipFamily": "IPv6"}, "a subnet keeps its family", before={}),
    Case("class is immutable", r.SUBNETS, {}, {"subnetClass": "x"}, "a subnet keeps its class", before={}),
    Case(
        "context is immutable",
        r.SUBNETS,
        {},
        {"networkContext": {"name": "x"}},
        "a subnet stays in its context",
        before={},
    ),
]

CLAIM_CASES = [
    Case("network is required", r.CLAIMS, {}, {"network": None}, "spec.network: Required value"),
    Case("network has a name", r.CLAIMS, {}, {"network": {"name": ""}}, "spec.network.name"),
    *(
        Case(
            f"interface name {name!r} is refused",
            r.CLAIMS,
            {"interfaceName": "eth0.100"},
            {"interfaceName": name},
            NAME,
        )
        for name in ("a/b", "a b", "a\tb", ".", "..", "lo", "a:b", "a%d", "a,b", "a@b", "n\u00e4me")
    ),
    Case(
        "interface name has at most 15 characters",
        r.CLAIMS,
        {"interfaceName": "a" * 15},
        {"interfaceName": "a" * 16},
        "may not be more than 15",
    ),
    Case("interface name is not empty", r.CLAIMS, {"interfaceName": "-"}, {"interfaceName": ""}, "at least 1 chars"),
    Case(
        "families are unique",
        r.CLAIMS,
        {"ipFamilies": ["IPv4", "IPv6"]},
        {"ipFamilies": ["IPv4", "IPv4"]},
        "name each IP family once",
    ),
    Case("families are not an empty list", r.CLAIMS, {"ipFamilies": ["IPv6"]}, {"ipFamilies": []}, "at least 1 items"),
    Case(
        "classes are at most four",
        r.CLAIMS,
        {"addresses": [{"class": name} for name in "abcd"]},
        {"addresses": [{"class": name} for name in "abcde"]},
        "at most 4 items",
    ),
    Case(
        "classes are unique",
        r.CLAIMS,
        {"addresses": [{"class": "a"}, {"class": "b"}]},
        {"addresses": [{"class": "a"}, {"class": "a"}]},
        "Duplicate value",
    ),
    Case(
        "a class has at most 63 characters",
        r.CLAIMS,
        {"addresses": [{"class": "a" * 63}]},
        {"addresses": [{"class": "a" * 64}]},
        "may not be more than 63",
    ),
    Case(
        "the policy is Delete or Retain",
        r.CLAIMS,
        {"reclaimPolicy": "Retain"},
        {"reclaimPolicy": "Recycle"},
        '"Delete", "Retain"',
    ),
    Case(
        "a pinned interface has an object name",
        r.CLAIMS,
        {"networkInterfaceName": "web-0.eth0"},
        {"networkInterfaceName": "Web_0"},
        "write a name of lower-case letters",
    ),
    *(
        Case(f"{field} is immutable", r.CLAIMS, {}, {field: value}, NEVER, before={})
        for field, value in (
            ("network", {"name": "other"}),
            ("interfaceName", "eth1"),
            ("ipFamilies", ["IPv4"]),
            ("addresses", [{"class": "a"}]),
            ("reclaimPolicy", "Retain"),
            ("networkInterfaceName", "pinned"),
        )
    ),
    Case(
        "a published address is a CIDR",
        r.CLAIMS,
        {"addresses": [{"family": "IPv4", "address": "10.0.0.2/32"}]},
        {"addresses": [{"family": "IPv4", "address": "10.0.0.2"}]},
        CIDR,
        part="status",
    ),
    Case(
        "one address per family",
        r.CLAIMS,
        {"addresses": [{"family": "IPv4", "address": "10.0.0.2/32"}, {"family": "IPv6", "address": "fd00::/96"}]},
        {"addresses": [{"family": "IPv4", "address": "10.0.0.2/32"}, {"family": "IPv4", "address": "10.0.0.3/32"}]},
        "Duplicate value",
        part="status",
    ),
    Case(
        "one external address per class",
        r.CLAIMS,
        {"externalAddresses": [{"family": "IPv4", "address": "198.51.100.7", "class": "a"}]},
        {"externalAddresses": [{"family": "IPv4", "address": "198.51.100.7", "class": "a"}] * 2},
        "Duplicate value",
        part="status",
    ),
]

INTERFACE_CASES = [
    Case(
        "exactly one address is primary",
        r.INTERFACES,
        {},
        {"addresses": [{**INTERFACE_ADDRESS, "primary": False}]},
        "mark exactly one address of the interface as primary",
    ),
    Case(
        "no two addresses are primary",
        r.INTERFACES,
        {"addresses": [INTERFACE_ADDRESS, {"family": "IPv6", "address": "fd00::/96"}]},
        {"addresses": [INTERFACE_ADDRESS, {"family": "IPv6", "address": "fd00::/96", "primary": True}]},
        "mark exactly one address of the interface as primary",
    ),
    Case(
        "one address per family",
        r.INTERFACES,
        {"addresses": [INTERFACE_ADDRESS, {"family": "IPv6", "address": "fd00::/96"}]},
        {"addresses": [INTERFACE_ADDRESS, {"family": "IPv4", "address": "10.128.0.3/32"}]},
        "Duplicate value",
    ),
    Case("at least one address", r.INTERFACES, {}, {"addresses": []}, "at least 1 items"),
    Case(
        "the gateway is bare",
        r.INTERFACES,
        {},
        {"addresses": [{**INTERFACE_ADDRESS, "gateway": "10.128.0.1/20"}]},
        BARE,
    ),
    Case("mtu is at least 1280", r.INTERFACES, {"mtu": 1280}, {"mtu": 576}, "greater than or equal to 1280"),
    Case("phase is Available or Bound", r.INTERFACES, {"phase": "Bound"}, {"phase": "Lost"}, "Bound", part="status"),
]

CLOUD_CASES = [
    Case(
        "the context is immutable",
        r.VPCS,
        {"networks": ["10.128.0.0/20"]},
        {"networkContextRef": {"name": "other"}},
        "a VPC stays with its network context",
        before={},
    ),
    Case("networks are CIDRs", r.VPCS, {"networks": ["fd00::/64"]}, {"networks": ["fd00::"]}, CIDR),
    Case("the identifier is base62", r.VPCS, {"vpc": "5Gomdd23"}, {"vpc": "5-23"}, "in base62", part="status"),
    Case("vpc is required", r.ATTACHMENTS, {}, {"vpc": None}, "spec.vpc: Required value"),
    Case("vpc has a name", r.ATTACHMENTS, {}, {"vpc": {"name": ""}}, "spec.vpc.name"),
    Case("mode is Netns or Hypervisor", r.ATTACHMENTS, interface(mode="Hypervisor"), interface(mode="Veth"), "Netns"),
    Case("mode has no default", r.ATTACHMENTS, {}, interface(mode=None), "mode"),
    Case("addresses may be empty", r.ATTACHMENTS, interface(addresses=[]), interface(addresses=["10.0.0.7"]), CIDR),
    Case(
        "addresses are host forms",
        r.ATTACHMENTS,
        interface(addresses=["fd00:10:ff01:0:1::1/96", "172.20.1.7/32"], gateways=["172.20.1.1"]),
        interface(gateways=["172.20.1.1/20"]),
        BARE,
    ),
    Case(
        "an identifier alone is a status",
        r.ATTACHMENTS,
        {"vpcAttachment": "1a"},
        {"vpcAttachment": "1-a"},
        "in base62",
        part="status",
    ),
    Case(
        "a pending state alone is a status",
        r.ATTACHMENTS,
        {"conditions": [{"type": "Ready"}]},
        {"podSubnet": "10.0.0.7"},
        CIDR,
        part="status",
    ),
    Case(
        "device names fit the kernel",
        r.ATTACHMENTS,
        {"hostInterface": "G000000010001H", "vrfInterface": "G000000010V"},
        {"hostInterface": "G0000000100001HH"},
        "may not be more than 15",
        part="status",
    ),
    Case(
        "the holder is a context or an interface",
        r.IDENTIFIERS,
        {"holder": {**HOLDER, "kind": "NetworkInterface"}},
        {"holder": {**HOLDER, "kind": "Pod"}},
        '"NetworkContext", "NetworkInterface"',
    ),
    Case("the holder has a uid", r.IDENTIFIERS, {}, {"holder": {**HOLDER, "uid": ""}}, "holder.uid"),
]

ROUTER = BASE[r.BGP_ROUTERS]
LOCATOR = "write the locator as an IPv6 /64"
NETWORK_CASES = [
    *(
        Case(f"locator {text} is refused", r.BGP_ROUTERS, {}, {"srv6Locator": text}, LOCATOR)
        for text in ("fd00:ff::/48", "fd00:ff:0:1::1/64", "10.0.0.0/24", "x")
    ),
    Case("next hop is an IPv6 address", r.BGP_ROUTERS, {}, {"nextHop": "10.0.0.1"}, "write one bare IPv6 address"),
    Case("target is a Node", r.BGP_ROUTERS, {}, {"targetRef": {"kind": "Pod", "name": "x"}}, "Node"),
    Case(
        "prefixes may be empty, and are CIDRs",
        r.BGP_ADVERTISEMENTS,
        {"prefixes": []},
        {"prefixes": ["10.0.0.2"]},
        CIDR,
    ),
    Case(
        "at most 256 prefixes",
        r.BGP_ADVERTISEMENTS,
        {"prefixes": [f"10.0.{n}.0/24" for n in range(256)]},
        {"prefixes": [f"10.{n}.0.0/16" for n in range(256)] + ["11.0.0.0/16"]},
        "at most 256 items",
    ),
    Case(
        "sids are IPv6 addresses",
        r.BGP_ADVERTISEMENTS,
        {"sids": [{"sid": "fd00:ff:0:1::3e:46", "function": "End.DT46"}]},
        {"sids": [{"sid": "10.0.0.1", "function": "End.DX4", "family": "IPv4"}]},
        "write one bare IPv6 address",
    ),
    Case(
        "sid functions are those that the agent programs",
        r.BGP_ADVERTISEMENTS,
        {"sids": [{"sid": "fd00::4", "function": "End.DX4", "family": "IPv4"}]},
        {"sids": [{"sid": "fd00::4", "function": "End.B6"}]},
        "End.DT46",
    ),
    Case(
        "the attachment is one very object",
        r.BGP_ADVERTISEMENTS,
        {},
        {"attachmentRef": {"namespace": "shop", "name": "web-0-eth0"}},
        "attachmentRef.uid: Required value",
    ),
]

KEEPS = {"parentRef": {"name": "root"}, "prefixLength": 20, "cidr": None}
CLASS_CASES = [
    Case(
        "an IPv4 block is at most 32 long",
        r.IP_CLASSES,
        {"ipFamily": "IPv4", "prefixLength": 32},
        {"ipFamily": "IPv4", "prefixLength": 33},
        "an IPv4 class hands out blocks of prefix length 32 or shorter",
    ),
    Case("a block is at most 128 long", r.IP_CLASSES, {"prefixLength": 128}, {"prefixLength": 129}, "equal to 128"),
    Case(
        "family is immutable", r.IP_CLASSES, {}, {"ipFamily": "IPv4"}, "a class keeps its", before={"prefixLength": 8}
    ),
    Case("length is immutable", r.IP_CLASSES, {}, {"prefixLength": 64}, "a class keeps its prefix length", before={}),
    Case(
        "parent is immutable",
        r.IP_CLASSES,
        {"cooldown": "5m"},
        {"parentClassName": "a"},
        "a class keeps its parent",
        before={},
    ),
    Case(
        "poolPer is immutable",
        r.IP_CLASSES,
        {"poolPer": ["network"], "strategy": "Random"},
        {"poolPer": ["network", "location"]},
        "a class keeps its poolPer roles",
        before={"poolPer": ["network"]},
    ),
    Case(
        "uniqueWithin is immutable",
        r.IP_CLASSES,
        {"uniqueWithin": ["network"], "reservations": {"leading": 1}},
        {"uniqueWithin": None},
        "a class keeps its uniqueWithin roles",
        before={"uniqueWithin": ["network"]},
    ),
    Case("roles are words", r.IP_CLASSES, {"poolPer": ["network"]}, {"poolPer": ["Net work"]}, "name a scope role"),
    Case("roles are unique", r.IP_CLASSES, {"poolPer": ["a", "b"]}, {"poolPer": ["a", "a"]}, "Duplicate value"),
    Case("cooldown is a duration", r.IP_CLASSES, {"cooldown": "1h30m"}, {"cooldown": "5"}, "write a duration"),
    Case("strategy is known", r.IP_CLASSES, {"strategy": "FirstFit"}, {"strategy": "BestFit"}, "NextFit"),
    Case(
        "reservations are not negative",
        r.IP_CLASSES,
        {"reservations": {"leading": 2, "trailing": 2}},
        {"reservations": {"leading": -1}},
        "greater than or equal to 0",
    ),
]

POOL_CASES = [
    Case("a pool has a range or a parent", r.IP_POOLS, KEEPS, {"cidr": None}, "set either cidr"),
    Case("a pool has not both", r.IP_POOLS, KEEPS, {**KEEPS, "cidr": "10.0.0.0/8"}, "set either cidr"),
    Case("a carved pool has a length", r.IP_POOLS, KEEPS, {**KEEPS, "prefixLength": None}, "set prefixLength together"),
    Case("a root pool has no length", r.IP_POOLS, {}, {"prefixLength": 20}, "set prefixLength together"),
    Case("a range has no host bits", r.IP_POOLS, {"cidr": "fd20::/36"}, {"cidr": "10.0.0.1/24"}, "without host bits"),
    Case("a range may grow", r.IP_POOLS, {"cidr": "10.0.0.0/8"}, {"cidr": "10.128.0.0/17"}, "may only grow", before={}),
    Case("a range never moves", r.IP_POOLS, {}, {"cidr": "10.129.0.0/16"}, "may only grow", before={}),
    Case("a range keeps its family", r.IP_POOLS, {}, {"cidr": "::/0"}, "may only grow", before={}),
    Case("a root stays a root", r.IP_POOLS, {}, KEEPS, "a pool stays where it was carved", before={}),
    Case(
        "a carved pool keeps its parent",
        r.IP_POOLS,
        KEEPS,
        {**KEEPS, "parentRef": {"name": "other"}},
        "a pool stays where it was carved",
        before=KEEPS,
    ),
    Case(
        "a carved pool keeps its length",
        r.IP_POOLS,
        {**KEEPS, "classNames": ["a"]},
        {**KEEPS, "prefixLength": 21},
        "a carved pool keeps its length",
        before=KEEPS,
    ),
    Case(
        "a pool keeps what it was made for",
        r.IP_POOLS,
        {**KEEPS, "madeFor": {"className": "a", "scope": {"network": {"kind": "Network", "name": "n"}}}},
        {**KEEPS, "madeFor": {"className": "a", "scope": {"network": {"kind": "Network", "name": "m"}}}},
        "a pool stays with the class and scope",
        before={**KEEPS, "madeFor": {"className": "a", "scope": {"network": {"kind": "Network", "name": "n"}}}},
    ),
    Case("classes are unique", r.IP_POOLS, {"classNames": ["a", "b"]}, {"classNames": ["a", "a"]}, "Duplicate value"),
    Case(
        "excluded are blocks",
        r.IP_POOLS,
        {"excluded": ["10.128.1.0/24"]},
        {"excluded": ["10.128.1.1/24"]},
        "without host bits",
    ),
    Case(
        "sharing is a label selector",
        r.IP_POOLS,
        {"sharedWith": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}},
        {"sharedWith": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        "operator",
    ),
    Case(
        "a written range is not removed",
        r.IP_POOLS,
        {"cidr": "10.128.0.0/20", "spaces": 1},
        {},
        "the range of a pool is written once",
        before={"cidr": "10.128.0.0/20"},
        part="status",
    ),
    Case(
        "a written range never moves",
        r.IP_POOLS,
        {"cidr": "10.128.0.0/16"},
        {"cidr": "10.128.16.0/20"},
        "the range of a pool is written once and may only grow",
        before={"cidr": "10.128.0.0/20"},
        part="status",
    ),
    Case(
        "counts are whole numbers",
        r.IP_POOLS,
        {"capacity": dict.fromkeys(("total", "allocated", "reserved", "cooling", "available"), "2" * 39)},
        {"capacity": dict.fromkeys(("total", "allocated", "reserved", "cooling", "available"), "many")},
        "write a whole number",
        part="status",
    ),
]

SCOPE = {"network": {"kind": "Network", "namespace": "shop", "name": "default"}}
IPAM_CLAIM_CASES = [
    Case(
        "a class or a family",
        r.IP_CLAIMS,
        {"className": None, "ipFamily": "IPv6"},
        {"className": None},
        "set either className or ipFamily",
    ),
    Case("not both", r.IP_CLAIMS, {}, {"ipFamily": "IPv6"}, "set either className or ipFamily"),
    Case("class is immutable", r.IP_CLAIMS, {}, {"className": "other"}, "a claim keeps its class", before={}),
    Case(
        "family is immutable",
        r.IP_CLAIMS,
        {"className": None, "ipFamily": "IPv6"},
        {"className": None, "ipFamily": "IPv4"},
        "a claim keeps its family",
        before={"className": None, "ipFamily": "IPv6"},
    ),
    Case(
        "scope is immutable",
        r.IP_CLAIMS,
        {"scope": SCOPE},
        {"scope": {**SCOPE, "location": {"kind": "Location", "name": "here"}}},
        "a claim keeps its scope",
        before={"scope": SCOPE},
    ),
    Case("target is immutable", r.IP_CLAIMS, {}, {"target": "Range"}, "a claim keeps its target", before={}),
    Case("address is immutable", r.IP_CLAIMS, {}, {"address": "10.0.0.9"}, "a claim keeps the address", before={}),
    Case(
        "the owner may move, wholly",
        r.IP_CLAIMS,
        {"ownerRef": {**OWNER, "uid": "2"}},
        {"ownerRef": {**OWNER, "uid": ""}},
        "ownerRef.uid",
        before={"ownerRef": OWNER},
    ),
    Case(
        "address is an address or a block",
        r.IP_CLAIMS,
        {"address": "10.0.0.9"},
        {"address": "ten"},
        "write an address such as",
    ),
    Case(
        "a written block is not removed",
        r.IP_CLAIMS,
        {"cidr": "10.128.0.2/32", "phase": "Bound"},
        {"phase": "Pending"},
        "the block of a claim is written once",
        before={"cidr": "10.128.0.2/32"},
        part="status",
    ),
    Case(
        "a written block never changes",
        r.IP_CLAIMS,
        {"cidr": "10.128.0.2/32", "phase": "Bound"},
        {"cidr": "10.128.0.3/32"},
        "the block of a claim is written once",
        before={"cidr": "10.128.0.2/32"},
        part="status",
    ),
]

ALLOCATION_CASES = [
    Case("pool is immutable", r.IP_ALLOCATIONS, {}, {"poolRef": {"name": "q"}}, "stays in its pool", before={}),
    Case("block is immutable", r.IP_ALLOCATIONS, {}, {"cidr": "10.128.0.3/32"}, "keeps its block", before={}),
    Case("space is immutable", r.IP_ALLOCATIONS, {}, {"space": "x"}, "stays in its space", before={}),
    Case(
        "a held block may cool, until a time",
        r.IP_ALLOCATIONS,
        {"purpose": "Cooling", "claimRef": None, "releaseAt": "2026-01-01T00:00:00Z"},
        {"purpose": "Cooling", "claimRef": None},
        "set releaseAt",
        before={},
    ),
    Case(
        "a claim or carve names its holder",
        r.IP_ALLOCATIONS,
        {"purpose": "Reservation", "claimRef": None},
        {"purpose": "Carve", "claimRef": None},
        "set claimRef",
    ),
]

TEMPLATES_CHANGE = "a claim template never changes: remove it and add one of another name"
COMPUTE_CASES = [
    Case("replicas are not negative", r.WORKLOADS, {"replicas": 0}, {"replicas": -1}, "greater than or equal to 0"),
    Case(
        "replicas are at most 1000", r.WORKLOADS, {"replicas": 1000}, {"replicas": 1001}, "less than or equal to 1000"
    ),
    Case("at least one interface", r.WORKLOADS, {}, templates(), "at least 1 items"),
    Case(
        "at most eight interfaces",
        r.WORKLOADS,
        templates(*((f"eth{n}", {}) for n in range(8))),
        templates(*((f"eth{n}", {}) for n in range(9))),
        "at most 8 items",
    ),
    Case(
        "templates have names of their own",
        r.WORKLOADS,
        templates(("eth0", {}), ("eth1", {})),
        templates(("eth0", {}), ("eth0", {"interfaceName": "eth1"})),
        "give every claim template a name of its own",
    ),
    *(
        Case(
            f"template name {name!r} is refused",
            r.WORKLOADS,
            templates(("e" * 15, {})),
            templates((name, {})),
            "name the template with a lower-case letter",
        )
        for name in ("0eth", "eth-0", "Eth", "eth.0")
    ),
    Case(
        "a template name has at most 15 characters",
        r.WORKLOADS,
        templates(("e" * 15, {})),
        templates(("e" * 16, {})),
        "may not be more than 15",
    ),
    Case(
        "a template never changes",
        r.WORKLOADS,
        templates(("eth0", {}), ("eth1", {})),
        templates(("eth0", {"reclaimPolicy": "Retain"})),
        TEMPLATES_CHANGE,
        before=templates(("eth0", {})),
    ),
    Case(
        "a template may go",
        r.WORKLOADS,
        templates(("eth1", {})),
        templates(("eth1", {"network": {"name": "other"}})),
        TEMPLATES_CHANGE,
        before=templates(("eth0", {}), ("eth1", {})),
    ),
    Case(
        "a template asks for a valid interface",
        r.WORKLOADS,
        templates(("eth0", {"interfaceName": "net1"})),
        templates(("eth0", {"interfaceName": "lo"})),
        NAME,
    ),
    Case("at least one may be away", r.WORKLOADS, {"maxUnavailable": 3}, {"maxUnavailable": 0}, "equal to 1"),
    Case(
        "the order is one of two",
        r.WORKLOADS,
        {"podManagementPolicy": "OrderedReady"},
        {"podManagementPolicy": "Any"},
        "OrderedReady",
    ),
    Case("an instance keeps its slot", r.INSTANCES, {}, {"ordinal": 1}, "an instance keeps its slot", before={}),
    Case(
        "gates are unique",
        r.INSTANCES,
        {"schedulingGates": [{"name": "Network"}]},
        {"schedulingGates": [{"name": "Network"}, {"name": "Network"}]},
        "Duplicate value",
    ),
    Case(
        "an assigned address is bare",
        r.INSTANCES,
        {"networkInterfaces": [{"name": "eth0", "assignments": {"networkIP": "fd20:1000:0:1::1:0:1"}}]},
        {"networkInterfaces": [{"name": "eth0", "assignments": {"networkIP": "fd20:1000:0:1::/96"}}]},
        BARE,
        part="status",
    ),
]

CASES = [
    *NETWORKING_CASES,
    *CLAIM_CASES,
    *INTERFACE_CASES,
    *CLOUD_CASES,
    *NETWORK_CASES,
    *CLASS_CASES,
    *POOL_CASES,
    *IPAM_CLAIM_CASES,
    *ALLOCATION_CASES,
    *COMPUTE_CASES,
]
