"""What a case of the validation tests is, and the least spec of each kind, over which cases are laid."""

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
NAME = "write an interface name of 1 to 15 printable ASCII characters"
