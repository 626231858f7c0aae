"""Networks, claims and interfaces: what their rules accept and refuse."""

from netclaim.api import resources as r
from tests.api.validation.table import BARE, CIDR, INTERFACE_ADDRESS, NAME, Case

NEVER = "a claim never changes"

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

CASES = [*NETWORKING_CASES, *CLAIM_CASES, *INTERFACE_CASES]
