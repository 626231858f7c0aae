"""IPPool: a range that blocks of one length are handed out of."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import CanonicalCidr, Cidr
from netclaim.api.ipam.names import EXHAUSTED, READY
from netclaim.api.ipam.parts import PoolRef, PrefixLength, Reservations, Roles, Scope
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject
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
    kept,
    written_once,
)

Count = Annotated[str, Rule("self.matches('^[0-9]+$')", "write a whole number"), Field(min_length=1, max_length=40)]


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


class BlockKind(ApiModel):
    """Of what kind the blocks of a pool are."""

    prefix_length: PrefixLength = Field(description="Their prefix length.")
    unique_within: Roles = Field(description="Scope roles that separate the pool's address spaces.")


class IPPoolStatus(ConditionedStatus):
    """What the pool has and how full it is."""

    cidr: Cidr | None = Field(default=None, description="The pool's range; written once, and grown with the spec.")
    ip_family: IPFamily | None = Field(default=None, description="Family of the range.")
    blocks: BlockKind | None = Field(
        default=None,
        description="What the pool gives out: what its classes said when it was first offered, for good.",
    )
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
            written_once("blocks", "a pool gives out blocks of one kind for its whole life: create another pool"),
        ),
    )

    spec: IPPoolSpec = Field(description="Which addresses the pool has, and who may take them.")
    status: IPPoolStatus = Field(default_factory=IPPoolStatus, description="What the pool has and how full it is.")
