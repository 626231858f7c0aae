"""Carrying out allocations at the API server: create-if-absent on a name, and nothing else is trusted."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final

from netclaim.api import managers, resources
from netclaim.api.meta import Key, Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists, ApiError, Conflict, Lost, NotFound, ServerError
from nso.ipam.blocks import Block
from nso.ipam.cascade import Offer
from nso.ipam.index import Space
from nso.ipam.ledger import Ledger
from nso.ipam.orphans import HOLDER_KINDS, holds
from nso.ipam.steps import Allocate, HoldPool
from nso.ipam.views import AllocationView, PoolView

log = logging.getLogger(__name__)

READS_APART: Final = 0.01
"""Seconds between two live reads of one pool while claims keep asking: more of them share each."""


class FreshPools:
    """Live reads of pools. Whoever asks gets a read that began after the question; those who ask at once share one."""

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client
        self._next: dict[Key, asyncio.Task[Raw | None]] = {}
        self._running: dict[Key, asyncio.Task[Raw | None]] = {}

    async def read(self, key: Key) -> Raw | None:
        """The pool as the API server holds it, None when it is gone.

        Raises:
            ApiError: the API server cannot be asked.
        """
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._get(key, self._running.get(key)))
        return await asyncio.shield(task)

    async def _get(self, key: Key, before: asyncio.Task[Raw | None] | None) -> Raw | None:
        if before is not None:
            await asyncio.wait([before])
            await asyncio.sleep(READS_APART)
        task = self._running[key] = self._next.pop(key)
        try:
            return await self._client.find(resources.IP_POOLS, *key)
        finally:
            if self._running.get(key) is task:
                del self._running[key]


class Allocator:
    """Creates IPAllocations where the index says that a block may be free."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._fresh = FreshPools(cluster)

    async def allocate(self, step: Allocate) -> AllocationView | None:
        """A block for the holder, durable when this returns; None when none was left, or its pool is going.

        A 409 means that the block is taken, whoever says so: the next candidate is tried. A cooling block is taken
        when nothing else is free.

        Raises:
            ApiError: the API server refused for another reason, or its answer was lost.
        """
        for offer in step.offers:
            if step.again and step.exact is not None:
                return await self._make_again(step, offer, step.exact)
            allocation = await self._create(step, offer)
            if allocation is None and step.exact is None:
                allocation = await self._rewarm(step, offer)
            if allocation is not None:
                return await self._confirm(offer, allocation)
        return None

    async def _make_again(self, step: Allocate, offer: Offer, block: Block) -> AllocationView | None:
        """The allocation of a block that its holder publishes; None when there is one of that name, or no holder.

        The stores may show an allocation gone long before they show that its holder went first.
        """
        try:
            raw = await self._cluster.create(
                resources.IP_ALLOCATIONS, step.to_raw(offer, block), guarded=True, field_manager=managers.IPAM
            )
        except AlreadyExists:
            return None
        allocation = AllocationView.of(raw)
        holder = await self._cluster.client.find(HOLDER_KINDS[step.purpose], *step.holder.key)
        if not holds(allocation, holder):
            await self.give_back(allocation)
            return None
        log.warning("the allocation of %s for %s was gone: made again", block, step.holder.key)
        return allocation

    async def hold(self, step: HoldPool) -> bool:
        """Write the claim's uid on the pool; False when the pool is going or gone."""
        identity = step.pool.id
        ops: list[Raw] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": identity.version},
            {"op": "add", "path": "/metadata/annotations", "value": step.pool.with_hold(step.claim_uid)},
        ]
        try:
            raw = await self._cluster.json_patch(
                resources.IP_POOLS, identity.namespace, identity.name, ops, guarded=True
            )
        except NotFound:
            return False
        return not PoolView.of(raw).going

    async def _create(self, step: Allocate, offer: Offer) -> AllocationView | None:
        space = self._space(offer)
        while (number := self._pick(step, space)) is not None:
            block = offer.shape.block(number)
            try:
                raw = await self._cluster.create(
                    resources.IP_ALLOCATIONS, step.to_raw(offer, block), guarded=True, field_manager=managers.IPAM
                )
            except AlreadyExists:
                log.debug("%s is taken, next candidate", block)
                space = self._space(offer)
            except ApiError as error:
                if not isinstance(error, Lost | ServerError):
                    space.give_back(number)
                raise
            else:
                return AllocationView.of(raw)
        return None

    def _pick(self, step: Allocate, space: Space) -> int | None:
        now = time.monotonic()
        if step.exact is None:
            return space.pick(step.strategy, now)
        return step.exact.number if space.pick_exact(step.exact.number, now) else None

    async def _rewarm(self, step: Allocate, offer: Offer) -> AllocationView | None:
        """Take the cooling block that would be free first, by an update of the very version that was seen."""
        space = self._space(offer)
        while (number := space.pick_cooling()) is not None:
            wanted = step.to_raw(offer, offer.shape.block(number))
            name: str = wanted["metadata"]["name"]
            raw = self._ledger.raw((offer.pool.id.namespace, name))
            space.leave_cooling(number)
            if raw is None:
                continue
            try:
                taken = await self._cluster.replace(
                    resources.IP_ALLOCATIONS, {**raw, "spec": wanted["spec"]}, guarded=True
                )
            except (Conflict, NotFound):
                continue
            return AllocationView.of(taken)
        return None

    async def _confirm(self, offer: Offer, allocation: AllocationView) -> AllocationView | None:
        """Undo when the pool turns out to be going (its removal did not see this allocation), or to have other spaces.

        The latter: this process saw its classes as they are no more, or not as they were.
        """
        raw = await self._fresh.read(offer.pool.key)
        if raw is not None and offer.is_open(PoolView.of(raw)):
            return allocation
        log.info("IPPool %s is going, or not as it was seen: %s is given back", offer.pool.id, allocation.block)
        await self.give_back(allocation)
        return None

    async def give_back(self, allocation: AllocationView) -> None:
        """Delete an allocation that was just made and did not become its holder's."""
        await self._cluster.delete_if_present(
            resources.IP_ALLOCATIONS, allocation.key, uid=allocation.id.uid, guarded=True
        )

    def _space(self, offer: Offer) -> Space:
        return self._ledger.index(offer.pool.key, offer.shape).space(offer.space)
