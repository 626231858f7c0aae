"""Why a claim is not ready: every reason once, next to its message. Code, documentation and tests use these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason and the template of its message: what, for whom, why, and what to do next."""

    name: str
    template: str

    def refuse(self, **values: object) -> Refusal:
        """A refusal for this reason, with the template's names filled in."""
        return Refusal(self.name, self.template.format(**values))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason with its message. `is_final` tells that the other addresses of the claim are not worth holding."""

    reason: str
    message: str
    is_final: bool = False


PROJECT_UNRESOLVED: Final = Reason(
    "ProjectUnresolved",
    "Namespace {namespace} has no label {label}: set it to the project that the claim's addresses belong to.",
)
PROJECT_NOT_FOUND: Final = Reason(
    "ProjectNotFound",
    "IPAM has no project {project}, which namespace {namespace} names: create the project or correct the label.",
)
NETWORK_NOT_FOUND: Final = Reason(
    "NetworkNotFound", "There is no network {network} in namespace {namespace}: create it, and the claim binds."
)
NETWORK_NOT_AVAILABLE: Final = Reason(
    "NetworkNotAvailableInLocation", "Network {network} is not available in location {location}: {why}"
)
ADDRESS_FAMILY_NOT_CARRIED: Final = Reason(
    "AddressFamilyNotCarried",
    "The claim wants {family}, and network {network} carries {carried} only: add the family to the network, "
    "or claim without it.",
)
ADDRESS_CLASS_NOT_FOUND: Final = Reason(
    "AddressClassNotFound", "Project {project} has no address class {wanted}. IPAM says: {words}"
)
NO_DEFAULT_ADDRESS_CLASS: Final = Reason(
    "NoDefaultAddressClass", "Project {project} has no default address class for {wanted}. IPAM says: {words}"
)
ADDRESS_POOL_EXHAUSTED: Final = Reason(
    "AddressPoolExhausted",
    "No address is left for {wanted} in project {project}. IPAM says: {words} The claim binds when one is freed.",
)
ADDRESS_ALLOCATION_REJECTED: Final = Reason(
    "AddressAllocationRejected", "IPAM does not serve {wanted} in project {project} ({cause}): {words}"
)
ADDRESS_CLAIM_CONFLICT: Final = Reason(
    "AddressClaimConflict",
    "IPClaim {project}/{ip_claim}, which this claim's address would have, belongs to {owner}: delete it there.",
)
INTERFACE_BEING_RELEASED: Final = Reason(
    "InterfaceBeingReleased", "{what} is still being released: it waits for {waits_for}."
)
QUOTA_EXCEEDED: Final = Reason(
    "QuotaExceeded", "A quota of project {project} is used up: {words}. Raise it, or delete claims of the project."
)
NETWORK_MISMATCH: Final = Reason(
    "NetworkMismatch", "Interface {interface} is on network {found}, and the claim wants {wanted}. {advice}"
)
INTERFACE_NAME_MISMATCH: Final = Reason(
    "InterfaceNameMismatch",
    "Interface {interface} is named {found} in the guest, and the claim wants {wanted}. {advice}",
)
ADDRESS_FAMILY_MISSING: Final = Reason(
    "AddressFamilyMissing", "Interface {interface} has addresses of {found}, and the claim wants {wanted}. {advice}"
)
ADDRESS_CLASS_MISSING: Final = Reason(
    "AddressClassMissing",
    "Interface {interface} has external addresses of {found}, and the claim wants {wanted}. {advice}",
)
RECLAIM_POLICY_MISMATCH: Final = Reason(
    "ReclaimPolicyMismatch", "Interface {interface} has reclaim policy {found}, and the claim wants {wanted}. {advice}"
)
INTERFACE_HELD: Final = Reason(
    "InterfaceHeldByAnotherClaim",
    "Interface {interface} is bound to claim {holder}: delete that claim, or pin another networkInterfaceName.",
)
ADDRESS_ALLOCATION_MISSING: Final = Reason(
    "AddressAllocationMissing",
    "The allocation behind {addresses} is gone from IPAM (project {project}): the interface keeps its addresses, "
    "and another may be given the same ones. Replace the claim.",
)
ALLOCATION_FAILED: Final = Reason("AllocationFailed", "The addresses could not be asked for: {error}")

OF_AN_ASK: Final = frozenset({QUOTA_EXCEEDED.name, ALLOCATION_FAILED.name})
"""Names of those that tell what became of an ask for addresses. The claim keeps its turn and asks again."""

ADOPTION_ADVICE: Final = "Delete the interface to give its addresses back, or claim what it has."

REFUSALS: Final = frozenset(value.name for value in tuple(globals().values()) if isinstance(value, Reason))
"""Names of all reasons above: a Ready condition shows them as they are."""

BOUND: Final = Reason("Bound", "Interface {interface} serves the claim.")
ALLOCATED: Final = Reason("Allocated", "IPAM holds {addresses} in project {project}.")
ALLOCATING: Final = Reason("Allocating", "IPAM is asked for {wanted} in project {project}.")
READY: Final = Reason("Ready", "Interface {interface} carries traffic.")
NOT_READY: Final = Reason("Not{first}", "{first} is {status}: {words}")
NOT_REPORTED: Final = Reason("Pending", "No data plane has reported on interface {interface} yet.")
"""The seed's reason. It is none that a data plane gives: by that a seed is told from what somebody said."""
INTERFACE_ALLOCATED: Final = Reason("Allocated", "IPAM holds {addresses}.")
