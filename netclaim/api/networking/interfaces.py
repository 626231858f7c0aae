"""Claims of interfaces, and the interfaces that serve them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import AddressOrCidr, BareAddress, Cidr, ClassName, InterfaceName, ObjectName
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject, NameRef, ObjectRef
from netclaim.api.networking.names import (
    ALLOCATED,
    BOUND,
    EXTERNAL_PROGRAMMED,
    PREPARED,
    PROGRAMMED,
    READY,
    IPFamilies,
    IPFamily,
    ReclaimPolicy,
)
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
    keyed_list,
)


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
