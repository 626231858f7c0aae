"""IPClaim, a wish for a block, and IPAllocation, which makes the block its holder's alone."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import AddressOrCidr, BareAddress, CanonicalCidr, Cidr
from netclaim.api.ipam.names import BOUND, RELEASED
from netclaim.api.ipam.parts import PoolRef, Scope
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject, NameRef
from netclaim.api.networking import IPFamily
from netclaim.api.resources import Resource
from netclaim.api.schema import (
    AGE,
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
