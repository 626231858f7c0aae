"""A network, what it has in each location, and its subnets."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import BareAddress, Cidr, ClassName, LocationName
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject, NameRef
from netclaim.api.networking.names import ALLOCATED, IPV6, READY, IPFamilies, IPFamily
from netclaim.api.resources import Resource
from netclaim.api.schema import AGE, Column, ConditionType, Definition, Hints, condition_column, immutable, keyed_list


class NetworkPrefix(ApiModel):
    """A range of addresses that belongs to a network."""

    family: IPFamily = Field(description="Family of the range.")
    cidr: Cidr = Field(description="The range.")


def _default_families() -> list[IPFamily]:
    return [IPV6]


class NetworkSpec(ApiModel):
    """What a network carries, and where."""

    ip_families: Annotated[IPFamilies, Hints({"default": ["IPv6"]})] = Field(
        default_factory=_default_families, description="IP families that the network carries; the first is primary."
    )
    mtu: Annotated[int, Hints({"format": "int32"})] = Field(
        default=1460, ge=1280, le=8856, description="Largest packet, in bytes, that an interface of the network sends."
    )
    locations: Annotated[list[LocationName], Hints({"x-kubernetes-list-type": "set"})] = Field(
        default_factory=list, max_length=256, description="Locations that the network reaches; empty for every one."
    )


class NetworkStatus(ConditionedStatus):
    """What the network got."""

    prefixes: Annotated[list[NetworkPrefix], keyed_list("family")] = Field(
        default_factory=list,
        max_length=2,
        description="Ranges that the network holds in IPAM, at most one per family.",
    )


class Network(KubeObject):
    """A private network that interfaces are claimed on."""

    RESOURCE: ClassVar[Resource] = resources.NETWORKS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Families", ".spec.ipFamilies"),
            Column("MTU", ".spec.mtu", "integer"),
            condition_column(READY),
            condition_column(READY, name="Reason", field_name="reason"),
            AGE,
        ),
        conditions=(
            ConditionType(ALLOCATED, managers.NSO, "IPAM holds a range for every family that needs one."),
            ConditionType(READY, managers.NSO, "Interfaces can be claimed on the network."),
        ),
    )

    spec: Annotated[NetworkSpec, Hints({"default": {}})] = Field(
        default_factory=NetworkSpec, description="What the network carries, and where."
    )
    status: NetworkStatus = Field(default_factory=NetworkStatus, description="What the network got.")


class ContextSubnet(ApiModel):
    """The subnet of one family of a context."""

    family: IPFamily = Field(description="Family of the subnet.")
    name: str = Field(description="Name of the Subnet.", min_length=1, max_length=253)


class NetworkContextSpec(ApiModel):
    """Which network, and where."""

    network: Annotated[
        NameRef, immutable("a context stays with its network: delete it and create one for the other network")
    ] = Field(description="The network.")
    location: Annotated[
        LocationName, immutable("a context stays in its location: delete it and create one for the other location")
    ] = Field(description="The location.")


class NetworkContextStatus(ConditionedStatus):
    """What the network has in this location."""

    subnets: Annotated[list[ContextSubnet], keyed_list("family")] = Field(
        default_factory=list, max_length=2, description="The subnets of the context, one per family."
    )


class NetworkContext(KubeObject):
    """A network in one location."""

    RESOURCE: ClassVar[Resource] = resources.NETWORK_CONTEXTS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Network", ".spec.network.name"),
            Column("Location", ".spec.location"),
            condition_column(READY),
            condition_column(READY, name="Reason", field_name="reason"),
            AGE,
        ),
        conditions=(
            ConditionType(READY, managers.NSO, "Every family of the network has a subnet here that is ready."),
        ),
    )

    spec: NetworkContextSpec = Field(description="Which network, and where.")
    status: NetworkContextStatus = Field(
        default_factory=NetworkContextStatus, description="What the network has in this location."
    )


class NetworkBindingSpec(ApiModel):
    """The network that is wanted in a location."""

    network: NameRef = Field(description="The network.")
    location: LocationName | None = Field(default=None, description="The location; by default the cell's.")


class NetworkBindingStatus(ConditionedStatus):
    """The context behind the binding."""

    network_context_ref: NameRef | None = Field(default=None, description="The context that serves the binding.")


class NetworkBinding(KubeObject):
    """A wish for a network in a location; deleting it leaves the context."""

    RESOURCE: ClassVar[Resource] = resources.NETWORK_BINDINGS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Network", ".spec.network.name"),
            Column("Location", ".spec.location"),
            Column("Context", ".status.networkContextRef.name"),
            condition_column(READY),
            condition_column(READY, name="Reason", field_name="reason"),
            AGE,
        ),
        conditions=(ConditionType(READY, managers.NSO, "The context that was asked for is ready."),),
    )

    spec: NetworkBindingSpec = Field(description="The network that is wanted in a location.")
    status: NetworkBindingStatus = Field(
        default_factory=NetworkBindingStatus, description="The context behind the binding."
    )


class SubnetClaimSpec(ApiModel):
    """Which subnet is wanted."""

    network_context: NameRef = Field(description="The context that the subnet belongs to.")
    ip_family: IPFamily = Field(description="Family of the subnet.")
    subnet_class: ClassName = Field(default="private", description="Class of the subnet.")
    prefix_length: Annotated[int | None, Hints({"format": "int32"})] = Field(
        default=None, ge=0, le=128, description="Prefix length that is wanted; absent for whatever the context has."
    )
    start_address: BareAddress | None = Field(
        default=None, description="First address that is wanted; absent for whatever the context has."
    )


class SubnetClaimStatus(ConditionedStatus):
    """The subnet that serves the claim."""

    subnet_ref: NameRef | None = Field(default=None, description="The subnet that serves the claim.")
    start_address: BareAddress | None = Field(default=None, description="First address of that subnet.")
    prefix_length: Annotated[int | None, Hints({"format": "int32"})] = Field(
        default=None, ge=0, le=128, description="Prefix length of that subnet."
    )


class SubnetClaim(KubeObject):
    """A wish for a subnet of a context: the context's own when it fits, else one that goes with the claim."""

    RESOURCE: ClassVar[Resource] = resources.SUBNET_CLAIMS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Context", ".spec.networkContext.name"),
            Column("Family", ".spec.ipFamily"),
            Column("Subnet", ".status.subnetRef.name"),
            condition_column(READY),
            condition_column(READY, name="Reason", field_name="reason"),
            AGE,
        ),
        conditions=(ConditionType(READY, managers.NSO, "A subnet serves the claim."),),
    )

    spec: Annotated[
        SubnetClaimSpec,
        immutable("a subnet claim never changes: delete it and create one that asks for what you want now"),
    ] = Field(description="Which subnet is wanted.")
    status: SubnetClaimStatus = Field(
        default_factory=SubnetClaimStatus, description="The subnet that serves the claim."
    )


class SubnetSpec(ApiModel):
    """Where the subnet belongs."""

    network_context: Annotated[NameRef, immutable("a subnet stays in its context: delete it instead")] = Field(
        description="The context that the subnet belongs to."
    )
    ip_family: Annotated[IPFamily, immutable("a subnet keeps its family: delete it instead")] = Field(
        description="Family of the subnet."
    )
    subnet_class: Annotated[ClassName, immutable("a subnet keeps its class: delete it instead")] = Field(
        default="private", description="Class of the subnet."
    )


class SubnetStatus(ConditionedStatus):
    """The range that IPAM gave."""

    cidr: Cidr | None = Field(default=None, description="The subnet's range.")
    start_address: BareAddress | None = Field(default=None, description="First address of the range.")
    prefix_length: Annotated[int | None, Hints({"format": "int32"})] = Field(
        default=None, ge=0, le=128, description="Prefix length of the range."
    )
    gateway: BareAddress | None = Field(
        default=None, description="The gateway of every interface in the subnet: its first usable address."
    )


class Subnet(KubeObject):
    """The range of one family of a network in one location."""

    RESOURCE: ClassVar[Resource] = resources.SUBNETS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Context", ".spec.networkContext.name"),
            Column("Family", ".spec.ipFamily"),
            Column("CIDR", ".status.cidr"),
            Column("Gateway", ".status.gateway"),
            condition_column(READY),
            AGE,
        ),
        conditions=(
            ConditionType(ALLOCATED, managers.NSO, "IPAM holds the range."),
            ConditionType(READY, managers.NSO, "Addresses can be taken from the range."),
        ),
    )

    spec: SubnetSpec = Field(description="Where the subnet belongs.")
    status: SubnetStatus = Field(default_factory=SubnetStatus, description="The range that IPAM gave.")
