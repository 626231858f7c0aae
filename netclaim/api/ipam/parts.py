"""What several kinds of ipam.datumapis.com are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from netclaim.api.meta import ApiModel
from netclaim.api.schema import Hints, Rule

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


class PoolRef(ApiModel):
    """A pool, in the same namespace unless another is named."""

    namespace: str | None = Field(default=None, min_length=1, max_length=63, description="Namespace of the pool.")
    name: str = Field(min_length=1, max_length=253, description="Name of the pool.")
