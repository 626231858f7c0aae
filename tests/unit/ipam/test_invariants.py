"""The checker finds each kind of violation, and nothing in a sound project."""

from typing import Any

import pytest

from netclaim.api import ipam
from netclaim.api.meta import Raw
from nso.ipam import invariants
from tests.unit.ipam.objects import allocation, ip_claim, ip_class, root_pool


def bound(claim: Raw, cidr: str, held: Raw, pool: str) -> Raw:
    claim["status"] = {
        "phase": ipam.PHASE_BOUND,
        "cidr": cidr,
        "poolRef": {"name": pool},
        "allocationRef": {"name": held["metadata"]["name"]},
        "conditions": [],
    }
    return claim


class Project:
    """One class, one pool of eight addresses, one bound claim; tests break it."""

    def __init__(self) -> None:
        self.classes = [ip_class("single", 32)]
        self.pool = root_pool("pool", "192.0.2.0/29", "single", reservations={"leading": 1})
        self.claim = ip_claim("web", className="single")
        self.held = allocation("pool", "192.0.2.3/32", self.claim)
        bound(self.claim, "192.0.2.3/32", self.held, "pool")
        self.allocations = [self.held]
        self.pools = [self.pool]
        self.claims = [self.claim]
        self.count(allocated=1, available=6)

    def count(self, *, allocated: int, available: int, spaces: int = 1) -> None:
        told = {"total": 8, "allocated": allocated, "reserved": 1, "cooling": 0, "available": available}
        self.pool["status"] |= {"capacity": {name: str(value) for name, value in told.items()}, "spaces": spaces}

    def found(self) -> list[str]:
        return sorted(
            {each.invariant for each in invariants.check(self.classes, self.pools, self.claims, self.allocations)}
        )


def test_a_sound_project_has_no_violation() -> None:
    """T04."""
    assert Project().found() == []


def break_name(project: Project) -> None:
    project.held["metadata"]["name"] = "by-hand"
    project.claim["status"]["allocationRef"]["name"] = "by-hand"


def break_twice(project: Project) -> None:
    other = ip_claim("other", className="single")
    twin = allocation("pool", "192.0.2.3/32", other)
    project.claims.append(other)
    project.allocations.append({**twin, "metadata": {**twin["metadata"], "name": "twin"}})


def break_two(project: Project) -> None:
    project.allocations.append(allocation("pool", "192.0.2.4/32", project.claim, created=5))
    project.count(allocated=2, available=5)


def break_holder(project: Project) -> None:
    project.held["spec"]["claimRef"] = {**project.held["spec"]["claimRef"], "uid": "an-earlier-one"}


def break_gone(project: Project) -> None:
    project.allocations.clear()
    project.count(allocated=0, available=7, spaces=0)


def break_block(project: Project) -> None:
    project.claim["status"]["cidr"] = "192.0.2.5/32"


def break_counters(project: Project) -> None:
    project.count(allocated=2, available=5)


def break_overlap(project: Project) -> None:
    project.pools.append(root_pool("wide", "192.0.2.0/24"))


def break_reserved(project: Project) -> None:
    project.pool["spec"]["excluded"] = ["192.0.2.2/31"]


def break_by_reservation(project: Project) -> None:
    project.allocations.append(allocation("pool", "192.0.2.2/31", purpose="Reservation"))


def break_outside(project: Project) -> None:
    project.pool["spec"]["cidr"] = project.pool["status"]["cidr"] = "203.0.113.0/29"


def break_pool(project: Project) -> None:
    project.pools.clear()


def break_space(project: Project) -> None:
    project.pool["status"]["blocks"]["uniqueWithin"] = ["network"]


def break_malformed(project: Project) -> None:
    project.claim["status"]["cidr"] = "nonsense"


@pytest.mark.parametrize(
    ("breakage", "invariant"),
    [
        (break_name, invariants.WRONG_NAME),
        (break_twice, invariants.BLOCK_TWICE),
        (break_two, invariants.TWO_ALLOCATIONS),
        (break_holder, invariants.NO_HOLDER),
        (break_gone, invariants.NOT_ALLOCATED),
        (break_block, invariants.OTHER_BLOCK),
        (break_counters, invariants.COUNTERS),
        (break_overlap, invariants.POOLS_OVERLAP),
        (break_reserved, invariants.RESERVED),
        (break_by_reservation, invariants.RESERVED),
        (break_outside, invariants.OUTSIDE_POOL),
        (break_pool, invariants.NO_POOL),
        (break_space, invariants.WRONG_SPACE),
        (break_malformed, invariants.MALFORMED),
    ],
)
def test_each_breakage_is_found_by_its_name(breakage: Any, invariant: str) -> None:
    """T04: each of these was reported by users of systems like this one."""
    project = Project()
    breakage(project)
    assert invariant in project.found()


def test_a_violation_prints_as_one_line() -> None:
    """What `netclaimctl ipam check` prints."""
    project = Project()
    break_counters(project)
    (violation,) = invariants.check(project.classes, project.pools, project.claims, project.allocations)
    assert str(violation).startswith("Counters: IPPool project-alpha/pool: its status says")
