"""Why a network, context, subnet, binding or subnet claim is not ready: each reason once, next to its message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason of a condition and the template of its message: what, for whom, why, and what to do next."""

    name: str
    template: str

    def message(self, **values: object) -> str:
        """The message with the names filled in."""
        return self.template.format(**values)


READY: Final = Reason("Ready", "{what} is ready.")
ALLOCATED: Final = Reason("Allocated", "{what} holds {ranges}.")
PROJECT_UNRESOLVED: Final = Reason(
    "ProjectUnresolved",
    "Namespace {namespace} has no label {label}: set it to the project that the network's addresses belong to.",
)
PROJECT_NOT_FOUND: Final = Reason(
    "ProjectNotFound", "IPAM has no project {project}, which namespace {namespace} names: create it there."
)
PROJECT_PENDING: Final = Reason(
    "ProjectUnresolved", "The project is not known yet: {network} has not recorded one. See its conditions."
)
NETWORK_NOT_FOUND: Final = Reason(
    "NetworkNotFound", "There is no network {network} in namespace {namespace}: create it."
)
NETWORK_NOT_AVAILABLE: Final = Reason(
    "NetworkNotAvailableInLocation",
    "Network {network} does not reach location {location}: add it to the network's spec.locations.",
)
CONTEXT_NOT_FOUND: Final = Reason(
    "NetworkContextNotFound",
    "There is no network context {context} in namespace {namespace}: wait for it or create it.",
)
LOCATION_NOT_SERVED: Final = Reason(
    "LocationNotServed",
    "This cell serves location {location}, not {wanted}: create the object in the cell of {wanted}.",
)
ALLOCATION_PENDING: Final = Reason("AllocationPending", "IPAM has not answered IPClaim {project}/{ip_claim} yet.")
ALLOCATION_REJECTED: Final = Reason(
    "AddressAllocationRejected", "IPAM does not serve IPClaim {project}/{ip_claim} ({reason}): {words}"
)
ALLOCATION_MISSING: Final = Reason(
    "AddressAllocationMissing",
    "{what} holds {held}, but IPClaim {project}/{ip_claim} {found}: the range stays; restore the IPClaim, or delete "
    "the interfaces on it and then {what}.",
)
RANGE_BEING_RELEASED: Final = Reason(
    "RangeBeingReleased",
    "IPClaim {project}/{ip_claim} of the previous {what} is still being released: it waits for that.",
)
RANGE_CLAIM_CONFLICT: Final = Reason(
    "AddressClaimConflict", "IPClaim {project}/{ip_claim} is not for {what} but for {owner}: remove it there."
)
RANGE_OCCUPIED: Final = Reason(
    "RangeOccupied", "{what} is being deleted and still holds {occupants}: remove them first."
)
RANGE_OCCUPIED_IN_IPAM: Final = Reason("RangeOccupied", "{what} is being deleted, and IPAM still keeps it: {words}")
TEARING_DOWN: Final = Reason("TearingDown", "{what} is being deleted: it waits for {waits_for}.")
CONTEXT_PENDING: Final = Reason("ContextPending", "Network context {context} is not there yet.")
CONTEXT_NOT_READY: Final = Reason("ContextNotReady", "Network context {context} is not ready: {words}")
SUBNET_NOT_READY: Final = Reason("SubnetNotReady", "Subnet {subnet} is not ready: {words}")
SUBNET_DOES_NOT_FIT: Final = Reason(
    "SubnetDoesNotFit",
    "{wanted} was asked for, and the subnet of that class and family in context {context} is {found}: "
    "ask for that one, or for none.",
)
NAME_CONFLICT: Final = Reason(
    "NameConflict", "{what} is there and belongs to {owner}: remove it or rename the network."
)
