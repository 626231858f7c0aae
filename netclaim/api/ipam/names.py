"""Labels, annotations, finalizers, condition types, reasons, phases and purposes of ipam.datumapis.com."""

from __future__ import annotations

from typing import Final

DEFAULT_CLASS_ANNOTATION: Final = "ipam.datumapis.com/is-default-class"
"""On an IPClass, with the value "true": serves claims that name a family alone."""

CLAIM_FINALIZER: Final = "ipam.datumapis.com/claim"
"""On an IPClaim: its allocation is not freed yet."""

POOL_FINALIZER: Final = "ipam.datumapis.com/pool"
"""On an IPPool: its carve is not freed yet."""

LOCATION_LABEL: Final = "ipam.datumapis.com/location"
"""On an IPClaim: the location of the cell that it belongs to."""

CONTROL_PLANE_LABEL: Final = "ipam.datumapis.com/control-plane"
"""On an IPClaim: id of the control plane that it belongs to (uid of its kube-system Namespace)."""

POOL_LABEL: Final = "ipam.datumapis.com/pool"
"""On an IPAllocation: its pool (cut to a label's length)."""

CLASS_LABEL: Final = "ipam.datumapis.com/class"
"""On an IPPool that a cascade made: its class (cut to a label's length)."""

ROLE_NETWORK: Final = "network"
ROLE_LOCATION: Final = "location"

TARGET_BLOCK: Final = "Block"
TARGET_RANGE: Final = "Range"

PHASE_PENDING: Final = "Pending"
PHASE_BOUND: Final = "Bound"
PHASE_FAILED: Final = "Failed"

PURPOSE_CLAIM: Final = "Claim"
PURPOSE_CARVE: Final = "Carve"
PURPOSE_RESERVATION: Final = "Reservation"
PURPOSE_COOLING: Final = "Cooling"

ACCEPTED: Final = "Accepted"
DEFAULT: Final = "Default"
READY: Final = "Ready"
EXHAUSTED: Final = "Exhausted"
BOUND: Final = "Bound"
RELEASED: Final = "Released"

REASON_BOUND: Final = "Bound"
REASON_POOL_EXHAUSTED: Final = "PoolExhausted"
REASON_CLASS_NOT_FOUND: Final = "ClassNotFound"
REASON_NO_DEFAULT_CLASS: Final = "NoDefaultClass"
REASON_NO_OFFERING_POOL: Final = "NoOfferingPool"
REASON_SCOPE_ROLES_MISSING: Final = "ScopeRolesMissing"
REASON_ADDRESS_UNAVAILABLE: Final = "AddressUnavailable"
REASON_PREFIX_LENGTH_REJECTED: Final = "PrefixLengthRejected"
REASON_RANGE_OCCUPIED: Final = "RangeOccupied"
REASON_MIXED_BLOCKS: Final = "MixedBlocks"
REASON_OVERLAPS_POOL: Final = "OverlapsPool"
