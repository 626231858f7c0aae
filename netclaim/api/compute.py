"""compute.datumapis.com/v1alpha: workloads, and the instances that fill their slots."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import AddressOrCidr, BareAddress
from netclaim.api.meta import ApiModel, ConditionedStatus, Conditions, KubeObject, NameRef, ObjectRef
from netclaim.api.networking import ClaimAddress, ExternalAddress, NetworkInterfaceClaimSpec
from netclaim.api.resources import Resource
from netclaim.api.schema import (
    AGE,
    ATOMIC,
    PRESERVED,
    Column,
    ConditionType,
    Definition,
    Hints,
    Rule,
    Scale,
    condition_column,
    immutable,
    keyed_list,
)

WORKLOAD_LABEL: Final = "compute.datumapis.com/workload"
"""On Instances, claims and Pods: the Workload's name (cut to a label's length)."""

INSTANCE_LABEL: Final = "compute.datumapis.com/instance"
"""On claims and Pods: the Instance's name (cut to a label's length)."""

ORDINAL_LABEL: Final = "compute.datumapis.com/ordinal"
"""On Instances, claims and Pods: the number of the slot."""

TEMPLATE_LABEL: Final = "compute.datumapis.com/template"
"""On claims: the name of the claim template."""

TEMPLATE_HASH_LABEL: Final = "compute.datumapis.com/template-hash"
"""On Instances: tells the templates apart that they were made from."""

NETWORK_GATE: Final = "Network"
"""The scheduling gate that holds an Instance until all of its interfaces are prepared."""

AVAILABLE: Final = "Available"
READY: Final = "Ready"
PROGRAMMED: Final = "Programmed"

Metadata = Annotated[dict[str, str], Field(max_length=64)]


class PodTemplateMetadata(ApiModel):
    """What every instance's Pod carries."""

    labels: dict[str, str] = Field(default_factory=dict, description="Labels of the Pod.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations of the Pod.")


class PodTemplate(ApiModel):
    """The Pod that fills a slot."""

    metadata: PodTemplateMetadata = Field(
        default_factory=PodTemplateMetadata, description="What every instance's Pod carries."
    )
    spec: Annotated[dict[str, Any], PRESERVED] = Field(description="A PodSpec, handed to the Pod as it is.")


class ClaimTemplateMetadata(ApiModel):
    """What every claim made from the template carries."""

    name: Annotated[
        str,
        Rule(
            "self.matches('^[a-z][a-z0-9]{0,14}$')",
            "name the template with a lower-case letter and up to 14 more lower-case letters and digits, without '-'",
        ),
        Field(min_length=1, max_length=15),
    ] = Field(description="Name of the template; a claim is named <instance>-<template>.")
    labels: Metadata = Field(default_factory=dict, description="Labels of the claims.")
    annotations: Metadata = Field(default_factory=dict, description="Annotations of the claims.")


class NetworkInterfaceClaimTemplate(ApiModel):
    """An interface that every slot claims one of."""

    metadata: ClaimTemplateMetadata = Field(description="What every claim made from the template carries.")
    spec: NetworkInterfaceClaimSpec = Field(description="What the interface needs.")


class WorkloadSpec(ApiModel):
    """How many instances, of what, with which interfaces."""

    SCHEMA_RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(oldSelf.networkInterfaceClaimTemplates) || !has(self.networkInterfaceClaimTemplates) || "
            "oldSelf.networkInterfaceClaimTemplates.all(o, self.networkInterfaceClaimTemplates.all(n, "
            "n.metadata.name != o.metadata.name || n.spec == o.spec))",
            "a claim template never changes: remove it and add one of another name",
        ),
    )

    replicas: Annotated[int, Hints({"format": "int32"})] = Field(
        default=1, ge=0, le=1000, description="How many slots the workload has."
    )
    template: PodTemplate = Field(description="The Pod that fills a slot.")
    network_interface_claim_templates: Annotated[
        list[NetworkInterfaceClaimTemplate],
        ATOMIC,
        Rule(
            "self.all(t, self.exists_one(u, u.metadata.name == t.metadata.name))",
            "give every claim template a name of its own",
        ),
    ] = Field(
        min_length=1,
        max_length=8,
        description="Interfaces that every slot claims one each of. Templates are added and removed, never changed.",
    )
    pod_management_policy: Literal["OrderedReady", "Parallel"] = Field(
        default="Parallel", description="Whether a slot is filled only when all lower ones are ready."
    )
    max_unavailable: Annotated[int, Hints({"format": "int32"})] = Field(
        default=1, ge=1, le=1000, description="How many instances a rollout may take away at a time."
    )
    paused: bool = Field(default=False, description="Whether a changed template waits instead of rolling out.")


class WorkloadStatus(ConditionedStatus):
    """How far the workload is."""

    replicas: Annotated[int, Hints({"format": "int32"})] = Field(default=0, ge=0, description="Instances there are.")
    ready_replicas: Annotated[int, Hints({"format": "int32"})] = Field(
        default=0, ge=0, description="Instances that are ready."
    )
    updated_replicas: Annotated[int, Hints({"format": "int32"})] = Field(
        default=0, ge=0, description="Instances of the current template."
    )
    observed_generation: Annotated[int | None, Hints({"format": "int64"})] = Field(
        default=None, ge=0, description="Generation of the spec that this status speaks of."
    )
    selector: str | None = Field(
        default=None, max_length=1024, description="Selects the workload's Pods; for the scale subresource."
    )


class Workload(KubeObject):
    """A number of like instances, each with interfaces of its own."""

    RESOURCE: ClassVar[Resource] = resources.WORKLOADS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Desired", ".spec.replicas", "integer"),
            Column("Replicas", ".status.replicas", "integer"),
            Column("Ready", ".status.readyReplicas", "integer"),
            Column("Up-to-date", ".status.updatedReplicas", "integer"),
            condition_column(AVAILABLE),
            condition_column(AVAILABLE, name="Reason", field_name="reason"),
            AGE,
        ),
        conditions=(ConditionType(AVAILABLE, managers.COMPUTE, "As many instances are ready as are wanted."),),
        scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    )

    spec: WorkloadSpec = Field(description="How many instances, of what, with which interfaces.")
    status: WorkloadStatus = Field(default_factory=WorkloadStatus, description="How far the workload is.")


class InstanceClaimRef(ApiModel):
    """The claim behind one of the instance's interfaces."""

    name: str = Field(min_length=1, max_length=253, description="Name of the claim.")
    uid: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="UID of the claim that the instance started with; a namesake is another claim.",
    )


class InstanceInterface(ApiModel):
    """An interface that the instance is to have."""

    name: str = Field(min_length=1, max_length=15, description="Name of the claim template.")
    claim_ref: InstanceClaimRef = Field(description="The claim behind the interface.")


class SchedulingGate(ApiModel):
    """Something that the instance waits for."""

    name: str = Field(min_length=1, max_length=63, description="What is waited for.")


class InstanceSpec(ApiModel):
    """Which slot of which workload, and what fills it."""

    workload_ref: ObjectRef = Field(description="The workload.")
    ordinal: Annotated[
        int, Hints({"format": "int32"}), immutable("an instance keeps its slot: delete it and let it be replaced")
    ] = Field(ge=0, le=999, description="The slot.")
    network_interfaces: Annotated[list[InstanceInterface], keyed_list("name")] = Field(
        default_factory=list, max_length=8, description="Interfaces that the instance is to have."
    )
    template: PodTemplate = Field(description="The Pod that fills the slot.")
    template_hash: str = Field(min_length=1, max_length=63, description="Tells templates apart.")
    scheduling_gates: Annotated[list[SchedulingGate], keyed_list("name")] = Field(
        default_factory=list, max_length=8, description="What the instance waits for before it is started."
    )


class Assignments(ApiModel):
    """The addresses that answer."""

    network_ip: BareAddress | None = Field(
        default=None, description="The bare address on the network that answers a ping."
    )
    external_ip: AddressOrCidr | None = Field(default=None, description="The address that the outside knows it by.")


class InstanceInterfaceStatus(ApiModel):
    """What one interface of the instance has."""

    name: str = Field(min_length=1, max_length=15, description="Name of the claim template.")
    network_interface_ref: NameRef | None = Field(default=None, description="The interface that serves the claim.")
    addresses: Annotated[list[ClaimAddress], keyed_list("family")] = Field(
        default_factory=list, max_length=2, description="Addresses on the network, as the claim has them."
    )
    external_addresses: Annotated[list[ExternalAddress], keyed_list("class")] = Field(
        default_factory=list, max_length=4, description="External addresses, as the claim has them."
    )
    assignments: Assignments | None = Field(default=None, description="The addresses that answer.")
    conditions: Conditions = Field(default_factory=list, description="The claim's conditions.")


class InstanceStatus(ConditionedStatus):
    """How far the instance is."""

    network_interfaces: Annotated[list[InstanceInterfaceStatus], keyed_list("name")] = Field(
        default_factory=list, max_length=8, description="What each interface has."
    )
    pod_ref: ObjectRef | None = Field(default=None, description="The Pod that runs the instance.")
    node: str | None = Field(default=None, max_length=253, description="Node that the Pod runs on.")
    first_ready_time: Annotated[str | None, Hints({"format": "date-time"})] = Field(
        default=None,
        description="When the instance first was ready. A rollout replaces one that never was at once.",
    )


class Instance(KubeObject):
    """What fills a slot. It comes and goes; the slot's claims stay."""

    RESOURCE: ClassVar[Resource] = resources.INSTANCES
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            AGE,
            condition_column(READY),
            condition_column(READY, name="Reason", field_name="reason"),
            Column("Network IP", ".status.networkInterfaces[0].assignments.networkIP"),
            Column("External IP", ".status.networkInterfaces[0].assignments.externalIP"),
            Column("Node", ".status.node", wide=True),
            condition_column(READY, name="Message", field_name="message", wide=True),
        ),
        conditions=(
            ConditionType(PROGRAMMED, managers.COMPUTE, "All interfaces of the instance are programmed."),
            ConditionType(AVAILABLE, managers.COMPUTE, "The instance has its own Pod, and that is ready."),
            ConditionType(READY, managers.COMPUTE, "The Pod is ready and all claims are Ready."),
        ),
    )

    spec: InstanceSpec = Field(description="Which slot of which workload, and what fills it.")
    status: InstanceStatus = Field(default_factory=InstanceStatus, description="How far the instance is.")
