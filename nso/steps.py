"""A plan's steps: a write, and which of the two API servers it goes to.

A cell and its IPAM may be one API server or two; a plan orders its writes over both, since what must be durable first
decides the order, not where it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netclaim.kube.writes import Write


@dataclass(frozen=True, slots=True)
class InCell:
    """A write at the cell's API server."""

    write: Write

    def __str__(self) -> str:
        return f"cell: {self.write}"


@dataclass(frozen=True, slots=True)
class InIpam:
    """A write at the IPAM control plane."""

    write: Write

    def __str__(self) -> str:
        return f"ipam: {self.write}"


@dataclass(frozen=True, slots=True)
class EachOf:
    """Writes at the IPAM control plane that do not depend on each other: an error on one does not stop the others."""

    writes: tuple[Write, ...]

    def __str__(self) -> str:
        return "ipam, each: " + "; ".join(str(write) for write in self.writes)


Step = InCell | InIpam | EachOf
Plan = tuple[Step, ...]


def writes_of(plan: Plan) -> Iterator[Write]:
    """All writes of a plan, in order."""
    for step in plan:
        if isinstance(step, EachOf):
            yield from step.writes
        else:
            yield step.write


def needs_ipam(plan: Plan) -> bool:
    """Whether a step of the plan is for the IPAM control plane."""
    return any(isinstance(step, InIpam | EachOf) for step in plan)
