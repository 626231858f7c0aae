"""Where a claim's interface would live: its project, network, context and subnets; or the first thing that lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netclaim import addresses
from netclaim.api.networking import PROJECT_ANNOTATION, READY, IPFamily, Network
from nso.claims import reasons
from nso.claims.observed import ClaimSeen
from nso.claims.reasons import Refusal
from nso.conditions import is_true, message_of


@dataclass(frozen=True, slots=True)
class Placement:
    """Families in the claim's order (the first is primary), each one's subnet and gateway, and the network's MTU."""

    families: tuple[IPFamily, ...]
    subnets: Mapping[IPFamily, str]
    gateways: Mapping[IPFamily, str]
    mtu: int

    def outside_its_subnet(self, given: Mapping[IPFamily, str]) -> Refusal | None:
        """A block that does not lie in the network's subnet here would have a gateway that it cannot reach."""
        for family, cidr in given.items():
            if not addresses.contains(self.subnets[family], cidr):
                error = (
                    f"IPAM gave {cidr}, which is outside the network's subnet {self.subnets[family]}: check the classes"
                )
                return reasons.ALLOCATION_FAILED.refuse(error=error)
        return None


def place(seen: ClaimSeen) -> Placement | Refusal:
    """Resolve the claim, or refuse it with the reason that stands first."""
    namespace = seen.claim.namespace
    if not seen.project:
        return reasons.PROJECT_UNRESOLVED.refuse(namespace=namespace, label=seen.project_label)
    if not seen.project_exists:
        return reasons.PROJECT_NOT_FOUND.refuse(project=seen.project, namespace=namespace)
    name = seen.claim.spec.network.name
    if seen.network is None:
        return reasons.NETWORK_NOT_FOUND.refuse(network=name, namespace=namespace)
    if seen.network.is_going:
        return _unavailable(seen, "it is being deleted.")
    families = tuple(seen.claim.spec.ip_families or seen.network.spec.ip_families)
    for family in families:
        if family not in seen.network.spec.ip_families:
            carried = ", ".join(seen.network.spec.ip_families)
            return reasons.ADDRESS_FAMILY_NOT_CARRIED.refuse(family=family, network=name, carried=carried)
    return _in_context(seen, seen.network, families)


def _in_context(seen: ClaimSeen, network: Network, families: tuple[IPFamily, ...]) -> Placement | Refusal:
    if seen.context is None:
        locations = network.spec.locations
        if locations and seen.cell.location not in locations:
            return _unavailable(seen, f"it reaches {', '.join(locations)} only.")
        words = message_of(network.status, READY) or "it has no context here yet."
        return _unavailable(seen, words)
    if seen.context.is_going:
        return _unavailable(seen, f"its context {seen.context.name} is being deleted.")
    of_network = network.metadata.annotations.get(PROJECT_ANNOTATION, "")
    if of_network and of_network != seen.project:
        error = (
            f"network {network.name} has its ranges in project {of_network}, and the claim belongs to project "
            f"{seen.project}: restore the label of namespace {network.namespace}, or make a new network"
        )
        return reasons.ALLOCATION_FAILED.refuse(error=error)
    subnets: dict[IPFamily, str] = {}
    gateways: dict[IPFamily, str] = {}
    for family in families:
        subnet = seen.subnets.get(family)
        if subnet is None:
            return _unavailable(seen, f"its context {seen.context.name} has no {family} subnet yet.")
        if subnet.is_going or not is_true(subnet.status, READY) or not subnet.status.cidr or not subnet.status.gateway:
            words = message_of(subnet.status, READY) or "IPAM has not answered yet."
            return _unavailable(seen, f"subnet {subnet.name} is not ready: {words}")
        subnets[family], gateways[family] = subnet.status.cidr, subnet.status.gateway
    return Placement(families, subnets, gateways, network.spec.mtu)


def _unavailable(seen: ClaimSeen, why: str) -> Refusal:
    return reasons.NETWORK_NOT_AVAILABLE.refuse(
        network=seen.claim.spec.network.name, location=seen.cell.location, why=why
    )
