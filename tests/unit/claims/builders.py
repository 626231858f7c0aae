"""Snapshots for the planners of claims, built from as little as a test cares about."""

from dataclasses import replace
from typing import Any

from netclaim.api import networking
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import (
    Network,
    NetworkContext,
    NetworkInterface,
    NetworkInterfaceClaim,
    Subnet,
)
from nso.claims.needs import needs_of, owner
from nso.claims.observed import ClaimSeen, HeldInterface, InterfaceSeen
from nso.ipclaims import Cell

CELL = Cell("us-central-1", "cell-id")
NAMESPACE = "shop"
PROJECT = "project-alpha"
SUBNETS = {"IPv6": ("fd20:1000::/64", "fd20:1000::1"), "IPv4": ("10.128.0.0/20", "10.128.0.1")}
CIDRS = {"IPv6": "fd20:1000::1:0:0/96", "IPv4": "10.128.0.2/32", "public": "198.51.100.11/32"}


def claim_raw(name: str = "web-0-eth0", *, uid: str = "uid-1", **spec: Any) -> Raw:
    """A claim as a store holds it. `going`, `finalizers`, `status` and `conditions` are taken out of `spec`."""
    metadata: Raw = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid,
        "generation": 1,
        "resourceVersion": "7",
        "finalizers": spec.pop("finalizers", []),
    }
    if spec.pop("going", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = spec.pop("status", {})
    return {"metadata": metadata, "spec": {"network": {"name": "default"}, **spec}, "status": status}


def network(families: tuple[str, ...] = ("IPv6", "IPv4"), **metadata: Any) -> Network:
    """A network that has recorded its project."""
    annotations = {networking.PROJECT_ANNOTATION: PROJECT}
    return Network.model_validate(
        {
            "metadata": {"name": "default", "namespace": NAMESPACE, "annotations": annotations, **metadata},
            "spec": {"ipFamilies": list(families), "mtu": 1460},
        }
    )


def context(**metadata: Any) -> NetworkContext:
    """The network's context in this location."""
    return NetworkContext.model_validate(
        {
            "metadata": {"name": "default-us-central-1", "namespace": NAMESPACE, **metadata},
            "spec": {"network": {"name": "default"}, "location": "us-central-1"},
        }
    )


def subnets(families: tuple[str, ...] = ("IPv6", "IPv4")) -> dict[str, Subnet]:
    """Ready subnets."""
    return {
        family: Subnet.model_validate(
            {
                "metadata": {"name": f"default-us-central-1-{family.lower()}", "namespace": NAMESPACE},
                "spec": {"networkContext": {"name": "default-us-central-1"}, "ipFamily": family},
                "status": {
                    "cidr": SUBNETS[family][0],
                    "gateway": SUBNETS[family][1],
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
        for family in families
    }


def seen(raw: Raw | None = None, **changes: Any) -> ClaimSeen:
    """A claim whose namespace, network and subnets are all as they should be, and nothing asked for yet."""
    raw = raw or claim_raw()
    whole = ClaimSeen(
        cell=CELL,
        raw=raw,
        claim=NetworkInterfaceClaim.model_validate(raw),
        project_label=networking.PROJECT_LABEL,
        project=PROJECT,
        project_exists=True,
        namespace_is_going=False,
        network=network(),
        context=context(),
        subnets=subnets(),
    )
    return replace(whole, **changes)


def ip_claims(around: ClaimSeen, *, families: tuple[str, ...] = ("IPv6", "IPv4")) -> tuple[IPClaim, ...]:
    """The claim's IPClaims, all bound."""
    return tuple(
        ip_claim(
            around, need.name, **({"className": need.class_name} if need.class_name else {"ipFamily": need.family})
        )
        for need in needs_of(around.cell, around.claim, families)
    )


def ip_claim(around: ClaimSeen, name: str, **changes: Any) -> IPClaim:
    """One IPClaim of the claim, bound unless `status` says otherwise. `owner` replaces parts of its ownerRef."""
    own = around.cell.owner_ref(owner(around.claim)) | changes.pop("owner", {})
    metadata: Raw = {"name": name, "namespace": PROJECT, "uid": f"uid-of-{name}"}
    if changes.pop("going", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kind = changes.get("className") or changes.get("ipFamily")
    status = changes.pop("status", {"phase": "Bound", "cidr": CIDRS.get(str(kind), CIDRS["IPv4"])})
    spec = {"scope": around.cell.scope(NAMESPACE, "default"), "target": "Block", "ownerRef": own, **changes}
    return IPClaim.model_validate({"metadata": metadata, "spec": spec, "status": status})


def refused(reason: str, message: str = "words", phase: str = "Pending") -> Raw:
    """Status of an IPClaim that IPAM does not serve."""
    return {
        "phase": phase,
        "conditions": [{"type": "Bound", "status": "False", "reason": reason, "message": message}],
    }


def held(**changes: Any) -> HeldInterface:
    """An interface of the claim `web-0-eth0` (uid-1), held by it; `holder=None` for an available one."""
    holder = changes.pop("holder", "uid-1")
    minted_for = changes.pop("minted_for", "uid-1")
    metadata: Raw = {
        "name": "web-0-eth0",
        "namespace": NAMESPACE,
        "uid": "uid-of-interface",
        "resourceVersion": "42",
        "generation": 1,
        "finalizers": changes.pop("finalizers", [networking.INTERFACE_RELEASE_FINALIZER]),
        "annotations": {
            networking.ALLOCATED_FOR_ANNOTATION: f"web-0-eth0/{minted_for}",
            networking.PROJECT_ANNOTATION: PROJECT,
        },
    }
    if changes.pop("going", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status = changes.pop("status", {})
    spec: Raw = {
        "network": {"name": "default"},
        "interfaceName": "eth0",
        "mtu": 1460,
        "addresses": [
            {"family": "IPv6", "address": CIDRS["IPv6"], "gateway": "fd20:1000::1", "primary": True},
            {"family": "IPv4", "address": CIDRS["IPv4"], "gateway": "10.128.0.1", "primary": False},
        ],
        "externalAddresses": [],
        "reclaimPolicy": "Delete",
        **changes,
    }
    if holder:
        spec["claimRef"] = {"name": "web-0-eth0", "uid": holder}
    raw = {"metadata": metadata, "spec": spec, "status": status}
    return HeldInterface(raw, NetworkInterface.model_validate(raw))


def interface_seen(around: HeldInterface, claim: Raw | None = None, **changes: Any) -> InterfaceSeen:
    """An interface with its holder, if there is one."""
    whole = InterfaceSeen(
        cell=CELL,
        held=around,
        claim=NetworkInterfaceClaim.model_validate(claim) if claim else None,
        namespace_is_going=False,
    )
    return replace(whole, **changes)
