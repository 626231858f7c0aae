"""IPClass: a kind of address that claims ask for by name."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.ipam.names import ACCEPTED, DEFAULT
from netclaim.api.ipam.parts import PrefixLength, Reservations, Roles
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject
from netclaim.api.networking import IPFamily
from netclaim.api.resources import Resource
from netclaim.api.schema import (
    AGE,
    Column,
    ConditionType,
    Definition,
    Rule,
    condition_column,
    immutable,
    kept,
)

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def duration_seconds(text: str) -> float:
    """Seconds of a duration such as `90s`, `1h30m` or `0s`.

    Raises:
        ValueError: the text is not a duration.
    """
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration: write numbers with a unit such as 90s or 1h30m")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


class IPClassSpec(ApiModel):
    """What a claim of the class gets, and which pools serve it."""

    SCHEMA_RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.ipFamily != 'IPv4' || self.prefixLength <= 32",
            "an IPv4 class hands out blocks of prefix length 32 or shorter: lower prefixLength",
        ),
        kept("parentClassName", "a class keeps its parent: create another class and let claims name that"),
        kept("poolPer", "a class keeps its poolPer roles: create another class and let claims name that"),
        kept("uniqueWithin", "a class keeps its uniqueWithin roles: create another class and let claims name that"),
    )

    ip_family: Annotated[
        IPFamily, immutable("a class keeps its family: create another class and let claims name that")
    ] = Field(description="Family of the addresses.")
    parent_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Class whose blocks the pools of this class are carved from; absent when root pools serve it.",
    )
    prefix_length: Annotated[
        PrefixLength, immutable("a class keeps its prefix length: create another class and let claims name that")
    ] = Field(description="Prefix length of the block that a claim gets.")
    pool_per: Roles = Field(
        default_factory=list,
        description="Scope roles: each distinct tuple of them has one pool of this class; empty for a leaf.",
    )
    unique_within: Roles = Field(
        default_factory=list,
        description="Scope roles that separate address spaces; empty for one space in the whole project.",
    )
    reservations: Reservations | None = Field(
        default=None, description="Blocks that are never handed out inside the pools made for this class."
    )
    strategy: Literal["NextFit", "FirstFit", "Random"] = Field(
        default="NextFit", description="Which free block is taken: the one behind the last given, the first, or any."
    )
    cooldown: Annotated[
        str,
        Rule(
            "self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$')", "write a duration such as 90s or 1h30m, or 0s for none"
        ),
        Field(min_length=1, max_length=32),
    ] = Field(default="0s", description="How long a freed block rests before it is given again.")

    @property
    def cooldown_seconds(self) -> float:
        """The cooldown in seconds."""
        return duration_seconds(self.cooldown)


class IPClass(KubeObject):
    """A kind of address that claims ask for by name."""

    RESOURCE: ClassVar[Resource] = resources.IP_CLASSES
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Family", ".spec.ipFamily"),
            Column("Prefix", ".spec.prefixLength", "integer"),
            Column("Parent", ".spec.parentClassName"),
            condition_column(ACCEPTED),
            condition_column(ACCEPTED, name="Reason", field_name="reason"),
            AGE,
        ),
        conditions=(
            ConditionType(ACCEPTED, managers.IPAM, "Claims can name the class."),
            ConditionType(
                DEFAULT,
                managers.IPAM,
                "Only on a class that is annotated as default: it is the only one of its family, and is used.",
            ),
        ),
    )

    spec: IPClassSpec = Field(description="What a claim of the class gets, and which pools serve it.")
    status: ConditionedStatus = Field(default_factory=ConditionedStatus, description="Whether the class can be used.")
