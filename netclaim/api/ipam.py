"""ipam.datumapis.com/v1alpha1: address classes, pools, claims on blocks, and the allocations that make them unique.

One Namespace is one project. Everything durable about addresses is one of these objects.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import AddressOrCidr, BareAddress, CanonicalCidr, Cidr
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject, NameRef
from netclaim.api.networking import IPFamily
from netclaim.api.resources import Resource
from netclaim.api.schema import (
    AGE,
    ATOMIC,
    Column,
    ConditionType,
    Definition,
    Hints,
    Rule,
    condition_column,
    immutable,
    kept,
    written_once,
)

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

Role = Annotated[
    str,
    Rule(
        "self.matches('^[a-z][a-z0-9-]{0,30}$')",
        "name a scope role with a lower-case letter and up to 30 more lower-case letters, digits and '-'",
    ),
    Field(min_length=1, max_length=31),
]
Roles = Annotated[list[Role], Hints({"x-kubernetes-list-type": "set"}), Field(max_length=8)]
Blocks = Annotated[int, Hints({"format": "int32"}), Field(ge=0, le=1_000_000)]
PrefixLength = Annotated[int, Hints({"format": "int32"}), Field(ge=0, le=128)]
Count = Annotated[str, Rule("self.matches('^[0-9]+$')", "write a whole number"), Field(min_length=1, max_length=40)]

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def duration_seconds(text: str) -> float:
    """Seconds of a duration such as `90s`, `1h30m` or `0s`.

    Raises:
        ValueError: the text is not a duration.
    """
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: write numbers with a unit such as 90s or 1h30m")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


class Reservations(ApiModel):
    """Blocks at the ends of a pool that no claim gets."""

    leading: Blocks = Field(default=0, description="How many of the first blocks are reserved.")
    trailing: Blocks = Field(default=0, description="How many of the last blocks are reserved.")


class ScopeRef(ApiModel):
    """What fills a scope role. Compared by value."""

    kind: str = Field(min_length=1, max_length=63, description="Kind of the object.")
    namespace: str | None = Field(default=None, max_length=63, description="Namespace of the object, if it has one.")
    name: str = Field(min_length=1, max_length=253, description="Name of the object.")


Scope = Annotated[dict[str, ScopeRef], Field(max_length=8)]


class IPClassSpec(ApiModel):
    """What a claim of the class gets, and which pools serve it."""

    SCHEMA_RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.ipFamily != 'IPv4' || self.prefixLength <= 32",
            "an IPv4 class hands out blocks of prefix length 32 or shorter: lower prefixLength",
        ),
        kept("parentClassName", "a class keeps its parent: create another class and let claims name that"),
        kept("poolPer", "a class keeps its poolPer roles: create another class and let claims name that"),
        kept("uniqueWithin", "a class keeps its uniqueWithin roles: create another class and let claims name that"),
    )

    ip_family: Annotated[
        IPFamily, immutable("a class keeps its family: create another class and let claims name that")
    ] = Field(description="Family of the addresses.")
    parent_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Class whose blocks the pools of this class are carved from; absent when root pools serve it.",
    )
    prefix_length: Annotated[
        PrefixLength, immutable("a class keeps its prefix length: create another class and let claims name that")
    ] = Field(description="Prefix length of the block that a claim gets.")
    pool_per: Roles = Field(
        default_factory=list,
        description="Scope roles: each distinct tuple of them has one pool of this class; empty for a leaf.",
    )
    unique_within: Roles = Field(
        default_factory=list,
        description="Scope roles that separate address spaces; empty for one space in the whole project.",
    )
    reservations: Reservations | None = Field(
        default=None, description="Blocks that are never handed out inside the pools made for this class."
    )
    strategy: Literal["NextFit", "FirstFit", "Random"] = Field(
        default="NextFit", description="Which free block is taken: the one behind the last given, the first, or any."
    )
    cooldown: Annotated[
        str,
        Rule(
            "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$')", "write a duration such as 90s or 1h30m, or 0s for none"
        ),
        Field(min_length=1, max_length=32),
    ] = Field(default="0s", description="How long a freed block rests before it is given again.")

    @property
    def cooldown_seconds(self) -> float:
        """The cooldown in seconds."""
        return duration_seconds(self.cooldown)


class IPClass(KubeObject):
    """A kind of address that claims ask for by name."""

    RESOURCE: ClassVar[Resource] = resources.IP_CLASSES
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Family", ".spec.ipFamily"),
            Column("Prefix", ".spec.prefixLength", "integer"),
            Column("Parent", ".spec.parentClassName"),
            condition_column(ACCEPTED),
            condition_column(ACCEPTED, name="Reason", field_name="reason"),
            AGE,
        ),
        conditions=(
            ConditionType(ACCEPTED, managers.IPAM, "Claims can name the class."),
            ConditionType(
                DEFAULT,
                managers.IPAM,
                "Only on a class that is annotated as default: it is the only one of its family, and is used.",
            ),
        ),
    )

    spec: IPClassSpec = Field(description="What a claim of the class gets, and which pools serve it.")
    status: ConditionedStatus = Field(default_factory=ConditionedStatus, description="Whether the class can be used.")


class PoolRef(ApiModel):
    """A pool, in the same namespace unless another is named."""

    namespace: str | None = Field(default=None, min_length=1, max_length=63, description="Namespace of the pool.")
    name: str = Field(min_length=1, max_length=253, description="Name of the pool.")


class SelectorRequirement(ApiModel):
    """One requirement on labels."""

    key: str = Field(min_length=1, max_length=317, description="Label that is looked at.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How it is compared.")
    values: Annotated[list[str], ATOMIC] = Field(
        default_factory=list, max_length=64, description="What it is compared with, for In and NotIn."
    )


class LabelSelector(ApiModel):
    """Selects objects by their labels; all requirements must hold."""

    match_labels: Annotated[dict[str, str], Field(max_length=64)] = Field(
        default_factory=dict, description="Labels that must be there with these values."
    )
    match_expressions: Annotated[list[SelectorRequirement], ATOMIC] = Field(
        default_factory=list, max_length=64, description="Further requirements."
    )


class PoolPurpose(ApiModel):
    """The class and the scope that a cascade made a pool for."""

    class_name: str = Field(min_length=1, max_length=253, description="The class.")
    scope: Scope = Field(default_factory=dict, description="What fills the class's poolPer roles.")


class IPPoolSpec(ApiModel):
    """Which addresses the pool has, and who may take them."""

    SCHEMA_RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.cidr) != has(self.parentRef)",
            "set either cidr (a root pool) or parentRef with prefixLength (a pool carved from another)",
        ),
        Rule(
            "has(self.parentRef) == has(self.prefixLength)",
            "set prefixLength together with parentRef, and not for a root pool",
        ),
        kept("parentRef", "a pool stays where it was carved: create another pool and drain this one"),
        kept("prefixLength", "a carved pool keeps its length: create another pool and drain this one"),
        kept("madeFor", "a pool stays with the class and scope that it was made for"),
    )

    cidr: (
        Annotated[
            CanonicalCidr,
            Rule(
                "self == oldSelf || cidr(self).containsCIDR(cidr(oldSelf))",
                "a pool may only grow: write a block that contains the present one, or create another pool",
            ),
        ]
        | None
    ) = Field(default=None, description="The pool's range, for a root pool. It may grow.")
    parent_ref: PoolRef | None = Field(default=None, description="The pool that this one is carved from.")
    prefix_length: PrefixLength | None = Field(default=None, description="Length of the carved block.")
    class_names: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=253)]], Hints({"x-kubernetes-list-type": "set"})
    ] = Field(default_factory=list, max_length=32, description="Classes that the pool serves.")
    reservations: Reservations | None = Field(default=None, description="Blocks at its ends that no claim gets.")
    excluded: Annotated[list[CanonicalCidr], ATOMIC] = Field(
        default_factory=list, max_length=64, description="Ranges inside the pool that are never handed out."
    )
    shared_with: LabelSelector | None = Field(
        default=None, description="Namespaces (projects) that may carve from the pool; absent for its own alone."
    )
    made_for: PoolPurpose | None = Field(
        default=None, description="The class and scope that the cascade made the pool for; absent on an operator's."
    )


class Capacity(ApiModel):
    """Blocks of the fullest address space, as decimal text: some counts do not fit 64 bits."""

    total: Count = Field(description="Blocks in the pool.")
    allocated: Count = Field(description="Blocks that are held.")
    reserved: Count = Field(description="Blocks that are never handed out.")
    cooling: Count = Field(description="Freed blocks that rest.")
    available: Count = Field(description="Blocks that are free.")


class IPPoolStatus(ConditionedStatus):
    """What the pool has and how full it is."""

    cidr: Cidr | None = Field(default=None, description="The pool's range; written once, and grown with the spec.")
    ip_family: IPFamily | None = Field(default=None, description="Family of the range.")
    capacity: Capacity | None = Field(default=None, description="Blocks of the fullest address space.")
    spaces: Annotated[int | None, Hints({"format": "int32"})] = Field(
        default=None, ge=0, description="Address spaces that hold blocks of the pool."
    )
    utilization: str | None = Field(default=None, max_length=16, description="Share of held blocks, such as 12.5%.")


class IPPool(KubeObject):
    """A range that blocks of one length are handed out of."""

    RESOURCE: ClassVar[Resource] = resources.IP_POOLS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("CIDR", ".status.cidr"),
            Column("Family", ".status.ipFamily"),
            Column("Classes", ".spec.classNames"),
            Column("Used", ".status.capacity.allocated"),
            Column("Free", ".status.capacity.available"),
            Column("Utilization", ".status.utilization"),
            AGE,
            condition_column(READY, wide=True),
            condition_column(READY, name="Reason", field_name="reason", wide=True),
        ),
        conditions=(
            ConditionType(READY, managers.IPAM, "Blocks are handed out of the pool."),
            ConditionType(EXHAUSTED, managers.IPAM, "No block is left in an address space of the pool."),
        ),
        rules=(
            Rule(
                "!has(oldSelf.status) || !has(oldSelf.status.cidr) || (has(self.status) && has(self.status.cidr) && "
                "(self.status.cidr == oldSelf.status.cidr || "
                "cidr(self.status.cidr).containsCIDR(cidr(oldSelf.status.cidr))))",
                "the range of a pool is written once and may only grow: read the pool again",
            ),
        ),
    )

    spec: IPPoolSpec = Field(description="Which addresses the pool has, and who may take them.")
    status: IPPoolStatus = Field(default_factory=IPPoolStatus, description="What the pool has and how full it is.")


class ClaimOwnerRef(ApiModel):
    """The object that a claim was made for, in whichever control plane it lives."""

    control_plane: str | None = Field(
        default=None, max_length=128, description="Control plane id: uid of its kube-system Namespace."
    )
    kind: str | None = Field(default=None, max_length=63, description="Kind of the owner.")
    namespace: str | None = Field(default=None, max_length=63, description="Namespace of the owner.")
    name: str = Field(min_length=1, max_length=253, description="Name of the owner.")
    uid: str = Field(min_length=1, max_length=128, description="UID of the owner.")


class IPClaimSpec(ApiModel):
    """Which block is wanted. Only `ownerRef` ever changes."""

    SCHEMA_RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.className) != has(self.ipFamily)",
            "set either className or ipFamily (for the project's default class of that family)",
        ),
        kept("className", "a claim keeps its class: delete it and create one of the other class"),
        kept("ipFamily", "a claim keeps its family: delete it and create one of the other family"),
        kept("scope", "a claim keeps its scope: delete it and create one with the other scope"),
        kept("address", "a claim keeps the address that it asked for: delete it and create one for the other address"),
    )

    class_name: str | None = Field(default=None, min_length=1, max_length=253, description="Class of the block.")
    ip_family: IPFamily | None = Field(default=None, description="Family, to take the project's default class.")
    scope: Scope = Field(default_factory=dict, description="What fills the scope roles that the class asks for.")
    target: Annotated[
        Literal["Block", "Range"], immutable("a claim keeps its target: delete it and create one with the other target")
    ] = Field(default="Block", description="Block for one block of the class, Range to hold the class's pool itself.")
    address: AddressOrCidr | None = Field(default=None, description="The very block that is wanted, if one is.")
    owner_ref: ClaimOwnerRef | None = Field(default=None, description="The object that the claim was made for.")


class IPClaimStatus(ConditionedStatus):
    """What the claim got."""

    phase: Literal["Pending", "Bound", "Failed"] | None = Field(default=None, description="How far the claim is.")
    cidr: Cidr | None = Field(default=None, description="The block or range; written once.")
    gateway: BareAddress | None = Field(default=None, description="First usable address, of a Range.")
    pool_ref: PoolRef | None = Field(default=None, description="The pool that the block came from, or that is held.")
    allocation_ref: PoolRef | None = Field(default=None, description="The allocation that makes the block the claim's.")


class IPClaim(KubeObject):
    """A wish for a block of addresses."""

    RESOURCE: ClassVar[Resource] = resources.IP_CLAIMS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Class", ".spec.className"),
            Column("Target", ".spec.target"),
            Column("CIDR", ".status.cidr"),
            Column("Phase", ".status.phase"),
            condition_column(BOUND, name="Reason", field_name="reason"),
            Column("Owner", ".spec.ownerRef.name", wide=True),
            AGE,
        ),
        conditions=(
            ConditionType(BOUND, managers.IPAM, "The block or range is the claim's."),
            ConditionType(
                RELEASED, managers.IPAM, "Only while the claim is deleted: whether its range could be let go."
            ),
        ),
        rules=(written_once("cidr", "the block of a claim is written once: delete the claim to get another"),),
    )

    spec: IPClaimSpec = Field(description="Which block is wanted.")
    status: IPClaimStatus = Field(default_factory=IPClaimStatus, description="What the claim got.")


class AllocationHolder(ApiModel):
    """The IPClaim, or for a carve the IPPool, that holds the block."""

    namespace: str | None = Field(default=None, max_length=63, description="Namespace of the holder.")
    name: str = Field(min_length=1, max_length=253, description="Name of the holder.")
    uid: str = Field(min_length=1, max_length=128, description="UID of the holder.")


class IPAllocationSpec(ApiModel):
    """Which block, out of which pool and space, is whose."""

    SCHEMA_RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(self.purpose in ['Claim', 'Carve']) || has(self.claimRef)",
            "set claimRef: an allocation for a claim or a carve names its holder",
        ),
        Rule("self.purpose != 'Cooling' || has(self.releaseAt)", "set releaseAt: a cooling block says until when"),
    )

    pool_ref: Annotated[NameRef, immutable("an allocation stays in its pool: delete it and create another")] = Field(
        description="The pool, in the same namespace."
    )
    cidr: Annotated[CanonicalCidr, immutable("an allocation keeps its block: delete it and create another")] = Field(
        description="The block."
    )
    space: Annotated[str, immutable("an allocation stays in its space: delete it and create another")] = Field(
        default="", max_length=1024, description="Address space inside the pool; empty for the only one."
    )
    purpose: Literal["Claim", "Carve", "Reservation", "Cooling"] = Field(description="What the block is taken for.")
    claim_ref: AllocationHolder | None = Field(default=None, description="Who holds the block.")
    release_at: Annotated[str | None, Hints({"format": "date-time"})] = Field(
        default=None, description="When a cooling block is free again."
    )


class IPAllocation(KubeObject):
    """One block that is taken. Its name is a function of pool, space and block, so none is taken twice."""

    RESOURCE: ClassVar[Resource] = resources.IP_ALLOCATIONS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Pool", ".spec.poolRef.name"),
            Column("CIDR", ".spec.cidr"),
            Column("Space", ".spec.space"),
            Column("Purpose", ".spec.purpose"),
            Column("Claim", ".spec.claimRef.name"),
            AGE,
        )
    )

    spec: IPAllocationSpec = Field(description="Which block, out of which pool and space, is whose.")
    status: ConditionedStatus = Field(default_factory=ConditionedStatus, description="State of the allocation.")
