"""Pools: whether one is Ready, how full it is, the carve that gives a child its block, and how a pool goes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from netclaim.api import ipam, managers, resources
from netclaim.api.conditions import make, timestamp
from netclaim.api.meta import Raw
from netclaim.kube.writes import AddFinalizer, ApplyStatus, Delete, DropFinalizer, JsonPatch, Owned
from nso.ipam import reasons
from nso.ipam.blocks import Block
from nso.ipam.cascade import Offer, is_judged, shape_of, space_in, standing_offer
from nso.ipam.catalogue import Catalogue
from nso.ipam.claims import wants_range_of
from nso.ipam.index import Capacity, Kind, Purpose, Strategy
from nso.ipam.names import missing_roles
from nso.ipam.reasons import Refusal
from nso.ipam.steps import Allocate, Plan, free
from nso.ipam.views import REMOVING, AllocationView, ClaimView, Holder, PoolView
from nso.ipam.waiting import Wait, for_block, for_pool, for_space

OWNED = Owned(
    fields=frozenset({"cidr", "ipFamily", "blocks", "capacity", "spaces", "utilization"}),
    conditions=frozenset({ipam.READY, ipam.EXHAUSTED}),
)


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a pool is, and of what: counters of its fullest space, and how many spaces hold something."""

    capacity: Capacity
    spaces: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Rest:
    """What a live list found inside a pool that is going: nothing else may be trusted for that.

    `unallocated` publish a block of the pool without an allocation: somebody deleted it by hand, and it will be made
    again.
    """

    allocations: Sequence[AllocationView]
    ranges: Sequence[ClaimView]
    unallocated: Sequence[ClaimView | PoolView] = ()

    @property
    def inside(self) -> list[str]:
        """Each that is there, for people."""
        return [
            *(f"allocation {allocation.id.name}" for allocation in self.allocations),
            *(f"range claim {claim.id}" for claim in self.ranges),
            *(f"{'pool' if isinstance(each, PoolView) else 'claim'} {each.id}" for each in self.unallocated),
        ]


def rest_of(
    pool: PoolView, allocations: Iterable[AllocationView], wanted: Sequence[ClaimView], catalogue: Catalogue
) -> Rest:
    """What is inside `pool`, from lists of the allocations and claims of its project."""
    own = [view for view in allocations if view.pool == pool.key]
    held = {view.holder.uid for view in own if view.holder}
    publishing: list[ClaimView | PoolView] = [
        claim for claim in wanted if claim.pool == pool.key and claim.cidr and not claim.is_range and not claim.id.going
    ]
    publishing += [child for child in catalogue.children(pool.key) if child.cidr]
    return Rest(
        allocations=own,
        ranges=[claim for claim in wanted if wants_range_of(claim, pool)],
        unallocated=[each for each in publishing if each.id.uid not in held],
    )


def rival(pool: PoolView, others: Sequence[PoolView]) -> PoolView | None:
    """The root pool that this one overlaps and must yield to: one that is Ready, else the older, else by name.

    `others` is a live list of the project's pools. A pool that is Ready yields only to one that is Ready too (which
    happens when it grew).
    """
    wanted = pool.wanted
    if wanted is None:
        return None
    for other in sorted(others, key=lambda other: other.id):
        if other.id.uid == pool.id.uid or other.wanted is None or not other.wanted.overlaps(wanted):
            continue
        settled = pool.ready and pool.cidr == wanted
        other_settled = other.ready and other.cidr is not None and other.cidr.overlaps(wanted)
        if (not other_settled, other.id.created, other.id.name) < (not settled, pool.id.created, pool.id.name):
            return other
    return None


def plan_root(
    pool: PoolView, others: Sequence[PoolView], fill: Fill | None, catalogue: Catalogue, now: datetime
) -> Plan:
    """A pool whose addresses are its own: Ready unless it overlaps another or its classes do not agree."""
    if ipam.POOL_FINALIZER not in pool.id.finalizers:
        return Plan((AddFinalizer(resources.IP_POOLS, pool.raw, ipam.POOL_FINALIZER),))
    ahead = rival(pool, others)
    if ahead is not None:
        refusal: Refusal | None = Refusal(
            ipam.REASON_OVERLAPS_POOL,
            f"{pool.wanted} overlaps IPPool {ahead.id} ({ahead.wanted}): remove one of the two, or choose another cidr",
        )
        return Plan((_status(pool, pool.cidr, refusal, fill, now),))
    shape = shape_of(pool, catalogue)
    refusal = shape if isinstance(shape, Refusal) and pool.class_names else None
    return Plan((_status(pool, pool.wanted, refusal, fill, now),))


def plan_child(pool: PoolView, fill: Fill | None, catalogue: Catalogue, now: datetime) -> Plan:
    """A pool carved from another: its block first, in the order object, Carve, `status.cidr`."""
    if ipam.POOL_FINALIZER not in pool.id.finalizers:
        return Plan((AddFinalizer(resources.IP_POOLS, pool.raw, ipam.POOL_FINALIZER),))
    if pool.cidr is not None:
        if all(carve.block != pool.cidr for carve in catalogue.allocations_for(pool.id.uid)):
            return _carve_again(pool, pool.cidr, fill, catalogue, now)
        shape = shape_of(pool, catalogue)
        refusal = shape if isinstance(shape, Refusal) and pool.class_names else None
        return Plan((_status(pool, pool.cidr, refusal, fill, now),))
    for carve in catalogue.allocations_for(pool.id.uid):
        return Plan((carved(pool, carve.block, fill, now),))
    if pool.made_for and pool.parent and catalogue.pool(pool.parent) is None:
        # Never carved, and never will be: who needs it orders it anew, with a parent that is there.
        delete = Delete(resources.IP_POOLS, pool.key, pool.id.uid, resource_version=pool.id.version, guarded=True)
        return Plan((delete,))
    offer = _parent_offer(pool, catalogue)
    if isinstance(offer, Refusal):
        waits = frozenset({for_pool(pool.parent)}) if pool.parent else frozenset[Wait]()
        return Plan((_status(pool, None, offer, None, now),), waits=waits)
    room = catalogue.room(offer.pool, offer.shape, offer.space)
    if room.free <= 0 and not room.cooling:
        cls_name = pool.made_for[0] if pool.made_for else pool.id.name
        refusal = reasons.exhausted(offer.pool.key, cls_name, offer.shape.cidr.family, room.used, room.total)
        return Plan(
            (_status(pool, None, refusal, None, now),), waits=frozenset({for_space(offer.pool.key, offer.space)})
        )
    holder = Holder(pool.id.namespace, pool.id.name, pool.id.uid)
    return Plan((Allocate(holder, Purpose.CARVE, (offer,), _strategy(pool, catalogue)),))


def _carve_again(pool: PoolView, block: Block, fill: Fill | None, catalogue: Catalogue, now: datetime) -> Plan:
    """A pool whose carve is gone: until it is there again the parent may carve the same addresses for somebody else."""
    if pool.parent is None:
        raise AssertionError(f"{pool.id} is a root pool")
    parent = catalogue.pool(pool.parent)
    scope = pool.made_for[1] if pool.made_for else {}
    offer = standing_offer(parent, block, scope, catalogue) if parent else None
    if offer is None:
        refusal = reasons.carve_lost(pool.key, block, pool.parent, "it is gone, or hands out nothing")
        return Plan((_status(pool, block, refusal, fill, now),), waits=frozenset({for_pool(pool.parent)}))
    for other in catalogue.allocations_in(pool.parent):
        if other.block.overlaps(block) and other.space in {"", offer.space}:
            whose = f"{other.holder.namespace}/{other.holder.name}" if other.holder else f"a {other.purpose}"
            refusal = reasons.carve_lost(pool.key, block, pool.parent, f"{other.block} is held by {whose}")
            waits = frozenset({for_block(pool.parent, offer.space, block.hex)})
            return Plan((_status(pool, block, refusal, fill, now),), waits=waits)
    holder = Holder(pool.id.namespace, pool.id.name, pool.id.uid)
    strategy = _strategy(pool, catalogue)
    return Plan((Allocate(holder, Purpose.CARVE, (offer,), strategy, exact=block, again=True),))


def carved(pool: PoolView, block: Block, fill: Fill | None, now: datetime) -> ApplyStatus:
    """The status of a child pool that has its block: Ready at once."""
    return _status(pool, block, None, fill, now)


def _strategy(pool: PoolView, catalogue: Catalogue) -> Strategy:
    cls = catalogue.class_named(pool.id.namespace, pool.made_for[0]) if pool.made_for else None
    return cls.strategy if cls else Strategy.NEXT_FIT


def _parent_offer(pool: PoolView, catalogue: Catalogue) -> Offer | Refusal:
    if pool.parent is None:
        raise AssertionError(f"{pool.id} is a root pool")
    parent = catalogue.pool(pool.parent)
    where = f"{pool.parent[0]}/{pool.parent[1]}"
    if parent is None or parent.going or not parent.ready or parent.cidr is None or not is_judged(parent):
        state = "does not exist" if parent is None else "is being removed" if parent.going else "is not Ready"
        return Refusal(reasons.PARENT_NOT_READY, f"the parent IPPool {where} of {pool.id} {state}")
    if pool.parent[0] != pool.id.namespace and not catalogue.consents(parent, pool.id.namespace):
        return Refusal(
            reasons.NOT_SHARED,
            f"IPPool {where} is not shared with project {pool.id.namespace}: its owner has to select the project in "
            "spec.sharedWith",
        )
    shape = shape_of(parent, catalogue)
    if isinstance(shape, Refusal):
        return Refusal(reasons.PARENT_NOT_READY, shape.message)
    if shape.length != pool.length:
        return Refusal(
            ipam.REASON_MIXED_BLOCKS,
            f"IPPool {where} hands out blocks of /{shape.length}, and {pool.id} asks for /{pool.length}",
        )
    scope = pool.made_for[1] if pool.made_for else {}
    missing = missing_roles(shape.unique_within, scope)
    if missing:
        return reasons.roles_missing(pool.id.name, missing)
    return Offer(parent, shape, space_in(parent, shape.unique_within, scope))


def _status(
    pool: PoolView, cidr: Block | None, refusal: Refusal | None, fill: Fill | None, now: datetime
) -> ApplyStatus:
    status: Raw = {}
    if cidr is not None:
        status |= {"cidr": str(cidr), "ipFamily": cidr.family}
    kind = fill.kind if fill and not refusal and pool.kind is None else pool.kind
    if kind is not None:
        status["blocks"] = {"prefixLength": kind.length, "uniqueWithin": list(kind.unique_within)}
    if refusal:
        conditions = [make(pool.raw, ipam.READY, "False", refusal.reason, refusal.message, now)]
    elif pool.is_root:
        conditions = [make(pool.raw, ipam.READY, "True", reasons.REASON_OFFERED, f"offers {cidr}", now)]
    else:
        conditions = [make(pool.raw, ipam.READY, "True", reasons.REASON_CARVED, f"{cidr} is carved", now)]
    if fill is not None:
        capacity = fill.capacity
        status |= {
            "capacity": {
                name: str(getattr(capacity, name))
                for name in ("total", "allocated", "reserved", "cooling", "available")
            },
            "spaces": fill.spaces,
            "utilization": _utilization(capacity),
        }
        conditions.append(_exhausted(pool, capacity, now))
    status["conditions"] = conditions
    return ApplyStatus(resources.IP_POOLS, pool.key, status, managers.IPAM, OWNED, resource_version=pool.id.version)


def _exhausted(pool: PoolView, capacity: Capacity, now: datetime) -> Raw:
    if capacity.available > 0:
        return make(pool.raw, ipam.EXHAUSTED, "False", reasons.REASON_AVAILABLE, "blocks are left in every space", now)
    text = f"no block is left in the fullest space: {capacity.allocated}/{capacity.total} allocated"
    return make(pool.raw, ipam.EXHAUSTED, "True", reasons.REASON_ALL_TAKEN, text, now)


def _utilization(capacity: Capacity) -> str:
    """Share of held blocks with one digit; what is held of a vast pool reads 0.0%."""
    return f"{capacity.allocated * 1000 // capacity.total / 10:.1f}%"


def is_idle(pool: PoolView, catalogue: Catalogue) -> bool:
    """Whether a pool that a cascade made is held by no Range claim and nobody is inside at any depth."""
    return (
        pool.made_for is not None
        and not pool.id.going
        and not catalogue.range_claims(pool.key)
        and all(allocation.purpose is Purpose.CARVE for allocation in catalogue.allocations_in(pool.key))
        and all(is_idle(child, catalogue) for child in catalogue.children(pool.key))
    )


def is_bare(pool: PoolView, catalogue: Catalogue) -> bool:
    """Whether an idle pool has lost its last child too: only then may it go."""
    return not catalogue.children(pool.key) and not catalogue.allocations_in(pool.key)


def mark(pool: PoolView, now: datetime) -> JsonPatch:
    """Announce the removal of an idle pool: nothing new comes in from here on. A Conflict when somebody held it."""
    annotations = {**(pool.raw["metadata"].get("annotations") or {}), REMOVING: timestamp(now)}
    return annotate(pool, annotations)


def plan_marked(pool: PoolView, rest: Rest) -> Plan:
    """A pool whose removal was announced long ago: delete it, or take it back when somebody came in."""
    if rest.inside:
        annotations = dict(pool.raw["metadata"].get("annotations") or {})
        annotations.pop(REMOVING, None)
        return Plan((annotate(pool, annotations),))
    return Plan((Delete(resources.IP_POOLS, pool.key, pool.id.uid, resource_version=pool.id.version, guarded=True),))


def annotate(pool: PoolView, annotations: dict[str, str]) -> JsonPatch:
    """Replace the pool's annotations in the very version that was seen; a Conflict in any other."""
    return JsonPatch(
        resources.IP_POOLS,
        pool.key,
        (
            {"op": "test", "path": "/metadata/resourceVersion", "value": pool.id.version},
            {"op": "add", "path": "/metadata/annotations", "value": annotations},
        ),
        guarded=True,
    )


def plan_removal(pool: PoolView, rest: Rest, fill: Fill | None, catalogue: Catalogue, now: datetime) -> Plan:
    """A pool that is going: the carve is freed and the finalizer dropped when a live list finds nothing inside."""
    if ipam.POOL_FINALIZER not in pool.id.finalizers:
        return Plan()
    if inside := rest.inside:
        if pool.parent and pool.cidr and not catalogue.allocations_for(pool.id.uid):
            return _carve_again(pool, pool.cidr, fill, catalogue, now)
        shown = ", ".join(inside[:3]) + (f" and {len(inside) - 3} more" if len(inside) > 3 else "")
        refusal = Refusal(reasons.POOL_OCCUPIED, f"IPPool {pool.id} goes when it is empty; still inside: {shown}")
        return Plan((_status(pool, pool.cidr, refusal, fill, now),))
    frees = tuple(free(carve) for carve in catalogue.allocations_for(pool.id.uid))
    return Plan((*frees, DropFinalizer(resources.IP_POOLS, pool.raw, ipam.POOL_FINALIZER)))
