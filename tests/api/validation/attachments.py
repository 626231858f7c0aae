"""VPCs, attachments, identifiers and routes: what their rules accept and refuse."""

from netclaim.api import resources as r
from tests.api.validation.table import BARE, BASE, CIDR, HOLDER, Case, interface

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

CASES = [*CLOUD_CASES, *NETWORK_CASES]
