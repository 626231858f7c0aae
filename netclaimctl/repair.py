"""What can be mended of what does not hold in IPAM, and what is left to a person. Pure.

Two things are mended: what nobody holds is given back, and what a live holder publishes is allocated to it again under
the one name that its block can have. Giving back many at once is refused: a control plane restored from an old backup
looks just like that, and its live addresses must not be freed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from netclaim.api import ipam, resources
from netclaim.api.conditions import timestamp
from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube.objects import uid_of
from netclaim.kube.writes import Create, Delete, Replace
from netclaimctl import cells
from netclaimctl.objects import IpamObjects, by_key
from nso.ipam import invariants
from nso.ipam.blocks import Block
from nso.ipam.cascade import cooldown_of, label, standing_space
from nso.ipam.claims import holder_of
from nso.ipam.index import Purpose
from nso.ipam.invariants import Violation
from nso.ipam.names import Scope, allocation_name
from nso.ipam.snapshot import Snapshot
from nso.ipam.steps import free
from nso.ipam.views import Holder

ADVICE: Final[Mapping[str, str]] = {
    invariants.BLOCK_TWICE: "find out which holder uses it (netclaimctl ipam who), and replace the other's claim",
    invariants.NO_POOL: "create the pool anew with the same name and range, or delete what it held",
    invariants.NOT_ALLOCATED: "its block cannot be given back to it: replace the claim",
    invariants.OTHER_BLOCK: "replace the claim: what it publishes is not what it holds",
    invariants.COUNTERS: "the IPAM controllers recompute it within a second: see whether they run and lead",
    invariants.POOLS_OVERLAP: "delete one of the pools once it is empty",
    invariants.OUTSIDE_PARENT: "let the pool run empty and delete it: the next claim makes it anew",
    invariants.OUTSIDE_POOL: "replace the claim that holds it",
    invariants.RESERVED: "replace the claim that holds it, or lift the reservation",
    invariants.WRONG_NAME: "replace the claim that holds it: under this name its block can be given out twice",
    invariants.WRONG_SPACE: "replace the claim that holds it: in its own space its block can be given out again",
    invariants.MALFORMED: "correct the object",
    cells.NOT_HELD: "replace the claim: its address may be given to somebody else",
}
A_PERSON: Final = "look at it with netclaimctl explain"
TOO_MANY: Final = (
    "not given back with {count} others of {total}: so many at once look like a restored backup, whose addresses are "
    "in use. Restore what is missing, or allow it with --limit once you know that nothing uses them"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One write with the reason for it."""

    write: Create | Delete | Replace
    why: str

    def __str__(self) -> str:
        return f"{self.write}: {self.why}"


@dataclass(frozen=True, slots=True)
class Left:
    """A violation that is not mended here, and what a person can do about it."""

    violation: Violation
    advice: str

    def __str__(self) -> str:
        return f"{self.violation}; {self.advice}"


@dataclass(frozen=True, slots=True)
class Repair:
    """The steps, in order, and what is left."""

    steps: tuple[Step, ...]
    left: tuple[Left, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """How many objects of one kind are given back at most: `few`, or this `share` of all where that is more."""

    few: int
    share: float

    def allows(self, count: int, total: int) -> bool:
        """Whether `count` of `total` may go."""
        return count <= max(self.few, int(total * self.share))


def plan(seen: IpamObjects, violations: Iterable[Violation], bound: Bound, now: datetime) -> Repair:
    """What to do about these violations of `seen`, which were found twice, some time apart; `now` begins a cooldown."""
    snapshot = Snapshot(classes=seen.classes, pools=seen.pools, claims=seen.claims, allocations=seen.allocations)
    mended: list[tuple[Violation, Step]] = []
    left: list[Left] = []
    for violation in violations:
        step = _mend(violation, seen, snapshot, now)
        if step is None:
            left.append(Left(violation, ADVICE.get(violation.invariant, A_PERSON)))
        elif all(step.write != taken.write for _, taken in mended):
            mended.append((violation, step))
    totals = {resources.IP_ALLOCATIONS: len(seen.allocations), resources.IP_CLAIMS: len(seen.claims)}
    counts = Counter(step.write.resource for _, step in mended if not isinstance(step.write, Create))
    refused = {kind for kind, count in counts.items() if not bound.allows(count, totals[kind])}
    steps: list[Step] = []
    for violation, step in mended:
        kind = step.write.resource
        if not isinstance(step.write, Create) and kind in refused:
            left.append(Left(violation, TOO_MANY.format(count=counts[kind] - 1, total=totals[kind])))
        else:
            steps.append(step)
    return Repair(tuple(steps), tuple(left))


def _mend(violation: Violation, seen: IpamObjects, snapshot: Snapshot, now: datetime) -> Step | None:
    kind, name = violation.kind, violation.invariant
    if kind == resources.IP_ALLOCATIONS.kind and name == invariants.NO_HOLDER:
        return _let_rest(violation, snapshot, now) or _give_back(
            resources.IP_ALLOCATIONS, by_key(seen.allocations)[violation.key], violation
        )
    if kind == resources.IP_ALLOCATIONS.kind and name == invariants.TWO_ALLOCATIONS:
        return _give_back_spare(violation, seen, snapshot)
    if kind == resources.IP_CLAIMS.kind and name == cells.NO_OWNER:
        return _give_back(resources.IP_CLAIMS, by_key(seen.claims)[violation.key], violation)
    if name == invariants.NOT_ALLOCATED:
        return _allocate_again(violation, snapshot)
    return None


def _give_back(resource: Resource, raw: Raw, violation: Violation) -> Step:
    # Over this very version: whoever wrote the object since then knows more than we do.
    version = raw["metadata"].get("resourceVersion")
    return Step(Delete(resource, violation.key, uid_of(raw), resource_version=version), violation.message)


def _let_rest(violation: Violation, snapshot: Snapshot, now: datetime) -> Step | None:
    """A block that was in use rests as its class says; None when that does not rest at all."""
    view = snapshot.allocation_views[violation.key]
    cooldown = cooldown_of(view.pool, snapshot) if view.purpose is Purpose.CLAIM else 0.0
    write = free(view, timestamp(now + timedelta(seconds=cooldown))) if cooldown else None
    return Step(write, violation.message) if isinstance(write, Replace) else None


def _give_back_spare(violation: Violation, seen: IpamObjects, snapshot: Snapshot) -> Step | None:
    """Of two allocations of one holder, the one that the holder does not publish."""
    holder = snapshot.allocation_views[violation.key].holder
    if holder is None:
        return None
    published = _published(holder.key, snapshot)
    spare = [view for view in snapshot.allocations_for(holder.uid) if view.block != published]
    if published is None or len(spare) != 1:
        return None
    key = spare[0].key
    told = Violation(violation.invariant, violation.kind, key, f"its holder publishes {published} and not this block")
    return _give_back(resources.IP_ALLOCATIONS, by_key(seen.allocations)[key], told)


def _published(holder: Key, snapshot: Snapshot) -> Block | None:
    claim, pool = snapshot.claim_views.get(holder), snapshot.pool_views.get(holder)
    if claim is not None:
        return claim.cidr
    return pool.cidr if pool is not None else None


def _allocate_again(violation: Violation, snapshot: Snapshot) -> Step | None:
    """The allocation that a live holder has lost, unless its block has another holder by now."""
    lost = _lost(violation, snapshot)
    pool = snapshot.pool_views.get(lost.pool) if lost else None
    if lost is None or pool is None or pool.cidr is None or not pool.cidr.contains(lost.block):
        return None
    space = standing_space(pool, lost.scope, snapshot)
    if space is None:
        return None
    if any(view.block.overlaps(lost.block) and view.space == space for view in snapshot.allocations_in(pool.key)):
        return None
    metadata = {
        "name": allocation_name(pool.id.name, space, lost.block),
        "namespace": pool.id.namespace,
        "labels": {ipam.POOL_LABEL: label(pool.id.name)},
    }
    spec = {
        "poolRef": {"name": pool.id.name},
        "cidr": str(lost.block),
        "space": space,
        "purpose": str(lost.purpose),
        "claimRef": {"namespace": lost.holder.namespace, "name": lost.holder.name, "uid": lost.holder.uid},
    }
    return Step(Create(resources.IP_ALLOCATIONS, {"metadata": metadata, "spec": spec}), violation.message)


@dataclass(frozen=True, slots=True)
class _Lost:
    """An allocation that is missing: whose it was, in which pool, and for which scope."""

    purpose: Purpose
    holder: Holder
    block: Block
    pool: Key
    scope: Scope


def _lost(violation: Violation, snapshot: Snapshot) -> _Lost | None:
    namespace, name = violation.key
    claim = snapshot.claim_views.get(violation.key) if violation.kind == resources.IP_CLAIMS.kind else None
    if claim is not None and claim.cidr is not None and claim.pool is not None:
        return _Lost(Purpose.CLAIM, holder_of(claim), claim.cidr, claim.pool, claim.scope)
    child = snapshot.pool_views.get(violation.key) if violation.kind == resources.IP_POOLS.kind else None
    if child is not None and child.cidr is not None and child.parent is not None:
        scope = child.made_for[1] if child.made_for else {}
        return _Lost(Purpose.CARVE, Holder(namespace, name, child.id.uid), child.cidr, child.parent, scope)
    return None
