"""What a type says about its schema beyond its Python type: CEL rules, list keys, columns, subresources.

The marks are put into annotations (`Annotated[list[Condition], KeyedList("type")]`) and end up in the JSON schema that
`netclaim.api.crdgen` reads. They cost nothing when an object is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

ColumnType = Literal["string", "integer", "boolean", "date"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule (`self`, `oldSelf`) with a message that tells the user what to do.

    ASCII only; the generator refuses anything else.
    """

    rule: str
    message: str

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rule behind those that are already on the field."""
        schema = handler(core)
        rules = schema.setdefault("x-kubernetes-validations", [])
        rules.append({"rule": self.rule, "message": self.message})
        return schema


@dataclass(frozen=True, slots=True, eq=False)
class Hints:
    """Keywords that are put into the field's schema as they are.

    Compared by identity: typing hashes the marks of an annotation, and keywords hold dicts and lists.
    """

    keywords: dict[str, Any]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the keywords to the field's schema."""
        schema = handler(core)
        schema.update(self.keywords)
        return schema


def keyed_list(key: str) -> Hints:
    """A list whose items the API server merges and keeps unique by `key`."""
    return Hints({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]})


ATOMIC = Hints({"x-kubernetes-list-type": "atomic"})
"""A list that has one owner as a whole, and an order that means something."""

PRESERVED = Hints({"x-kubernetes-preserve-unknown-fields": True})
"""An object of somebody else's type, stored as it is."""


def immutable(message: str) -> Rule:
    """The value never changes once set. For an optional field use `kept` on its parent."""
    return Rule("self == oldSelf", message)


def kept(name: str, message: str) -> Rule:
    """A rule for the parent: its optional field `name` is neither set, changed nor removed later."""
    return Rule(
        f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})", message
    )


def written_once(name: str, message: str) -> Rule:
    """A rule for the whole object: once `status.<name>` is set it is neither changed nor removed."""
    return Rule(
        f"!has(oldSelf.status) || !has(oldSelf.status.{name}) || "
        f"(has(self.status) && has(self.status.{name}) && self.status.{name} == oldSelf.status.{name})",
        message,
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column; `wide` columns are shown by `-o wide` alone."""

    name: str
    path: str
    type: ColumnType = "string"
    wide: bool = False


AGE = Column("Age", ".metadata.creationTimestamp", "date")


def condition_column(condition: str, *, name: str = "", field_name: str = "status", wide: bool = False) -> Column:
    """A column that shows a field of one condition."""
    return Column(name or condition, f'.status.conditions[?(@.type=="{condition}")].{field_name}', wide=wide)


@dataclass(frozen=True, slots=True)
class Scale:
    """JSON paths of the scale subresource."""

    replicas: str
    status_replicas: str
    selector: str


@dataclass(frozen=True, slots=True)
class ConditionType:
    """A condition that a kind's status holds: who writes it (a field manager), and what it tells."""

    type: str
    writer: str
    tells: str


@dataclass(frozen=True, slots=True)
class Definition:
    """What a kind's CustomResourceDefinition needs besides the schema. `rules` stand on the whole object.

    `conditions` are for the reference: the schema does not restrict which types a status holds.
    """

    columns: tuple[Column, ...]
    conditions: tuple[ConditionType, ...] = ()
    rules: tuple[Rule, ...] = ()
    scale: Scale | None = None
    has_status: bool = True
    categories: tuple[str, ...] = field(default=("netclaim",))
