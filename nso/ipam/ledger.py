"""The ledger: free-block indexes of all pools, kept up to date by the changes of the allocation store.

It adds nothing to what the store holds. An index is built when a pool is first asked for, built anew when the pool's
shape changes, and compared with the store from time to time by being forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from netclaim.api.meta import Key, Raw
from netclaim.kube.store import Change, Store
from nso.ipam.index import PoolIndex, Shape
from nso.ipam.views import AllocationView, Malformed

BY_POOL = "ipam-pool"
BY_HOLDER = "ipam-holder"


def pool_of(raw: Raw) -> Iterable[Key]:
    """Index function: the pool of an allocation."""
    return ((raw["metadata"]["namespace"], raw["spec"]["poolRef"]["name"]),)


def holder_uid_of(raw: Raw) -> Iterable[str]:
    """Index function: the uid of the claim or pool that holds an allocation."""
    holder = raw["spec"].get("claimRef")
    return (holder["uid"],) if holder else ()


class Ledger:
    """Indexes by pool. `subscribe` hears of every allocation that ceased to hold its block."""

    def __init__(self, allocations: Store) -> None:
        """Follow `allocations` from now on."""
        self._allocations = allocations
        self._indexes: dict[Key, PoolIndex] = {}
        self._listeners: list[Callable[[AllocationView], None]] = []
        allocations.add_index(BY_POOL, pool_of)
        allocations.add_index(BY_HOLDER, holder_uid_of)
        allocations.subscribe(self._on_change)

    def subscribe(self, listener: Callable[[AllocationView], None]) -> None:
        """Call `listener` with each allocation that no longer holds its block; the index shows it as free by then."""
        self._listeners.append(listener)

    def index(self, pool: Key, shape: Shape) -> PoolIndex:
        """The pool's index, built from the store when there is none for this shape."""
        known = self._indexes.get(pool)
        if known is None or known.shape != shape:
            found = sorted(self.allocations_in(pool), key=lambda view: (view.id.created, view.block))
            known = self._indexes[pool] = PoolIndex(shape, [view.entry for view in found])
        return known

    def forget(self, pool: Key) -> None:
        """Build the index anew when it is next asked for: the pool is gone, or it is time to compare."""
        self._indexes.pop(pool, None)

    def set_aside(self, allocation: AllocationView) -> None:
        """The allocation is gone and will be made again: for a while its block counts as tried, and nobody picks it."""
        index = self._indexes.get(allocation.pool)
        if index is not None and allocation.block.length == index.shape.length:
            index.space(allocation.space).pick_exact(allocation.block.number, time.monotonic())

    def raw(self, key: Key) -> Raw | None:
        """The allocation as the store holds it."""
        return self._allocations.get(key)

    def allocations_in(self, pool: Key) -> list[AllocationView]:
        """The pool's allocations that can be read."""
        return [view for raw in self._allocations.by(BY_POOL, pool) if (view := read(raw))]

    def allocations_for(self, uid: str) -> list[AllocationView]:
        """What a holder holds, oldest first."""
        held = [view for raw in self._allocations.by(BY_HOLDER, uid) if (view := read(raw))]
        return sorted(held, key=lambda view: view.id)

    def _on_change(self, change: Change) -> None:
        old = read(change.old) if change.old else None
        new = read(change.new) if change.new else None
        if old and new and old.entry == new.entry and old.holder == new.holder:
            return
        if old and (index := self._indexes.get(old.pool)):
            index.drop(old.entry)
        if new and (index := self._indexes.get(new.pool)):
            index.hold(new.entry)
        if old and (new is None or old.holder != new.holder):
            for listener in self._listeners:
                listener(old)


def read(raw: Raw) -> AllocationView | None:
    """The allocation, or None when it cannot be read: its controller says so, the index cannot count it."""
    try:
        return AllocationView.of(raw)
    except Malformed:
        return None
