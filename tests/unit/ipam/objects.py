"""Raw IPAM objects for tests of pure code, as an API server would return them."""

import itertools
from collections.abc import Sequence
from typing import Any

from netclaim.api import ipam
from netclaim.api.meta import Raw
from nso.ipam.blocks import Block
from nso.ipam.names import allocation_name

PROJECT = "project-alpha"
NETWORK = {"kind": "Network", "namespace": "shop", "name": "default"}
LOCATION = {"kind": "Location", "name": "us-central-1"}
SCOPE = {"network": NETWORK, "location": LOCATION}

_uids = itertools.count(1)


def meta(name: str, *, created: int = 0, finalizer: str | None = None, namespace: str = PROJECT) -> Raw:
    """Metadata of a stored object; `created` in seconds after the first day of 2026."""
    number = next(_uids)
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{number}",
        "resourceVersion": str(number),
        "generation": 1,
        "creationTimestamp": f"2026-01-01T{created // 3600:02d}:{created // 60 % 60:02d}:{created % 60:02d}Z",
        "finalizers": [finalizer] if finalizer else [],
    }


def ip_class(name: str, length: int, *, family: str = "IPv4", default: bool = False, **spec: Any) -> Raw:
    """An IPClass."""
    raw = {"metadata": meta(name), "spec": {"ipFamily": family, "prefixLength": length, **spec}}
    if default:
        raw["metadata"]["annotations"] = {ipam.DEFAULT_CLASS_ANNOTATION: "true"}
    return raw


def root_pool(
    name: str,
    cidr: str,
    *classes: str,
    ready: bool = True,
    created: int = 0,
    length: int = 32,
    unique_within: Sequence[str] = (),
    **spec: Any,
) -> Raw:
    """A root IPPool; Ready with its range unless told otherwise."""
    raw: Raw = {
        "metadata": meta(name, created=created, finalizer=ipam.POOL_FINALIZER),
        "spec": {"cidr": cidr, "classNames": list(classes), **spec},
        "status": {"conditions": []},
    }
    if ready:
        raw["status"] = {"cidr": cidr, "conditions": [{"type": ipam.READY, "status": "True", "reason": "Offered"}]}
        raw["status"]["blocks"] = {"prefixLength": length, "uniqueWithin": list(unique_within)}
    return raw


def ip_claim(name: str, *, created: int = 0, finalizer: str | None = ipam.CLAIM_FINALIZER, **spec: Any) -> Raw:
    """An IPClaim with the usual scope, not bound."""
    spec.setdefault("scope", SCOPE)
    spec.setdefault("target", "Block")
    return {
        "metadata": meta(name, created=created, finalizer=finalizer),
        "spec": spec,
        "status": {"conditions": []},
    }


def allocation(
    pool: str, cidr: str, holder: Raw | None = None, *, space: str = "", purpose: str = "Claim", created: int = 0
) -> Raw:
    """An IPAllocation under the name that its block has."""
    spec: Raw = {"poolRef": {"name": pool}, "cidr": cidr, "space": space, "purpose": purpose}
    if holder:
        spec["claimRef"] = {name: holder["metadata"][name] for name in ("namespace", "name", "uid")}
    return {"metadata": meta(allocation_name(pool, space, Block.parse(cidr)), created=created), "spec": spec}


def example_classes() -> list[Raw]:
    """The classes of examples/ipam-two-projects.yaml."""
    return [
        ip_class("network-ipv6", 48, family="IPv6", poolPer=["network"]),
        ip_class(
            "subnet-ipv6",
            64,
            family="IPv6",
            parentClassName="network-ipv6",
            poolPer=["network", "location"],
            reservations={"leading": 1},
        ),
        ip_class("endpoint-ipv6", 96, family="IPv6", parentClassName="subnet-ipv6", default=True),
        ip_class(
            "subnet-ipv4",
            20,
            poolPer=["network", "location"],
            uniqueWithin=["network"],
            reservations={"leading": 2, "trailing": 2},
        ),
        ip_class("endpoint-ipv4", 32, parentClassName="subnet-ipv4", uniqueWithin=["network"], default=True),
        ip_class("public-unicast-ipv4", 32),
    ]


def example_pools() -> list[Raw]:
    """The root pools of project-alpha in examples/ipam-two-projects.yaml."""
    return [
        root_pool("private-ipv6", "fd20:1000::/36", "network-ipv6"),
        root_pool("private-ipv4", "10.128.0.0/16", "subnet-ipv4"),
        root_pool("public-ipv4", "198.51.100.0/24", "public-unicast-ipv4"),
    ]
