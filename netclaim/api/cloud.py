"""cloud.datumapis.com/v1alpha1: what realizes a network in a cell (VPC) and an interface on a node (VPCAttachment)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import BareAddress, Cidr, InterfaceName
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject, NameRef
from netclaim.api.networking import PROGRAMMED, READY
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
)

NETNS: Final = "Netns"
HYPERVISOR: Final = "Hypervisor"
AttachmentMode = Literal["Netns", "Hypervisor"]

ATTACHED_FINALIZER: Final = "cloud.datumapis.com/attached"
"""On a NetworkInterface: its addresses may still be in use on a node."""

IN_USE_FINALIZER: Final = "cloud.datumapis.com/in-use"
"""On a VPCAttachment: a node may still have it programmed."""

VPC_LABEL: Final = "cloud.datumapis.com/vpc"
"""On a NAD and a BGPAdvertisement: the VPC's identifier in base62."""

VPC_ATTACHMENT_LABEL: Final = "cloud.datumapis.com/vpc-attachment"
"""On a NAD and a BGPAdvertisement: the attachment's identifier in base62."""

VpcId = Annotated[
    str,
    Rule("self.matches('^[0-9a-zA-Z]+$')", "write the VPC identifier in base62 (0-9, a-z, A-Z)"),
    Field(min_length=1, max_length=9),
]
AttachmentId = Annotated[
    str,
    Rule("self.matches('^[0-9a-zA-Z]+$')", "write the attachment identifier in base62 (0-9, a-z, A-Z)"),
    Field(min_length=1, max_length=3),
]
DeviceName = Annotated[str, Field(min_length=1, max_length=15)]


class VPCSpec(ApiModel):
    """Which network context the VPC realizes."""

    network_context_ref: Annotated[
        NameRef, immutable("a VPC stays with its network context: delete it and let it be made anew")
    ] = Field(description="The network context that the VPC realizes; it owns the VPC.")
    networks: Annotated[list[Cidr], ATOMIC] = Field(
        default_factory=list, max_length=64, description="Ranges of the context's subnets."
    )


class VPCStatus(ConditionedStatus):
    """The identity that the VPC was given."""

    vpc: VpcId | None = Field(default=None, description="Identifier (base62 of 48 bits), unique in the cell.")


class VPC(KubeObject):
    """A tenant's routing domain in this cell."""

    RESOURCE: ClassVar[Resource] = resources.VPCS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("ID", ".status.vpc"),
            Column("Networks", ".spec.networks"),
            condition_column(READY),
            AGE,
        ),
        conditions=(ConditionType(READY, managers.VPC_CONTROLLER, "The VPC has its identifier."),),
    )

    spec: VPCSpec = Field(description="Which network context the VPC realizes.")
    status: VPCStatus = Field(default_factory=VPCStatus, description="The identity that the VPC was given.")


class AttachedInterface(ApiModel):
    """How the guest consumes its NIC."""

    name: InterfaceName = Field(description="Name of the interface inside the guest.")
    mode: AttachmentMode = Field(
        description="Netns for a container's network namespace, Hypervisor for a virtual machine."
    )
    mtu: Annotated[int | None, Hints({"format": "int32"})] = Field(
        default=None, ge=1280, le=8856, description="Largest packet, in bytes, that the interface sends."
    )
    addresses: Annotated[list[Cidr], ATOMIC] = Field(
        default_factory=list,
        max_length=8,
        description="The guest's addresses, each with the length of its block (fd00:10:ff01:0:1::1/96, "
        "172.20.1.7/32); empty for a guest that addresses itself.",
    )
    gateways: Annotated[list[BareAddress], ATOMIC] = Field(
        default_factory=list, max_length=8, description="The guest's gateways, at most one per family."
    )


class VPCAttachmentSpec(ApiModel):
    """Which interface is attached to which VPC, and how."""

    vpc: NameRef = Field(description="The VPC.")
    interface_ref: NameRef | None = Field(
        default=None, description="The NetworkInterface that the attachment realizes."
    )
    claim_uid: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="UID of the claim that held the interface when the spec was written.",
    )
    interface: AttachedInterface = Field(description="How the guest consumes its NIC.")


class VPCAttachmentStatus(ConditionedStatus):
    """Identity, and what the node that has it says. Every field but `conditions` can be absent."""

    vpc: VpcId | None = Field(default=None, description="Identifier (base62) of the VPC.")
    vpc_attachment: AttachmentId | None = Field(
        default=None, description="Identifier (base62 of 16 bits), unique in its VPC."
    )
    node: str | None = Field(default=None, max_length=253, description="Node that the attachment is programmed on.")
    pod_name: str | None = Field(default=None, max_length=253, description="Pod that uses it.")
    pod_uid: str | None = Field(default=None, max_length=128, description="UID of that Pod.")
    container_id: str | None = Field(default=None, max_length=256, description="Sandbox that the CNI call named.")
    host_interface: DeviceName | None = Field(
        default=None, description="Device on the node's side, such as G000000010001H."
    )
    guest_interface: DeviceName | None = Field(default=None, description="Device inside the guest.")
    vrf_interface: DeviceName | None = Field(
        default=None, description="The VPC's routing device on the node, such as G000000010V; one per VPC."
    )
    pod_subnet: Cidr | None = Field(default=None, description="Block of the primary family.")
    pod_subnets: Annotated[list[Cidr], ATOMIC] = Field(
        default_factory=list, max_length=8, description="Blocks of all families."
    )


class VPCAttachment(KubeObject):
    """The bridge between an interface, which knows its addresses, and the data plane, which programs them."""

    RESOURCE: ClassVar[Resource] = resources.ATTACHMENTS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("VPC", ".spec.vpc.name"),
            Column("Mode", ".spec.interface.mode"),
            Column("ID", ".status.vpcAttachment"),
            Column("Node", ".status.node"),
            Column("Host-Interface", ".status.hostInterface"),
            condition_column(PROGRAMMED),
            AGE,
        ),
        conditions=(
            ConditionType(READY, managers.VPC_CONTROLLER, "The attachment has its identifier and can be programmed."),
            ConditionType(
                PROGRAMMED,
                managers.VPC_CONTROLLER_PROGRAMMED,
                "A node carries the attachment and advertises its prefixes.",
            ),
        ),
    )

    spec: VPCAttachmentSpec = Field(description="Which interface is attached to which VPC, and how.")
    status: Annotated[VPCAttachmentStatus, Hints({"required": ["conditions"]})] = Field(
        default_factory=VPCAttachmentStatus, description="Identity, and what the node that has it says."
    )


class IdentifierHolder(ApiModel):
    """Who holds an identifier: what is behind the VPC or the attachment, so that identity survives its deletion."""

    kind: Literal["NetworkContext", "NetworkInterface"] = Field(description="Kind of the holder.")
    namespace: str = Field(min_length=1, max_length=63, description="Namespace of the holder.")
    name: str = Field(min_length=1, max_length=253, description="Name of the holder.")
    uid: str = Field(min_length=1, max_length=128, description="UID of the holder.")


class IdentifierSpec(ApiModel):
    """Who holds the identifier that the name states."""

    holder: IdentifierHolder = Field(description="Who holds the identifier.")


class Identifier(KubeObject):
    """A drawn identifier. Creating it is drawing it: the API server accepts one object of a name."""

    RESOURCE: ClassVar[Resource] = resources.IDENTIFIERS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Kind", ".spec.holder.kind"),
            Column("Namespace", ".spec.holder.namespace"),
            Column("Holder", ".spec.holder.name"),
            AGE,
        ),
        rules=(
            Rule(
                "self.metadata.name.matches('^(vpc-[0-9a-f]{1,12}|att-[0-9a-f]{1,12}-[0-9a-f]{1,4})$')",
                "name an identifier vpc-<hex> or att-<hex of the VPC>-<hex of the attachment>",
            ),
        ),
    )

    spec: IdentifierSpec = Field(description="Who holds the identifier that the name states.")
    status: ConditionedStatus = Field(default_factory=ConditionedStatus, description="State of the identifier.")
