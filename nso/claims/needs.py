"""What a claim asks IPAM for: one block per family, one external address per named class."""

from __future__ import annotations

from dataclasses import dataclass

from netclaim import addresses
from netclaim.api import ipam
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import IPFamily, NetworkInterfaceClaim
from netclaim.identity import class_claim_name, family_claim_name
from nso.ipclaims import Cell, Owner

KIND = "NetworkInterfaceClaim"


@dataclass(frozen=True, slots=True)
class Need:
    """One address: of a `family` on the network, or of a `class_name` outside it.

    `name` is the IPClaim's. `address` is set for a claim that was bound before: the block it already had.
    """

    name: str
    family: IPFamily | None = None
    class_name: str | None = None
    address: str | None = None

    @property
    def wanted(self) -> str:
        """The need, for people."""
        return f"class {self.class_name}" if self.class_name else f"family {self.family}"

    def is_met_by(self, ip_claim: IPClaim, namespace: str, network: str) -> bool:
        """Whether the IPClaim asks for just this, on that network."""
        scoped = ip_claim.spec.scope.get(ipam.ROLE_NETWORK)
        return (
            ip_claim.spec.target == ipam.TARGET_BLOCK
            and ip_claim.spec.class_name == self.class_name
            and ip_claim.spec.ip_family == self.family
            and scoped is not None
            and (scoped.namespace, scoped.name) == (namespace, network)
        )


def owner(claim: NetworkInterfaceClaim) -> Owner:
    """The claim as the owner of its IPClaims."""
    return Owner(KIND, claim.namespace, claim.name, claim.uid)


def needs_of(cell: Cell, claim: NetworkInterfaceClaim, families: tuple[IPFamily, ...]) -> tuple[Need, ...]:
    """What the claim asks for; the first family is primary. What it was given before it asks for again by address."""
    where = (cell.location, claim.namespace, claim.name)
    had = {entry.family: entry.address for entry in claim.status.addresses}
    had_outside = {entry.class_: entry.address for entry in claim.status.external_addresses}
    inside = tuple(
        Need(family_claim_name(*where, family), family=family, address=had.get(family)) for family in families
    )
    outside = tuple(
        Need(class_claim_name(*where, entry.class_), class_name=entry.class_, address=had_outside.get(entry.class_))
        for entry in claim.spec.addresses
    )
    return (*inside, *outside)


def possible_names(location: str, raw: Raw) -> tuple[str, ...]:
    """Names of all IPClaims that a claim may have asked for, whatever its network carries."""
    metadata, spec = raw["metadata"], raw["spec"]
    where = (location, metadata["namespace"], metadata["name"])
    families = spec.get("ipFamilies") or ["IPv4", "IPv6"]
    inside = tuple(family_claim_name(*where, family) for family in families)
    return (*inside, *(class_claim_name(*where, entry["class"]) for entry in spec.get("addresses") or ()))


def holds(ip_claim: IPClaim, address: str) -> bool:
    """Whether the IPClaim still holds the block of a published address."""
    return ip_claim.status.cidr is not None and not ip_claim.is_going and addresses.same(ip_claim.status.cidr, address)
