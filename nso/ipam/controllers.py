"""The four controllers, one per kind: observe the stores, plan, apply. What wakes whom is in `wakes`."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from netclaim.api import ipam, managers, resources
from netclaim.api.conditions import make, timestamp
from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube.apply import differs, execute
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import Conflict, Invalid, NotFound
from netclaim.kube.events import EventRecorder
from netclaim.kube.objects import uid_of
from netclaim.kube.writes import ApplyStatus, Owned, Write
from nso.ipam import claims, classes, pools, reasons
from nso.ipam.allocator import Allocator
from nso.ipam.cascade import cooldown_of, is_judged, shape_of
from nso.ipam.index import Purpose, Shape
from nso.ipam.orphans import HOLDER_KINDS, Suspects, holds
from nso.ipam.project import Project
from nso.ipam.steps import Allocate, HoldPool, Plan, free
from nso.ipam.views import AllocationView, ClaimView, ClassView, Malformed, PoolView, epoch
from nso.ipam.waiting import Waiting

log = logging.getLogger(__name__)

SOON: Final = 0.05
"""Seconds after which a plan is made again that the API server has overtaken."""

REPLANS: Final = 3
"""Plans that one reconcile makes when its allocations come to nothing, before it lets others go first."""

REMOVAL_GRACE: Final = 2.0
"""Seconds between the announcement of a pool's removal and the live list that decides it."""

STATUS_EVERY: Final = 1.0
"""Seconds between two writes of a pool's counters."""


def utcnow() -> datetime:
    """The time that conditions and ages are counted in."""
    return datetime.now(UTC)


class Classes:
    """IPClass.status."""

    def __init__(self, cluster: Cluster, project: Project) -> None:
        self._cluster = cluster
        self._project = project

    async def reconcile(self, key: Key) -> float | None:
        """Say whether the class can be used."""
        raw = self._project.class_reflector.store.get(key)
        if raw is None:
            return None
        try:
            cls = ClassView.of(raw)
        except Malformed as error:
            await execute(self._cluster, [malformed(resources.IP_CLASSES, raw, ipam.ACCEPTED, error)])
            return None
        await execute(self._cluster, classes.plan(cls, raw, self._project, utcnow()))
        return None


class Claims:
    """IPClaims: allocate and release."""

    def __init__(
        self,
        cluster: Cluster,
        project: Project,
        allocator: Allocator,
        recorder: EventRecorder | None,
    ) -> None:
        self._cluster = cluster
        self._project = project
        self._allocator = allocator
        self._recorder = recorder

    async def reconcile(self, key: Key) -> float | None:
        """Bring one claim a step further; everything that it waits for is noted in `waiting`."""
        waiting = self._project.waiting
        for _ in range(REPLANS):
            raw = self._project.claim_reflector.store.get(key)
            if raw is None:
                waiting.remove(key)
                return None
            try:
                claim = ClaimView.of(raw)
            except Malformed as error:
                await execute(self._cluster, [malformed(resources.IP_CLAIMS, raw, ipam.BOUND, error)])
                return None
            plan = claims.plan(claim, self._project, utcnow(), await self._read(claim))
            waiting.put(key, claim.since, plan.waits)
            if await self._carry_out(claim, plan):
                return plan.again
        return SOON

    async def _carry_out(self, claim: ClaimView, plan: Plan) -> bool:
        """Whether the plan was carried out; False when the world turned out to be another."""
        for step in plan.steps:
            match step:
                case Allocate():
                    if not await self._allocate(claim, step):
                        return False
                case HoldPool():
                    if not await self._allocator.hold(step):
                        return False
                case _:
                    await execute(self._cluster, [step], self._recorder)
        return True

    async def _allocate(self, claim: ClaimView, step: Allocate) -> bool:
        allocation = await self._allocator.allocate(step)
        if allocation is None:
            return claim.cidr is not None and await self._settle(claim)
        write = claims.bound(claim, allocation.block, allocation.pool, allocation.key, utcnow())
        metadata = {"namespace": claim.id.namespace, "name": claim.id.name, "resourceVersion": claim.id.version}
        try:
            await self._cluster.apply_status(
                resources.IP_CLAIMS, {"metadata": metadata, "status": write.status}, manager=managers.IPAM
            )
        except (Conflict, Invalid, NotFound):
            if await self._is_still_for(claim, allocation):
                raise
            log.info("claim %s was bound to another block meanwhile: %s is given back", claim.id, allocation.block)
            await self._allocator.give_back(allocation)
        return True

    async def _is_still_for(self, claim: ClaimView, allocation: AllocationView) -> bool:
        """By a live read: whether the claim is the same, wants a block, and has not got another."""
        raw = await self._cluster.client.find(resources.IP_CLAIMS, *claim.key)
        if raw is None:
            return False
        live = ClaimView.of(raw)
        return live.id.uid == claim.id.uid and not live.id.going and live.cidr in {None, allocation.block}

    async def _settle(self, claim: ClaimView) -> bool:
        """A bound claim's block is taken: by itself, which is fine, or by another, which is told."""
        if claim.cidr is None or claim.allocation is None:
            return False
        raw = await self._cluster.client.find(resources.IP_ALLOCATIONS, *claim.allocation)
        if raw is None:
            return False
        held = AllocationView.of(raw)
        if held.holder is None or held.holder.uid != claim.id.uid:
            lost = claims.lost(claim, claim.cidr, claim.allocation, utcnow())
            await self._carry_out(claim, lost)
        return True

    async def _read(self, claim: ClaimView) -> Sequence[AllocationView]:
        """For a claim that goes: its allocation by a live read, when the store does not show it."""
        if not claim.id.going or claim.is_range or claim.allocation is None:
            return ()
        if ipam.CLAIM_FINALIZER not in claim.id.finalizers or self._project.allocations_for(claim.id.uid):
            return ()
        raw = await self._cluster.client.find(resources.IP_ALLOCATIONS, *claim.allocation)
        if raw is None:
            return ()
        found = AllocationView.of(raw)
        return (found,) if found.holder and found.holder.uid == claim.id.uid else ()


class Pools:
    """IPPools: Ready, counters, the carve, and removal."""

    def __init__(
        self,
        cluster: Cluster,
        project: Project,
        allocator: Allocator,
        waiting: Waiting,
        *,
        linger: float,
        grace: float,
    ) -> None:
        self._cluster = cluster
        self._project = project
        self._allocator = allocator
        self._waiting = waiting
        self._linger = linger
        self._grace = grace
        self._idle_since: dict[str, float] = {}
        self._written: dict[str, float] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Bring one pool a step further."""
        raw = self._project.pool_reflector.store.get(key)
        if raw is None:
            self._forget(key)
            return None
        try:
            pool = PoolView.of(raw)
        except Malformed as error:
            await execute(self._cluster, [malformed(resources.IP_POOLS, raw, ipam.READY, error)])
            return None
        if pool.going:
            return await self._remove(pool)
        plan = await self._plan(pool)
        self._waiting.put(key, pool.since, plan.waits)
        again = await self._carry_out(pool, plan)
        idle = await self._watch_idleness(pool)
        return min((delay for delay in (again, idle) if delay is not None), default=None)

    async def _plan(self, pool: PoolView) -> Plan:
        fill, now = self._fill(pool), utcnow()
        if not pool.is_root:
            return pools.plan_child(pool, fill, self._project, now)
        others: Sequence[PoolView] = [
            other for other in self._project.offered_pools(pool.id.namespace) if other.is_root
        ]
        if not pool.ready or pool.cidr != pool.wanted:
            # About to offer a range: what the store does not show yet counts too.
            listed = await self._cluster.client.list(resources.IP_POOLS, pool.id.namespace)
            others = [other for raw in listed if (other := PoolView.of(raw)).is_root]
        return pools.plan_root(pool, others, fill, self._project, now)

    def _fill(self, pool: PoolView) -> pools.Fill | None:
        shape = shape_of(pool, self._project)
        return self._project.fill(pool, shape) if isinstance(shape, Shape) else None

    async def _carry_out(self, pool: PoolView, plan: Plan) -> float | None:
        for step in plan.steps:
            match step:
                case Allocate():
                    return await self._carve(pool, step)
                case ApplyStatus():
                    delay = await self._write_status(pool, step)
                    if delay is not None:
                        return delay
                case HoldPool():
                    raise AssertionError("a pool's plan holds no pool")
                case _:
                    await execute(self._cluster, [step])
        return plan.again

    async def _carve(self, pool: PoolView, step: Allocate) -> float | None:
        allocation = await self._allocator.allocate(step)
        if allocation is None:
            return SOON
        if step.again:
            return SOON
        try:
            fill = self._fill(replace(pool, cidr=allocation.block))
            await execute(self._cluster, [pools.carved(pool, allocation.block, fill, utcnow())])
        except (Conflict, Invalid):
            raw = await self._cluster.client.find(resources.IP_POOLS, *pool.key)
            live = None if raw is None or uid_of(raw) != pool.id.uid else PoolView.of(raw)
            if live and (live.cidr == allocation.block or (live.cidr is None and not live.going)):
                raise
            await self._allocator.give_back(allocation)
        return None

    async def _write_status(self, pool: PoolView, write: ApplyStatus) -> float | None:
        """Write at once what others act on, counters at most once in `STATUS_EVERY`; else seconds until they may be."""
        if not differs(pool.raw.get("status") or {}, write.status, write.owns):
            return None
        settled = pool.ready and write.status.get("cidr") == str(pool.cidr) and is_judged(pool)
        rest = self._written.get(pool.id.uid, 0.0) + STATUS_EVERY - time.monotonic()
        if settled and rest > 0:
            return rest
        self._written[pool.id.uid] = time.monotonic()
        await execute(self._cluster, [write])
        return None

    async def _watch_idleness(self, pool: PoolView) -> float | None:
        """Announce the removal of a pool that nobody has used for as long as it may linger."""
        if not pools.is_idle(pool, self._project):
            self._idle_since.pop(pool.id.uid, None)
            return None
        since = self._idle_since.setdefault(pool.id.uid, time.monotonic())
        rest = since + self._linger - time.monotonic()
        if rest > 0:
            return rest
        if pools.is_bare(pool, self._project):
            await execute(self._cluster, [pools.mark(pool, utcnow())])
        return None

    async def _remove(self, pool: PoolView) -> float | None:
        """Both halves of a removal: delete a pool that was announced, free the carve of one that is deleted."""
        self._waiting.remove(pool.key)
        self._idle_since.pop(pool.id.uid, None)
        since = pool.removing or pool.raw["metadata"]["deletionTimestamp"]
        rest = epoch(since) + self._grace - time.time()
        if rest > 0:
            return rest
        inside = await self._live(pool)
        now = utcnow()
        if pool.id.going:
            plan = pools.plan_removal(pool, inside, self._fill(pool), self._project, now)
        else:
            plan = pools.plan_marked(pool, inside)
        return await self._carry_out(pool, plan)

    async def _live(self, pool: PoolView) -> pools.Rest:
        """What is inside a pool by a live list: nothing else is trusted to let its addresses go."""
        client = self._cluster.client
        listed = [AllocationView.of(raw) for raw in await client.list(resources.IP_ALLOCATIONS, pool.id.namespace)]
        wanted = [ClaimView.of(raw) for raw in await client.list(resources.IP_CLAIMS, pool.id.namespace)]
        return pools.rest_of(pool, listed, wanted, self._project)

    def _forget(self, key: Key) -> None:
        self._project.ledger.forget(key)
        self._waiting.remove(key)


def malformed(resource: Resource, raw: Raw, condition: str, error: Malformed) -> Write:
    """The condition of an object that cannot be read: it stops nothing but itself."""
    meta = raw["metadata"]
    owned = Owned(fields=frozenset(), conditions=frozenset({condition}))
    status = {"conditions": [make(raw, condition, "False", reasons.MALFORMED, str(error), utcnow())]}
    return ApplyStatus(resource, (meta.get("namespace") or "", meta["name"]), status, managers.IPAM, owned)


class Allocations:
    """IPAllocations: cooling blocks at their time, and those whose holder is gone, seen twice by live reads."""

    def __init__(self, cluster: Cluster, project: Project, *, grace: float) -> None:
        self._cluster = cluster
        self._project = project
        self._suspects = Suspects(grace)

    async def reconcile(self, key: Key) -> float | None:
        """Release what nobody holds."""
        raw = self._project.allocation_reflector.store.get(key)
        if raw is None:
            return None
        allocation = AllocationView.of(raw)
        if allocation.purpose is Purpose.COOLING:
            return await self._end_cooling(allocation)
        kind = HOLDER_KINDS.get(allocation.purpose)
        return await self._look_for_holder(allocation, kind) if kind else None

    async def _end_cooling(self, allocation: AllocationView) -> float | None:
        rest = allocation.release_at - time.time()
        if rest > 0:
            return rest
        await self._delete(allocation)
        return None

    async def _look_for_holder(self, allocation: AllocationView, kind: Resource) -> float | None:
        if holds(allocation, self._stored(allocation, kind)) or holds(allocation, await self._live(allocation, kind)):
            self._suspects.clear(allocation)
            return None
        rest = self._suspects.wait(allocation, time.monotonic())
        if rest > 0:
            return rest
        log.warning("%s of %s has no holder any more: released", allocation.block, allocation.id)
        cooldown = cooldown_of(allocation.pool, self._project) if allocation.purpose is Purpose.CLAIM else 0.0
        if cooldown:
            await execute(self._cluster, [free(allocation, timestamp(utcnow() + timedelta(seconds=cooldown)))])
        else:
            await self._delete(allocation)
        self._suspects.clear(allocation)
        return None

    def _stored(self, allocation: AllocationView, kind: Resource) -> Raw | None:
        return self._cluster.store(kind).get(allocation.holder.key) if allocation.holder else None

    async def _live(self, allocation: AllocationView, kind: Resource) -> Raw | None:
        if allocation.holder is None:
            return None
        return await self._cluster.client.find(kind, *allocation.holder.key)

    async def _delete(self, allocation: AllocationView) -> None:
        await self._cluster.delete_if_present(
            resources.IP_ALLOCATIONS,
            allocation.key,
            uid=allocation.id.uid,
            resource_version=allocation.id.version,
            guarded=True,
        )
