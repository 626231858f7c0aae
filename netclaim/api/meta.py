"""The shapes that every kind shares: metadata, references, conditions, and the base class of all kinds.

Reading is tolerant: fields that this version does not know are ignored. Objects travel as raw dicts (`Raw`) and become
a model when a reconcile takes one in hand.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from netclaim.api.resources import Resource
from netclaim.api.schema import Definition, Hints, Rule, keyed_list

Raw: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]

_INITIALISMS = {"uid": "UID", "id": "ID", "ip": "IP"}


def api_name(python_name: str) -> str:
    """The API's name of a field: `claim_uid` -> `claimUID`, `ip_family` -> `ipFamily`, `class_` -> `class`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)


class ApiModel(BaseModel):
    """Base of every part of an object. Frozen: what was observed is never changed in place."""

    model_config = ConfigDict(
        alias_generator=api_name, populate_by_name=True, extra="ignore", frozen=True, protected_namespaces=()
    )

    SCHEMA_RULES: ClassVar[tuple[Rule, ...]] = ()
    """CEL rules over several fields of this type, wherever it is used."""

    def to_dict(self) -> Raw:
        """The object as the API reads it: camelCase, without what was never set and without nulls."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


class OwnerReference(ApiModel):
    """The object that this one is collected with."""

    api_version: str = Field(description="API version of the owner.")
    kind: str = Field(description="Kind of the owner.")
    name: str = Field(description="Name of the owner.")
    uid: str = Field(description="UID of the owner.")
    controller: bool | None = Field(default=None, description="Whether the owner is the managing controller.")
    block_owner_deletion: bool | None = Field(
        default=None, description="Whether a foreground deletion of the owner waits for this object."
    )


class ObjectMeta(ApiModel):
    """Standard object metadata, as far as the programs read it. Timestamps are RFC 3339 text."""

    name: str = Field(default="", description="Name, unique in the namespace.")
    namespace: str | None = Field(default=None, description="Namespace.")
    generate_name: str | None = Field(default=None, description="Prefix that the API server makes a name from.")
    uid: str = Field(default="", description="Identity of this object over its life.")
    resource_version: str = Field(default="", description="Version of the stored object.")
    generation: int = Field(default=0, description="Number of the spec's last change.")
    creation_timestamp: str | None = Field(default=None, description="When the object was created.")
    deletion_timestamp: str | None = Field(default=None, description="When its deletion was asked for.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations.")
    owner_references: list[OwnerReference] = Field(default_factory=list, description="Owners.")
    finalizers: list[str] = Field(default_factory=list, description="What must be done before the object goes.")


class Condition(ApiModel):
    """One aspect of an object's state, written by the one reconciler that owns it."""

    type: str = Field(description="What the condition is about.", min_length=1, max_length=63)
    status: Literal["True", "False", "Unknown"] = Field(
        default="Unknown", description="True, False, or Unknown while nobody has said."
    )
    reason: str = Field(
        default="Pending", description="One CamelCase word that says why, for programs.", max_length=128
    )
    message: str | None = Field(
        default=None, description="What, for whom, why, and what to do next, for people.", max_length=32768
    )
    observed_generation: Annotated[int | None, Hints({"format": "int64"})] = Field(
        default=None, description="The object's generation that this was said about.", ge=0
    )
    last_transition_time: Annotated[str | None, Hints({"format": "date-time"})] = Field(
        default=None, description="When the status last changed."
    )


Conditions = Annotated[list[Condition], keyed_list("type"), Hints({"default": []}), Field(max_length=32)]
"""The conditions of a status: merged by type, `[]` when nobody has written one."""


class ConditionedStatus(ApiModel):
    """A status that holds conditions alone."""

    conditions: Conditions = Field(default_factory=list, description="What is known about the state of the object.")


class NameRef(ApiModel):
    """A reference by name to an object in the same namespace."""

    name: str = Field(description="Name of the object.", min_length=1, max_length=253)


class ObjectRef(ApiModel):
    """A reference to one very object: a namesake that was made later is another."""

    name: str = Field(description="Name of the object.", min_length=1, max_length=253)
    uid: str = Field(description="UID of the object.", min_length=1, max_length=128)


class KubeObject(ApiModel):
    """Base of every kind. A kind sets `RESOURCE`, `DEFINITION` and its `spec` and `status`."""

    RESOURCE: ClassVar[Resource]
    DEFINITION: ClassVar[Definition]

    api_version: str = Field(default="", description="API version of the object.")
    kind: str = Field(default="", description="Kind of the object.")
    metadata: ObjectMeta = Field(default_factory=ObjectMeta, description="Standard object metadata.")

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The object's namespace, empty for a cluster-scoped kind."""
        return self.metadata.namespace or ""

    @property
    def key(self) -> Key:
        """(namespace, name): what stores and queues know the object by."""
        return (self.namespace, self.metadata.name)

    @property
    def uid(self) -> str:
        """The object's UID, empty before it was created."""
        return self.metadata.uid

    @property
    def is_going(self) -> bool:
        """Whether deletion was asked for (finalizers may still hold it)."""
        return self.metadata.deletion_timestamp is not None

    @property
    def controller_ref(self) -> OwnerReference | None:
        """The owner reference of the managing controller, if there is one."""
        return next((owner for owner in self.metadata.owner_references if owner.controller), None)

    def has_finalizer(self, finalizer: str) -> bool:
        """Whether `finalizer` still holds the object."""
        return finalizer in self.metadata.finalizers

    def owner_reference(self, *, controller: bool = True, block: bool = True) -> OwnerReference:
        """A reference that makes this object the owner of another."""
        return OwnerReference(
            api_version=self.RESOURCE.api_version,
            kind=self.RESOURCE.kind,
            name=self.name,
            uid=self.uid,
            controller=controller,
            block_owner_deletion=block,
        )

    def to_dict(self) -> Raw:
        """The object as the API reads it, with `apiVersion` and `kind` of its resource."""
        return {
            **super().to_dict(),
            "apiVersion": self.RESOURCE.api_version,
            "kind": self.RESOURCE.kind,
        }
