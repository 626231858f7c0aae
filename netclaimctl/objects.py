"""What the commands look at: objects of the control planes, read once, as raw dicts. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from netclaim.api.meta import Key, Raw
from netclaim.api.networking import ALLOCATED_FOR_ANNOTATION
from netclaim.kube.objects import key_of, uid_of


@dataclass(frozen=True, slots=True)
class IpamObjects:
    """One project of the IPAM control plane, or all of them."""

    classes: tuple[Raw, ...] = ()
    pools: tuple[Raw, ...] = ()
    claims: tuple[Raw, ...] = ()
    allocations: tuple[Raw, ...] = ()

    @property
    def count(self) -> int:
        """How many objects there are."""
        return len(self.classes) + len(self.pools) + len(self.claims) + len(self.allocations)


@dataclass(frozen=True, slots=True)
class CellObjects:
    """One cell. `control_plane` is the uid of its kube-system Namespace, by which IPAM knows it."""

    control_plane: str
    claims: tuple[Raw, ...] = ()
    interfaces: tuple[Raw, ...] = ()
    networks: tuple[Raw, ...] = ()
    subnets: tuple[Raw, ...] = ()
    attachments: tuple[Raw, ...] = ()
    definitions: tuple[Raw, ...] = ()
    identifiers: tuple[Raw, ...] = ()

    @property
    def count(self) -> int:
        """How many objects there are."""
        lists = (self.claims, self.interfaces, self.networks, self.subnets)
        realized = (self.attachments, self.definitions, self.identifiers)
        return sum(len(listed) for listed in (*lists, *realized))


def by_key(objects: tuple[Raw, ...]) -> dict[Key, Raw]:
    """The objects by (namespace, name)."""
    return {key_of(raw): raw for raw in objects}


def uids(objects: tuple[Raw, ...]) -> set[str]:
    """The objects' uids."""
    return {uid_of(raw) for raw in objects}


def status(raw: Raw) -> Raw:
    """The object's status, empty when it has none."""
    found: Raw = raw.get("status") or {}
    return found


def owner_ref(ip_claim: Raw) -> Raw:
    """Whom an IPClaim is for, empty when it does not say."""
    found: Raw = ip_claim["spec"].get("ownerRef") or {}
    return found


def minted_for(interface: Raw) -> str:
    """UID of the claim that the interface's IPClaims are for; empty when it does not say."""
    annotations = interface["metadata"].get("annotations") or {}
    return str(annotations.get(ALLOCATED_FOR_ANNOTATION, "")).rpartition("/")[2]


def published(raw: Raw) -> list[str]:
    """The addresses of an interface's spec or of a claim's status, those on the network first."""
    entries = [*(raw.get("addresses") or ()), *(raw.get("externalAddresses") or ())]
    return [str(entry["address"]) for entry in entries]
