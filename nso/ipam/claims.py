"""Claims: from what is seen of one IPClaim to the steps that bind or release it. Pure.

Order of the durable steps: finalizer, pools (uppermost first), allocation, status. A crash between any two is finished
by the next pass, which finds the allocation by the claim's uid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from netclaim.addresses import gateway
from netclaim.api import ipam, managers, resources
from netclaim.api.conditions import condition, make, timestamp
from netclaim.api.meta import Key, Raw
from netclaim.kube.writes import AddFinalizer, ApplyStatus, DropFinalizer, Emit, Owned
from nso.ipam import classes, reasons
from nso.ipam.blocks import Block
from nso.ipam.cascade import Held, Offer, PoolOrder, cooldown_of, hold, locate, standing_offer
from nso.ipam.catalogue import Catalogue
from nso.ipam.index import Purpose, Strategy
from nso.ipam.names import pool_name
from nso.ipam.reasons import Refusal
from nso.ipam.steps import Allocate, HoldPool, Plan, Step, free, make_pool
from nso.ipam.views import AllocationView, ClaimView, ClassView, Holder, PoolView
from nso.ipam.waiting import TURN, Wait, for_block, for_pool, for_project, for_space, for_vacancy

OWNED = Owned(
    fields=frozenset({"phase", "cidr", "gateway", "poolRef", "allocationRef"}),
    conditions=frozenset({ipam.BOUND, ipam.RELEASED}),
)
POOL_PATIENCE = 2.0
"""Seconds for which a claim says nothing while its pool is being made."""


def plan(claim: ClaimView, catalogue: Catalogue, now: datetime, read: Sequence[AllocationView] = ()) -> Plan:
    """What to do for this claim next. `read`: allocations of the claim that were read live, not seen in the store."""
    if claim.id.going:
        return _release(claim, catalogue, now, read)
    if ipam.CLAIM_FINALIZER not in claim.id.finalizers:
        return Plan((AddFinalizer(resources.IP_CLAIMS, claim.raw, ipam.CLAIM_FINALIZER),))
    cls = classes.resolve(claim.class_name, claim.family, claim.id.namespace, catalogue)
    if claim.cidr is not None:
        return _keep(claim, claim.cidr, catalogue, now)
    if not claim.is_range:
        for allocation in catalogue.allocations_for(claim.id.uid):
            pool = catalogue.pool(allocation.pool)
            if pool is not None and not pool.going:
                return Plan((bound(claim, allocation.block, pool.key, allocation.key, now),))
    if isinstance(cls, Refusal):
        return refused(claim, cls, now)
    missing = classes.scope_refusal(cls, claim.scope, catalogue)
    if missing:
        return refused(claim, missing, now)
    return _hold_range(claim, cls, catalogue, now) if claim.is_range else _take_block(claim, cls, catalogue, now)


def bound(claim: ClaimView, block: Block, pool: Key, allocation: Key, now: datetime) -> ApplyStatus:
    """The status of a claim that has its block. Planned on the version seen: a namesake never gets it."""
    status: Raw = {
        "phase": ipam.PHASE_BOUND,
        "cidr": str(block),
        "poolRef": _reference(pool, claim),
        "allocationRef": _reference(allocation, claim),
        "conditions": [make(claim.raw, ipam.BOUND, "True", ipam.REASON_BOUND, f"holds {block}", now)],
    }
    if claim.is_range:
        status["gateway"] = gateway(str(block))
    return _apply(claim, status)


def refused(claim: ClaimView, refusal: Refusal, now: datetime, waits: frozenset[Wait] = frozenset()) -> Plan:
    """Say why the claim does not bind. A refusal ends by an event that `waits` names, or any change of the project."""
    status: Raw = {
        "phase": ipam.PHASE_FAILED if refusal.final else ipam.PHASE_PENDING,
        "conditions": [make(claim.raw, ipam.BOUND, "False", refusal.reason, refusal.message, now)],
    }
    steps: list[Step] = [_apply(claim, status)]
    before = condition(claim.raw, ipam.BOUND)
    if before is None or before.get("reason") != refusal.reason:
        steps.append(Emit(claim.raw, "Warning", refusal.reason, refusal.message))
    return Plan(tuple(steps), waits=waits | {for_project(claim.id.namespace)})


def _apply(claim: ClaimView, status: Raw) -> ApplyStatus:
    return ApplyStatus(resources.IP_CLAIMS, claim.key, status, managers.IPAM, OWNED, resource_version=claim.id.version)


def _reference(key: Key, claim: ClaimView) -> Raw:
    return {"name": key[1]} if key[0] == claim.id.namespace else {"namespace": key[0], "name": key[1]}


def holder_of(claim: ClaimView) -> Holder:
    """The claim as an allocation names it."""
    return Holder(claim.id.namespace, claim.id.name, claim.id.uid)


def _take_block(claim: ClaimView, cls: ClassView, catalogue: Catalogue, now: datetime) -> Plan:
    place = locate(cls, claim.scope, claim.id.namespace, catalogue)
    if place.orders or place.refusal:
        return _get_pool(claim, place.orders, place.refusal, place.waits, now)
    if claim.address:
        return _take_exact(claim, cls, place.offers, catalogue, now)
    open_offers = tuple(offer for offer in place.offers if _may_take(offer, claim, catalogue))
    if not open_offers:
        first = place.offers[0]
        rooms = [catalogue.room(offer.pool, offer.shape, offer.space) for offer in place.offers]
        refusal = reasons.exhausted(first.pool.key, cls.name, cls.family, rooms[0].used, rooms[0].total)
        # What is in flight, or another's turn, may come to nothing without an event.
        again = TURN if any(room.used < room.total for room in rooms) else None
        waits = frozenset(for_space(offer.pool.key, offer.space) for offer in place.offers)
        return replace(refused(claim, refusal, now, waits), again=again)
    return Plan((Allocate(holder_of(claim), Purpose.CLAIM, open_offers, cls.strategy),))


def _may_take(offer: Offer, claim: ClaimView, catalogue: Catalogue) -> bool:
    room = catalogue.room(offer.pool, offer.shape, offer.space)
    return room.free + room.cooling > catalogue.ahead(for_space(offer.pool.key, offer.space), claim)


def _take_exact(claim: ClaimView, cls: ClassView, offers: Sequence[Offer], catalogue: Catalogue, now: datetime) -> Plan:
    address = claim.address or ""
    try:
        wanted = Block.parse(address)
    except ValueError as error:
        return refused(claim, reasons.address_unavailable(address, str(error), final=True), now)
    if "/" in address and wanted.length != cls.length:
        return refused(claim, reasons.prefix_length_rejected(address, cls.name, cls.length), now)
    block = Block.numbered(wanted.family, cls.length, wanted.address >> (wanted.bits - cls.length))
    if wanted.family != cls.family or block.address != wanted.address:
        why = f"class {cls.name} hands out {cls.family} blocks of /{cls.length}, and no such block starts there"
        return refused(claim, reasons.address_unavailable(address, why, final=True), now)
    inside = [offer for offer in offers if offer.shape.cidr.contains(block)]
    if not inside:
        pools = ", ".join(f"{offer.pool.id.name} ({offer.shape.cidr})" for offer in offers)
        return refused(claim, reasons.address_unavailable(address, f"it lies outside {pools}", final=True), now)
    offer = inside[0]
    standing = catalogue.standing(offer.pool, offer.shape, offer.space, block)
    if standing == "free":
        return Plan((Allocate(holder_of(claim), Purpose.CLAIM, (offer,), cls.strategy, exact=block),))
    why = f"it is {standing} in IPPool {offer.pool.id}"
    return refused(
        claim,
        reasons.address_unavailable(address, why, final=standing == "reserved"),
        now,
        frozenset({for_block(offer.pool.key, offer.space, block.hex)}),
    )


def _get_pool(
    claim: ClaimView,
    orders: tuple[PoolOrder, ...],
    refusal: Refusal | None,
    waits: frozenset[Wait],
    now: datetime,
) -> Plan:
    if orders:
        made = tuple(make_pool(order) for order in orders)
        return Plan(made, waits=frozenset({for_pool(orders[-1].key)}), again=POOL_PATIENCE)
    if refusal is None:
        raise AssertionError("a place has offers, orders or a refusal")
    young = (now - datetime.fromisoformat(claim.id.created)).total_seconds() < POOL_PATIENCE
    if refusal.reason == reasons.WAITING_FOR_POOL and young:
        return Plan(waits=waits, again=POOL_PATIENCE)
    return refused(claim, refusal, now, waits)


def _hold_range(claim: ClaimView, cls: ClassView, catalogue: Catalogue, now: datetime) -> Plan:
    if not cls.pool_per:
        return refused(claim, reasons.makes_no_pools(cls.name), now)
    held: Held = hold(cls, claim.scope, claim.id.namespace, catalogue)
    pool = held.pool or _held_before(claim, cls, catalogue)
    if pool is None:
        return _get_pool(claim, held.orders, held.refusal, held.waits, now)
    carves = [carve for carve in catalogue.allocations_for(pool.id.uid) if carve.block == pool.cidr]
    if pool.cidr is None or not carves:
        return Plan(waits=frozenset({for_pool(pool.key)}), again=POOL_PATIENCE)
    holding = () if pool.going else (HoldPool(pool, claim.id.uid),)
    return Plan((*holding, bound(claim, pool.cidr, pool.key, carves[0].key, now)))


def _held_before(claim: ClaimView, cls: ClassView, catalogue: Catalogue) -> PoolView | None:
    """A pool that goes, and waits for this claim, which took hold of it before."""
    pool = catalogue.pool((claim.id.namespace, pool_name(cls.name, cls.pool_per, claim.scope)))
    return pool if pool and pool.going and wants_range_of(claim, pool) else None


def _keep(claim: ClaimView, cidr: Block, catalogue: Catalogue, now: datetime) -> Plan:
    """A bound claim: its allocation is there, or its name is taken again, unless it is somebody else's by now."""
    if claim.pool is None or claim.allocation is None or claim.is_range:
        return Plan()
    if any(allocation.key == claim.allocation for allocation in catalogue.allocations_for(claim.id.uid)):
        return Plan((bound(claim, cidr, claim.pool, claim.allocation, now),))
    pool = catalogue.pool(claim.pool)
    offer = standing_offer(pool, cidr, claim.scope, catalogue) if pool else None
    if offer is None:
        return Plan()
    again = Allocate(holder_of(claim), Purpose.CLAIM, (offer,), Strategy.FIRST_FIT, exact=cidr, again=True)
    return Plan((again,))


def lost(claim: ClaimView, cidr: Block, allocation: Key, now: datetime) -> Plan:
    """Say that a bound claim's block is not its own any more; the block stays in the status."""
    refusal = reasons.allocation_lost(cidr, allocation)
    status = _kept_status(claim)
    status["conditions"] = [make(claim.raw, ipam.BOUND, "False", refusal.reason, refusal.message, now)]
    return Plan((_apply(claim, status), Emit(claim.raw, "Warning", refusal.reason, refusal.message)))


def _kept_status(claim: ClaimView) -> Raw:
    status = claim.raw.get("status") or {}
    return {name: status[name] for name in sorted(OWNED.fields) if name in status}


def _release(claim: ClaimView, catalogue: Catalogue, now: datetime, read: Sequence[AllocationView]) -> Plan:
    if ipam.CLAIM_FINALIZER not in claim.id.finalizers:
        return Plan()
    drop = DropFinalizer(resources.IP_CLAIMS, claim.raw, ipam.CLAIM_FINALIZER)
    if not claim.is_range:
        held = {allocation.key: allocation for allocation in (*read, *catalogue.allocations_for(claim.id.uid))}
        frees = tuple(free(allocation, _rests_until(claim, allocation, catalogue, now)) for allocation in held.values())
        return Plan((*frees, drop))
    pool = catalogue.pool(claim.pool) if claim.pool else None
    if pool is None or _other_holders(claim, pool, catalogue):
        return Plan((drop,))
    inside = occupants(pool, catalogue)
    if not inside:
        return Plan((drop,))
    refusal = reasons.range_occupied(pool.key, inside)
    status = _kept_status(claim)
    status["conditions"] = [
        *(entry for entry in [condition(claim.raw, ipam.BOUND)] if entry),
        make(claim.raw, ipam.RELEASED, "False", refusal.reason, refusal.message, now),
    ]
    return Plan((_apply(claim, status),), waits=frozenset({for_vacancy(pool.key)}))


def _rests_until(claim: ClaimView, allocation: AllocationView, catalogue: Catalogue, now: datetime) -> str | None:
    """The end of the block's cooldown: by the class that the claim names, else the longest of its pool's classes."""
    named = catalogue.class_named(claim.id.namespace, claim.class_name) if claim.class_name else None
    seconds = named.cooldown if named else cooldown_of(allocation.pool, catalogue)
    return timestamp(now + timedelta(seconds=seconds)) if seconds else None


def _other_holders(claim: ClaimView, pool: PoolView, catalogue: Catalogue) -> bool:
    return any(other.id.uid != claim.id.uid and not other.id.going for other in catalogue.range_claims(pool.key))


def wants_range_of(claim: ClaimView, pool: PoolView) -> bool:
    """Whether a Range claim holds this pool, or took hold of it and is about to be told.

    One that merely would like to waits for the pool to go: the pool must not wait for it.
    """
    if not claim.is_range:
        return False
    return claim.pool == pool.key if claim.pool else pool.cidr is not None and claim.id.uid in pool.held_by


def occupants(pool: PoolView, catalogue: Catalogue) -> list[str]:
    """Who is inside a pool at any depth: claims, reservations of operators, and Range claims on pools below.

    A pool below that nobody uses does not count: it goes by itself.
    """
    inside = [
        f"claim {allocation.holder.namespace}/{allocation.holder.name}"
        for allocation in catalogue.allocations_in(pool.key)
        if allocation.purpose is Purpose.CLAIM and allocation.holder
    ]
    for child in catalogue.children(pool.key):
        inside += [f"range claim {holder.id}" for holder in catalogue.range_claims(child.key)]
        if child.made_for is None:
            inside.append(f"pool {child.id}")
        inside += occupants(child, catalogue)
    return inside
