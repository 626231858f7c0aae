"""A project's objects at one moment, from lists: the same catalogue as the stores give, for checks and for tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from netclaim.api.meta import Key, Raw
from nso.ipam.blocks import Block
from nso.ipam.catalogue import Room, Standing, selects
from nso.ipam.index import PoolIndex, Shape
from nso.ipam.views import AllocationView, ClaimView, ClassView, Malformed, PoolView
from nso.ipam.waiting import Wait, Waiting

V = TypeVar("V")


class Snapshot:
    """A `Catalogue` over lists of raw objects; those that cannot be read are in `malformed`, with the reason.

    `namespaces`: labels by namespace. `waiting` and `now` (monotonic seconds) matter to planners only.
    """

    def __init__(
        self,
        *,
        classes: Iterable[Raw] = (),
        pools: Iterable[Raw] = (),
        claims: Iterable[Raw] = (),
        allocations: Iterable[Raw] = (),
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        waiting: Waiting | None = None,
        now: float = 0.0,
    ) -> None:
        self.malformed: list[tuple[Raw, str]] = []
        self.class_views = {view.id.key: view for view in self._read(classes, ClassView.of)}
        self.pool_views = {view.key: view for view in self._read(pools, PoolView.of)}
        self.claim_views = {view.key: view for view in self._read(claims, ClaimView.of)}
        self.allocation_views = {view.key: view for view in self._read(allocations, AllocationView.of)}
        self._namespaces = namespaces or {}
        self._waiting = waiting or Waiting()
        self._now = now
        self._in_pool: dict[Key, list[AllocationView]] = defaultdict(list)
        self._by_holder: dict[str, list[AllocationView]] = defaultdict(list)
        for view in sorted(self.allocation_views.values(), key=lambda view: view.id):
            self._in_pool[view.pool].append(view)
            if view.holder:
                self._by_holder[view.holder.uid].append(view)

    def _read(self, objects: Iterable[Raw], of: Callable[[Raw], V]) -> list[V]:
        views = []
        for raw in objects:
            try:
                views.append(of(raw))
            except Malformed as error:
                self.malformed.append((raw, str(error)))
        return views

    def class_named(self, namespace: str, name: str) -> ClassView | None:
        """See `Catalogue`."""
        return self.class_views.get((namespace, name))

    def classes(self, namespace: str) -> Sequence[ClassView]:
        """See `Catalogue`."""
        return [view for view in self.class_views.values() if view.id.namespace == namespace]

    def pool(self, key: Key) -> PoolView | None:
        """See `Catalogue`."""
        return self.pool_views.get(key)

    def offered_pools(self, namespace: str) -> Sequence[PoolView]:
        """See `Catalogue`."""
        return [pool for pool in self.pool_views.values() if pool.id.namespace == namespace and not pool.made_for]

    def children(self, pool: Key) -> Sequence[PoolView]:
        """See `Catalogue`."""
        return [child for child in self.pool_views.values() if child.parent == pool]

    def index(self, pool: Key, shape: Shape) -> PoolIndex:
        """The pool's index, built from the allocations."""
        return PoolIndex(shape, [view.entry for view in self._in_pool[pool]])

    def room(self, pool: PoolView, shape: Shape, space: str) -> Room:
        """See `Catalogue`."""
        found = self.index(pool.key, shape).space(space)
        capacity = found.capacity
        used = capacity.total - capacity.available
        return Room(free=found.free, cooling=capacity.cooling, used=used, total=capacity.total)

    def standing(self, pool: PoolView, shape: Shape, space: str, block: Block) -> Standing:
        """See `Catalogue`."""
        found = self.index(pool.key, shape).space(space)
        if block.number in found.withheld:
            return "reserved"
        return "taken" if block.number in found.taken else "free"

    def ahead(self, wait: Wait, claim: ClaimView) -> int:
        """See `Catalogue`."""
        return self._waiting.ahead(wait, claim.since, claim.key, self._now)

    def allocations_in(self, pool: Key) -> Sequence[AllocationView]:
        """See `Catalogue`."""
        return self._in_pool[pool]

    def allocations_for(self, uid: str) -> Sequence[AllocationView]:
        """See `Catalogue`."""
        return self._by_holder[uid]

    def range_claims(self, pool: Key) -> Sequence[ClaimView]:
        """See `Catalogue`."""
        return [claim for claim in self.claim_views.values() if claim.is_range and claim.pool == pool]

    def shared_pools(self, namespace: str) -> Sequence[PoolView]:
        """See `Catalogue`."""
        others = (pool for pool in self.pool_views.values() if pool.id.namespace != namespace)
        return [pool for pool in others if self.consents(pool, namespace)]

    def consents(self, pool: PoolView, namespace: str) -> bool:
        """See `Catalogue`."""
        return pool.shared_with is not None and selects(pool.shared_with, self._namespaces.get(namespace, {}))
