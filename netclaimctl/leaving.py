"""What an uninstallation deletes, in which order, and which finalizers hold it when nobody works on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from netclaim.api import cloud, ipam, networking, resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.objects import key_of

CELL_KINDS: Final[tuple[Resource, ...]] = (
    resources.WORKLOADS,
    resources.INSTANCES,
    resources.CLAIMS,
    resources.INTERFACES,
    resources.ATTACHMENTS,
    resources.SUBNET_CLAIMS,
    resources.NETWORK_BINDINGS,
    resources.NETWORKS,
    resources.NETWORK_CONTEXTS,
    resources.SUBNETS,
    resources.VPCS,
    resources.IDENTIFIERS,
    resources.BGP_ADVERTISEMENTS,
    resources.BGP_ROUTERS,
)
"""From who uses to what is used, so that each kind finds nothing left that holds on to it."""

IPAM_KINDS: Final[tuple[Resource, ...]] = (
    resources.IP_CLAIMS,
    resources.IP_ALLOCATIONS,
    resources.IP_POOLS,
    resources.IP_CLASSES,
)

OURS: Final = frozenset(
    {
        cloud.ATTACHED_FINALIZER,
        cloud.IN_USE_FINALIZER,
        ipam.CLAIM_FINALIZER,
        ipam.POOL_FINALIZER,
        networking.TEARDOWN_FINALIZER,
        networking.CLAIM_RELEASE_FINALIZER,
        networking.INTERFACE_RELEASE_FINALIZER,
    }
)
"""Finalizers of netclaim's programs; what others have put on an object is theirs to take off."""


def in_use(attachments: Iterable[Raw]) -> list[str]:
    """The attachments that a node reports as its own: packets of their guests still flow. `namespace/name on node`."""
    told = ((key_of(raw), (raw.get("status") or {}).get("node")) for raw in attachments)
    return [f"{'/'.join(key)} on {node}" for key, node in told if node]


def stripped(raw: Raw) -> list[Raw]:
    """The patch that takes our finalizers off this version of the object; empty when it has none of them."""
    finalizers: list[str] = raw["metadata"].get("finalizers") or []
    kept = [one for one in finalizers if one not in OURS]
    if kept == finalizers:
        return []
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": raw["metadata"]["resourceVersion"]}
    return [test, {"op": "replace", "path": "/metadata/finalizers", "value": kept}]


def of_cell(ip_claims: Iterable[Raw], control_plane: str) -> list[Raw]:
    """Those of IPAM's claims that this cell has made."""
    return [raw for raw in ip_claims if (raw["spec"].get("ownerRef") or {}).get("controlPlane") == control_plane]


def held_by(allocations: Iterable[Raw], ip_claims: Iterable[Raw]) -> list[Raw]:
    """The allocations of these claims."""
    uids = {raw["metadata"]["uid"] for raw in ip_claims}
    return [raw for raw in allocations if (raw["spec"].get("claimRef") or {}).get("uid") in uids]
