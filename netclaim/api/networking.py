"""networking.datumapis.com/v1alpha: what a consumer asks for (networks, claims) and what it gets (interfaces)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import AddressOrCidr, BareAddress, Cidr, ClassName, InterfaceName, LocationName, ObjectName
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject, NameRef, ObjectRef
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
    keyed_list,
)

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
IPFamily = Literal["IPv4", "IPv6"]
ReclaimPolicy = Literal["Delete", "Retain"]

PROJECT_LABEL: Final = "networking.datumapis.com/project"
"""On a Namespace: the project that its claims belong to. The default of `--project-label`."""

PROJECT_ANNOTATION: Final = "networking.datumapis.com/project"
"""On a NetworkInterface: the project that its addresses were allocated in."""

ALLOCATED_FOR_ANNOTATION: Final = "networking.datumapis.com/allocated-for"
"""On a NetworkInterface: `<name>/<uid>` of the claim that minted its IPClaims (not always the holder)."""

INJECT_LABEL: Final = "networking.datumapis.com/inject-interfaces"
"""On a Pod, with the value "true": the webhook attaches the interfaces of the owning Instance."""

INJECTED_ANNOTATION: Final = "networking.datumapis.com/injected-interfaces"
"""On a Pod: what the webhook injected."""

TEARDOWN_FINALIZER: Final = "networking.datumapis.com/teardown"
"""On a Network, a NetworkContext and a Subnet: something still uses it, or IPAM still holds its range."""

CLAIM_RELEASE_FINALIZER: Final = "networking.datumapis.com/claim-release"
"""On a NetworkInterfaceClaim: what it asked IPAM for is not given back, or left to its interface, yet."""

INTERFACE_RELEASE_FINALIZER: Final = "networking.datumapis.com/release"
"""On a NetworkInterface: its IPClaims are not given back yet."""

READY: Final = "Ready"
ALLOCATED: Final = "Allocated"
BOUND: Final = "Bound"
PREPARED: Final = "Prepared"
PROGRAMMED: Final = "Programmed"
EXTERNAL_PROGRAMMED: Final = "ExternalProgrammed"

PHASE_AVAILABLE: Final = "Available"
PHASE_BOUND: Final = "Bound"

IPFamilies = Annotated[
    list[IPFamily],
    ATOMIC,
    Rule("self.all(f, self.exists_one(g, g == f))", "name each IP family once"),
    Field(min_length=1, max_length=2),
]


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


class AddressRequest(ApiModel):
    """An external address that is wanted."""

    class_: ClassName = Field(description="The kind of address; the platform decides which one.")


class NetworkInterfaceClaimSpec(ApiModel):
    """What an interface needs."""

    network: NameRef = Field(description="The network that the interface is on.")
    interface_name: InterfaceName = Field(default="eth0", description="Name of the interface inside the guest.")
    ip_families: IPFamilies | None = Field(
        default=None,
        description="Families that the interface needs, the first is primary; absent for the network's, in its order.",
    )
    addresses: Annotated[list[AddressRequest], keyed_list("class")] = Field(
        default_factory=list, max_length=4, description="External addresses that the interface needs, one per class."
    )
    reclaim_policy: ReclaimPolicy = Field(
        default="Delete",
        description="What becomes of the interface and its addresses when the claim is deleted: Delete frees them, "
        "Retain keeps them for the next claim of the same name.",
    )
    network_interface_name: ObjectName | None = Field(
        default=None, description="Name of the NetworkInterface to bind; absent for the claim's own name."
    )


class ClaimAddress(ApiModel):
    """An address that the claim holds on its network."""

    family: IPFamily = Field(description="Family of the address.")
    address: Cidr = Field(description="The address with the length of the block that belongs to it.")
    primary: bool = Field(default=False, description="Whether this is the interface's primary address.")


class ExternalAddress(ApiModel):
    """An address that the outside knows the interface by."""

    family: IPFamily = Field(description="Family of the address.")
    address: AddressOrCidr = Field(description="The address, bare when it is a single one.")
    class_: ClassName = Field(description="The class that it was asked for with.")


class NetworkInterfaceClaimStatus(ConditionedStatus):
    """What the claim got, and how far it is."""

    project: str | None = Field(
        default=None, max_length=63, description="The project that the claim's addresses are allocated in."
    )
    network_interface_ref: NameRef | None = Field(default=None, description="The interface that serves the claim.")
    addresses: Annotated[list[ClaimAddress], keyed_list("family")] = Field(
        default_factory=list, max_length=2, description="Addresses on the network, the primary one first."
    )
    external_addresses: Annotated[list[ExternalAddress], keyed_list("class")] = Field(
        default_factory=list, max_length=4, description="External addresses, one per class that was asked for."
    )


class NetworkInterfaceClaim(KubeObject):
    """A workload's wish for an interface, as a volume claim is one for storage."""

    RESOURCE: ClassVar[Resource] = resources.CLAIMS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Network", ".spec.network.name"),
            Column("Interface", ".status.networkInterfaceRef.name"),
            Column("Address", ".status.addresses[0].address"),
            Column("External", ".status.externalAddresses[0].address"),
            condition_column(READY),
            condition_column(READY, name="Reason", field_name="reason"),
            AGE,
            condition_column(BOUND, wide=True),
            condition_column(ALLOCATED, wide=True),
            condition_column(PREPARED, wide=True),
            condition_column(PROGRAMMED, wide=True),
        ),
        conditions=(
            ConditionType(BOUND, managers.NSO, "An interface serves the claim."),
            ConditionType(ALLOCATED, managers.NSO, "IPAM holds every address that the claim publishes."),
            ConditionType(
                PREPARED,
                managers.VPC_CONTROLLER,
                "A Pod can be attached: identity and NetworkAttachmentDefinition are there.",
            ),
            ConditionType(
                PROGRAMMED,
                managers.VPC_CONTROLLER_PROGRAMMED,
                "A node carries the interface. Seeded Unknown by nso-seed while nobody has said anything.",
            ),
            ConditionType(READY, managers.NSO, "Bound, Allocated and Programmed are True, and Prepared is not False."),
        ),
    )

    spec: Annotated[
        NetworkInterfaceClaimSpec,
        immutable("a claim never changes: delete it and create one that asks for what you want now"),
    ] = Field(description="What the interface needs.")
    status: NetworkInterfaceClaimStatus = Field(
        default_factory=NetworkInterfaceClaimStatus, description="What the claim got, and how far it is."
    )


class InterfaceAddress(ApiModel):
    """An address as the guest's NIC needs it."""

    family: IPFamily = Field(description="Family of the address.")
    address: Cidr = Field(description="The address with the length of the block that belongs to it.")
    gateway: BareAddress | None = Field(default=None, description="The next hop of everything else.")
    primary: bool = Field(default=False, description="Whether this is the interface's primary address.")


class NetworkInterfaceSpec(ApiModel):
    """Everything that it takes to bring up the NIC."""

    network: NameRef = Field(description="The network that the interface is on.")
    claim_ref: ObjectRef | None = Field(default=None, description="The claim that holds the interface, if one does.")
    interface_name: InterfaceName = Field(default="eth0", description="Name of the interface inside the guest.")
    mtu: Annotated[int, Hints({"format": "int32"})] = Field(
        ge=1280, le=8856, description="Largest packet, in bytes, that the interface sends."
    )
    addresses: Annotated[
        list[InterfaceAddress],
        keyed_list("family"),
        Rule("self.exists_one(a, a.primary)", "mark exactly one address of the interface as primary"),
    ] = Field(min_length=1, max_length=2, description="Addresses of the interface, at most one per family.")
    external_addresses: Annotated[list[ExternalAddress], keyed_list("class")] = Field(
        default_factory=list, max_length=4, description="Addresses that the outside knows the interface by."
    )
    reclaim_policy: ReclaimPolicy = Field(
        default="Delete", description="What becomes of the interface when its claim is deleted."
    )


class NetworkInterfaceStatus(ConditionedStatus):
    """Who holds the interface, and how far the data plane is."""

    phase: Literal["Available", "Bound"] | None = Field(
        default=None, description="Bound while a claim holds the interface, else Available."
    )
    network_context_ref: NameRef | None = Field(default=None, description="The context that the interface lives in.")
    vpc: str | None = Field(
        default=None, max_length=9, description="Identifier (base62) of the VPC that realizes the network here."
    )
    attachment_ref: NameRef | None = Field(default=None, description="The VPCAttachment that realizes the interface.")


class NetworkInterface(KubeObject):
    """An interface with its addresses; it outlives the instance that uses it."""

    RESOURCE: ClassVar[Resource] = resources.INTERFACES
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Network", ".spec.network.name"),
            Column("Phase", ".status.phase"),
            Column("Claim", ".spec.claimRef.name"),
            Column("Address", ".spec.addresses[0].address"),
            Column("VPC", ".status.vpc"),
            condition_column(PREPARED),
            condition_column(PROGRAMMED),
            AGE,
        ),
        conditions=(
            ConditionType(ALLOCATED, managers.NSO, "IPAM holds every address of the interface."),
            ConditionType(
                PREPARED,
                managers.VPC_CONTROLLER,
                "A Pod can be attached: identity and NetworkAttachmentDefinition are there.",
            ),
            ConditionType(
                PROGRAMMED,
                managers.VPC_CONTROLLER_PROGRAMMED,
                "A node carries the interface. Seeded Unknown by nso-seed while nobody has said anything.",
            ),
            ConditionType(
                EXTERNAL_PROGRAMMED,
                managers.NSO_SEED,
                "The external addresses reach the interface. Unknown until something realizes them.",
            ),
        ),
    )

    spec: NetworkInterfaceSpec = Field(description="Everything that it takes to bring up the NIC.")
    status: NetworkInterfaceStatus = Field(
        default_factory=NetworkInterfaceStatus, description="Who holds the interface, and how far the data plane is."
    )
