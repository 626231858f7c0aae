"""What a cell asks of IPAM: the owners and scopes of its IPClaims, and how it reads the answers.

The names (netclaim.identity) are a function of location, namespace, owner and what is asked for, so that a retry or a
restart finds what was asked for before. A name is never proof of ownership: that is the uid in `spec.ownerRef`.
"""

from __future__ import annotations

from dataclasses import dataclass

from netclaim.api import ipam
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import IPFamily


@dataclass(frozen=True, slots=True)
class Owner:
    """The object of this cell that an IPClaim is for."""

    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Cell:
    """This cell as IPAM knows it: its location, and the uid of its kube-system namespace."""

    location: str
    control_plane: str

    def scope(self, namespace: str, network: str) -> Raw:
        """The roles that a block is carved for: the network and this location. A class uses those that it names."""
        return {
            ipam.ROLE_NETWORK: {"kind": "Network", "namespace": namespace, "name": network},
            ipam.ROLE_LOCATION: {"kind": "Location", "name": self.location},
        }

    def owner_ref(self, owner: Owner) -> Raw:
        """`spec.ownerRef` of an IPClaim that is for `owner`."""
        return {
            "controlPlane": self.control_plane,
            "kind": owner.kind,
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid,
        }

    def owns(self, ip_claim: IPClaim) -> bool:
        """Whether the IPClaim was asked for by this cell."""
        ref = ip_claim.spec.owner_ref
        return ref is not None and ref.control_plane == self.control_plane

    def is_for(self, ip_claim: IPClaim, owner: Owner) -> bool:
        """Whether the IPClaim is this very owner's, by uid."""
        ref = ip_claim.spec.owner_ref
        return self.owns(ip_claim) and ref is not None and (ref.kind, ref.uid) == (owner.kind, owner.uid)

    def is_for_namesake(self, ip_claim: IPClaim, owner: Owner) -> bool:
        """Whether it is for an earlier (or later) object of the same name: another uid."""
        ref = ip_claim.spec.owner_ref
        return (
            self.owns(ip_claim)
            and ref is not None
            and (ref.kind, ref.namespace, ref.name) == (owner.kind, owner.namespace, owner.name)
            and ref.uid != owner.uid
        )

    def build(
        self,
        name: str,
        *,
        project: str,
        owner: Owner,
        network: str,
        target: str,
        class_name: str | None = None,
        family: IPFamily | None = None,
        address: str | None = None,
    ) -> Raw:
        """The IPClaim to create. Either `class_name`, or `family` for the project's default class of it.

        `address` asks for one very block.

        IPAM's finalizer is in the creating write: nothing can be allocated for an IPClaim that is already gone.
        """
        wanted: Raw = {"className": class_name} if class_name else {"ipFamily": family}
        if address:
            wanted["address"] = address
        return {
            "metadata": {
                "name": name,
                "namespace": project,
                "labels": {ipam.LOCATION_LABEL: self.location, ipam.CONTROL_PLANE_LABEL: self.control_plane},
                "finalizers": [ipam.CLAIM_FINALIZER],
            },
            "spec": {
                **wanted,
                "scope": self.scope(owner.namespace, network),
                "target": target,
                "ownerRef": self.owner_ref(owner),
            },
        }


def selector(location: str) -> str:
    """Label selector of the IPClaims that the cell of a location has asked for."""
    return f"{ipam.LOCATION_LABEL}={location}"


def is_project(namespace: Raw | None) -> bool:
    """Whether this Namespace of the IPAM control plane is there to allocate in: it exists, and is not going."""
    return namespace is not None and not namespace["metadata"].get("deletionTimestamp")


def is_bound(ip_claim: IPClaim) -> bool:
    """Whether IPAM has answered with a block, and nobody has asked to give it back."""
    return ip_claim.status.phase == ipam.PHASE_BOUND and bool(ip_claim.status.cidr) and not ip_claim.is_going


def describe_owner(ip_claim: IPClaim) -> str:
    """Whose IPClaim it is, for people."""
    ref = ip_claim.spec.owner_ref
    if ref is None:
        return "nobody (it has no ownerRef)"
    return f"{ref.kind} {ref.namespace}/{ref.name} (uid {ref.uid}) of control plane {ref.control_plane}"


def by_owner_uid(raw: Raw) -> tuple[str, ...]:
    """Index function of IPClaims: the uid of the object that each is for."""
    ref = (raw.get("spec") or {}).get("ownerRef") or {}
    return (ref["uid"],) if ref.get("uid") else ()


def owner_key(raw: Raw, kind: str, control_plane: str) -> tuple[tuple[str, str], ...]:
    """(namespace, name) of the object of that kind, in that control plane, that the IPClaim is for; else nothing."""
    ref = (raw.get("spec") or {}).get("ownerRef") or {}
    if ref.get("kind") != kind or ref.get("controlPlane") != control_plane:
        return ()
    return ((str(ref.get("namespace") or ""), str(ref["name"])),)
