"""What must hold of an IPAM control plane, recomputed from its objects alone. Pure.

The lists are read one after the other, so a check of a busy control plane can see a step half done: what is still
there a few seconds later is a violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from netclaim.api import ipam, resources
from netclaim.api.meta import Key, Raw
from nso.ipam.blocks import Block
from nso.ipam.cascade import shape_of, standing_space
from nso.ipam.index import Purpose, Shape
from nso.ipam.names import allocation_name
from nso.ipam.snapshot import Snapshot
from nso.ipam.views import AllocationView, Identity, PoolView

BLOCK_TWICE: Final = "BlockTwice"
TWO_ALLOCATIONS: Final = "TwoAllocations"
NO_HOLDER: Final = "NoHolder"
NO_POOL: Final = "NoPool"
NOT_ALLOCATED: Final = "NotAllocated"
OTHER_BLOCK: Final = "OtherBlock"
COUNTERS: Final = "Counters"
POOLS_OVERLAP: Final = "PoolsOverlap"
OUTSIDE_PARENT: Final = "OutsideParent"
OUTSIDE_POOL: Final = "OutsidePool"
RESERVED: Final = "Reserved"
WRONG_NAME: Final = "WrongName"
WRONG_SPACE: Final = "WrongSpace"
MALFORMED: Final = "Malformed"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that does not hold: the invariant's name, the object, and what is wrong with it."""

    invariant: str
    kind: str
    key: Key
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.kind} {'/'.join(self.key)}: {self.message}"


def check(
    classes: Iterable[Raw], pools: Iterable[Raw], claims: Iterable[Raw], allocations: Iterable[Raw]
) -> list[Violation]:
    """Every violation among these objects: raw dicts, of one project or of many."""
    seen = Snapshot(classes=classes, pools=pools, claims=claims, allocations=allocations)
    found = [_malformed(raw, why) for raw, why in seen.malformed]
    for part in (_blocks, _holders, _claims, _carves, _roots, _pools):
        found += part(seen)
    return found


def _malformed(raw: Raw, why: str) -> Violation:
    return Violation(MALFORMED, str(raw.get("kind") or "object"), Identity.of(raw).key, why)


def _allocation(invariant: str, view: AllocationView, message: str) -> Violation:
    return Violation(invariant, resources.IP_ALLOCATIONS.kind, view.key, message)


def _is_held(view: AllocationView) -> bool:
    return view.purpose in {Purpose.CLAIM, Purpose.CARVE}


def _blocks(seen: Snapshot) -> Iterator[Violation]:
    """Each block once per space, whatever its length; and each under the one name that it can have."""
    spaces: dict[tuple[Key, str], list[AllocationView]] = defaultdict(list)
    for view in seen.allocation_views.values():
        if view.purpose is not Purpose.RESERVATION:
            spaces[view.pool, view.space].append(view)
            expected = allocation_name(view.pool[1], view.space, view.block)
            if view.id.name != expected:
                yield _allocation(WRONG_NAME, view, f"its block {view.block} belongs under the name {expected}")
        if view.pool not in seen.pool_views:
            yield _allocation(NO_POOL, view, f"its pool {'/'.join(view.pool)} is gone")
    for views in spaces.values():
        for first, second in _overlaps(views, lambda view: view.block):
            yield _allocation(BLOCK_TWICE, second, f"{second.block} overlaps {first.block} of {first.id}")


def _overlaps(items: Iterable[T], block_of: Callable[[T], Block]) -> Iterator[tuple[T, T]]:
    """Items whose block shares an address with one that begins no later and reaches furthest."""
    furthest: T | None = None
    for item in sorted(items, key=block_of):
        if furthest is not None and block_of(furthest).overlaps(block_of(item)):
            yield furthest, item
        if furthest is None or _end(block_of(item)) > _end(block_of(furthest)):
            furthest = item


def _end(block: Block) -> tuple[str, int]:
    return (block.family, block.last_address)


def _holders(seen: Snapshot) -> Iterator[Violation]:
    """Each allocation has a live holder, and each holder one allocation."""
    held: dict[str, list[AllocationView]] = defaultdict(list)
    for view in filter(_is_held, seen.allocation_views.values()):
        if view.holder is None:
            yield _allocation(NO_HOLDER, view, "it names no holder")
            continue
        held[view.holder.uid].append(view)
        claim, pool = seen.claim_views.get(view.holder.key), seen.pool_views.get(view.holder.key)
        holder = (claim.id if claim else None) if view.purpose is Purpose.CLAIM else (pool.id if pool else None)
        if holder is None or holder.uid != view.holder.uid:
            who = f"{view.holder.namespace}/{view.holder.name} (uid {view.holder.uid})"
            yield _allocation(NO_HOLDER, view, f"its holder {who} is gone")
    for views in held.values():
        for extra in sorted(views, key=lambda view: view.id)[1:]:
            yield _allocation(TWO_ALLOCATIONS, extra, f"its holder has {views[0].block} too")


def _claims(seen: Snapshot) -> Iterator[Violation]:
    """What a claim publishes is what it holds."""
    for claim in seen.claim_views.values():
        if claim.cidr is None:
            continue
        kind = resources.IP_CLAIMS.kind
        if claim.is_range:
            pool = seen.pool_views.get(claim.pool) if claim.pool else None
            if pool is None or pool.cidr != claim.cidr:
                holds = pool.cidr if pool else "no pool"
                yield Violation(OTHER_BLOCK, kind, claim.key, f"it publishes {claim.cidr}, its pool has {holds}")
            continue
        allocation = seen.allocation_views.get(claim.allocation) if claim.allocation else None
        if allocation is None or allocation.holder is None or allocation.holder.uid != claim.id.uid:
            if not claim.id.going:
                yield Violation(NOT_ALLOCATED, kind, claim.key, f"it publishes {claim.cidr} and holds no allocation")
        elif allocation.block != claim.cidr:
            message = f"it publishes {claim.cidr}, its allocation is {allocation.block}"
            yield Violation(OTHER_BLOCK, kind, claim.key, message)


def _carves(seen: Snapshot) -> Iterator[Violation]:
    """A child pool's block is carved, and lies in its parent."""
    for pool in seen.pool_views.values():
        if pool.is_root or pool.cidr is None or pool.parent is None:
            continue
        kind = resources.IP_POOLS.kind
        carves = [view for view in seen.allocations_for(pool.id.uid) if view.purpose is Purpose.CARVE]
        if not carves:
            if not pool.going:
                yield Violation(NOT_ALLOCATED, kind, pool.key, f"{pool.cidr} is not carved")
        elif all(carve.block != pool.cidr for carve in carves):
            yield Violation(OTHER_BLOCK, kind, pool.key, f"it has {pool.cidr}, its carve is {carves[0].block}")
        parent = seen.pool_views.get(pool.parent)
        if parent is None or parent.cidr is None or not parent.cidr.contains(pool.cidr):
            where = parent.cidr if parent else "gone"
            yield Violation(OUTSIDE_PARENT, kind, pool.key, f"{pool.cidr} is not in its parent ({where})")


def _roots(seen: Snapshot) -> Iterator[Violation]:
    """Root pools of a project that are Ready do not overlap."""
    projects: dict[str, list[tuple[Block, PoolView]]] = defaultdict(list)
    for pool in seen.pool_views.values():
        if pool.is_root and pool.ready and pool.cidr is not None:
            projects[pool.id.namespace].append((pool.cidr, pool))
    for pools in projects.values():
        for (one, first), (other, second) in _overlaps(pools, lambda pair: pair[0]):
            message = f"{other} overlaps {one} of {first.id}"
            yield Violation(POOLS_OVERLAP, resources.IP_POOLS.kind, second.key, message)


def _pools(seen: Snapshot) -> Iterator[Violation]:
    """What is held in a pool lies inside it and in no reservation; and its counters are the sums."""
    for pool in seen.pool_views.values():
        if pool.cidr is None:
            continue
        shape = shape_of(pool, seen)
        views = seen.allocations_in(pool.key)
        reservations = [view for view in views if view.purpose is Purpose.RESERVATION]
        for view in filter(_is_held, views):
            yield from _space(view, pool, seen)
            if not pool.cidr.contains(view.block):
                yield _allocation(OUTSIDE_POOL, view, f"{view.block} is not in its pool ({pool.cidr})")
            elif isinstance(shape, Shape):
                yield from _length_and_reservation(view, shape, pool, reservations)
        if isinstance(shape, Shape) and not pool.going:
            yield from _counters(pool, shape, seen)


def _space(view: AllocationView, pool: PoolView, seen: Snapshot) -> Iterator[Violation]:
    """A block lies in the space of its holder's scope: from any other, that space would give it again."""
    claim = seen.claim_views.get(view.holder.key) if view.holder and view.purpose is Purpose.CLAIM else None
    child = seen.pool_views.get(view.holder.key) if view.holder and view.purpose is Purpose.CARVE else None
    scope = claim.scope if claim else child.made_for[1] if child and child.made_for else {}
    expected = standing_space(pool, scope, seen) if claim or child else None
    if expected is not None and expected != view.space:
        yield _allocation(WRONG_SPACE, view, f"its holder's scope has the space {expected!r}, and not {view.space!r}")


def _length_and_reservation(
    view: AllocationView, shape: Shape, pool: PoolView, reservations: Iterable[AllocationView]
) -> Iterator[Violation]:
    if view.block.length != shape.length:
        yield _allocation(OUTSIDE_POOL, view, f"{view.block} is not a /{shape.length}, which its pool hands out")
        return
    if any(start <= view.block.number < end for start, end in shape.withheld):
        yield _allocation(RESERVED, view, f"{view.block} is reserved in IPPool {pool.id}")
    for other in reservations:
        if other.space in {"", view.space} and other.block.overlaps(view.block):
            yield _allocation(RESERVED, view, f"{view.block} is in the reservation {other.id}")


def _counters(pool: PoolView, shape: Shape, seen: Snapshot) -> Iterator[Violation]:
    shown = (pool.raw.get("status") or {}).get("capacity")
    if not shown:
        if pool.ready:
            yield Violation(COUNTERS, resources.IP_POOLS.kind, pool.key, "its status tells no counters")
        return
    index = seen.index(pool.key, shape)
    fullest = index.fullest
    counted = {name: getattr(fullest, name) for name in ipam.Capacity.model_fields}
    told = {name: int(shown[name]) for name in counted}
    if told != counted:
        yield Violation(COUNTERS, resources.IP_POOLS.kind, pool.key, f"its status says {told}, the sums are {counted}")
    spaces = (pool.raw.get("status") or {}).get("spaces")
    if spaces != index.used_spaces:
        message = f"its status says {spaces} spaces, {index.used_spaces} hold something"
        yield Violation(COUNTERS, resources.IP_POOLS.kind, pool.key, message)
