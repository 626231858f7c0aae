"""The stores as the planners ask them: classes, pools, claims and allocations by what a plan needs, never by a scan."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from netclaim.api import ipam, resources
from netclaim.api.meta import Key, Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.objects import uid_of
from netclaim.kube.reflector import Reflector
from netclaim.kube.store import Change
from nso.ipam.blocks import Block
from nso.ipam.catalogue import Room, Standing, selects
from nso.ipam.index import Purpose, Shape
from nso.ipam.ledger import Ledger
from nso.ipam.orphans import HOLDER_KINDS, holds
from nso.ipam.pools import Fill
from nso.ipam.views import AllocationView, ClaimView, ClassView, Malformed, PoolView
from nso.ipam.waiting import Wait, Waiting

BY_NAMESPACE = "ipam-namespace"
BY_PARENT = "ipam-parent"
BY_RANGE = "ipam-range"
OFFERED = "ipam-offered"
SHARED = "ipam-shared"

V = TypeVar("V")


def namespace_of(raw: Raw) -> Iterable[str]:
    """Index function: the namespace."""
    return (raw["metadata"]["namespace"],)


def offered_in(raw: Raw) -> Iterable[str]:
    """Index function: the namespace of a pool that an operator made."""
    return () if raw["spec"].get("madeFor") else namespace_of(raw)


def is_shared(raw: Raw) -> Iterable[str]:
    """Index function: "yes" for a pool that other projects may carve from."""
    return ("yes",) if raw["spec"].get("sharedWith") is not None else ()


def parent_of(raw: Raw) -> Iterable[Key]:
    """Index function: the pool that this one is carved from."""
    parent = raw["spec"].get("parentRef")
    return ((parent.get("namespace") or raw["metadata"]["namespace"], parent["name"]),) if parent else ()


def range_of(raw: Raw) -> Iterable[Key]:
    """Index function: the pool that a Range claim holds."""
    pool = (raw.get("status") or {}).get("poolRef")
    if not pool or raw["spec"].get("target") != ipam.TARGET_RANGE:
        return ()
    return ((pool.get("namespace") or raw["metadata"]["namespace"], pool["name"]),)


class Views(Generic[V]):
    """Objects of one store as views, each read once per version."""

    def __init__(self, reflector: Reflector, of: Callable[[Raw], V], **indexes: Callable[[Raw], Iterable[Hashable]]):
        self.store = reflector.store
        self._of = of
        self._seen: dict[Key, tuple[str, V]] = {}
        for name, fn in indexes.items():
            self.store.add_index(f"ipam-{name}", fn)
        self.store.subscribe(self._on_change)

    def get(self, key: Key) -> V | None:
        """The object, or None when it is not there or cannot be read."""
        raw = self.store.get(key)
        return self._view(raw) if raw else None

    def by(self, index: str, value: Hashable) -> list[V]:
        """The objects under an index."""
        return [view for raw in self.store.by(index, value) if (view := self._view(raw)) is not None]

    def _on_change(self, change: Change) -> None:
        if change.new is None:
            self._seen.pop(change.key, None)

    def _view(self, raw: Raw) -> V | None:
        meta = raw["metadata"]
        key, version = (meta.get("namespace") or "", meta["name"]), meta["resourceVersion"]
        seen = self._seen.get(key)
        if seen and seen[0] == version:
            return seen[1]
        try:
            view = self._of(raw)
        except Malformed:
            return None
        self._seen[key] = (version, view)
        return view


class Project:
    """A `Catalogue` over the stores of one IPAM control plane."""

    def __init__(self, cluster: Cluster, waiting: Waiting) -> None:
        self.cluster = cluster
        self.waiting = waiting
        self.class_reflector = cluster.reflect(resources.IP_CLASSES)
        self.pool_reflector = cluster.reflect(resources.IP_POOLS)
        self.claim_reflector = cluster.reflect(resources.IP_CLAIMS)
        self.allocation_reflector = cluster.reflect(resources.IP_ALLOCATIONS)
        self.namespace_reflector = cluster.reflect(resources.NAMESPACES)
        self.ledger = Ledger(self.allocation_reflector.store)
        self._classes = Views(self.class_reflector, ClassView.of, namespace=namespace_of)
        self._pools = Views(
            self.pool_reflector,
            PoolView.of,
            namespace=namespace_of,
            offered=offered_in,
            parent=parent_of,
            shared=is_shared,
        )
        self._claims = Views(self.claim_reflector, ClaimView.of, range=range_of)

    def class_named(self, namespace: str, name: str) -> ClassView | None:
        """See `Catalogue`."""
        return self._classes.get((namespace, name))

    def classes(self, namespace: str) -> Sequence[ClassView]:
        """See `Catalogue`."""
        return self._classes.by(BY_NAMESPACE, namespace)

    def pool(self, key: Key) -> PoolView | None:
        """See `Catalogue`."""
        return self._pools.get(key)

    def offered_pools(self, namespace: str) -> Sequence[PoolView]:
        """See `Catalogue`."""
        return self._pools.by(OFFERED, namespace)

    def children(self, pool: Key) -> Sequence[PoolView]:
        """See `Catalogue`."""
        return self._pools.by(BY_PARENT, pool)

    def room(self, pool: PoolView, shape: Shape, space: str) -> Room:
        """See `Catalogue`."""
        found = self.ledger.index(pool.key, shape).space(space)
        found.expire(time.monotonic())
        capacity = found.capacity
        used = capacity.total - capacity.available
        return Room(free=found.free, cooling=capacity.cooling, used=used, total=capacity.total)

    def standing(self, pool: PoolView, shape: Shape, space: str, block: Block) -> Standing:
        """See `Catalogue`."""
        found = self.ledger.index(pool.key, shape).space(space)
        found.expire(time.monotonic())
        if block.number in found.withheld:
            return "reserved"
        return "taken" if block.number in found.taken else "free"

    def ahead(self, wait: Wait, claim: ClaimView) -> int:
        """See `Catalogue`."""
        return self.waiting.ahead(wait, claim.since, claim.key, time.monotonic())

    def allocations_in(self, pool: Key) -> Sequence[AllocationView]:
        """See `Catalogue`."""
        return self.ledger.allocations_in(pool)

    def allocations_for(self, uid: str) -> Sequence[AllocationView]:
        """See `Catalogue`."""
        return self.ledger.allocations_for(uid)

    def range_claims(self, pool: Key) -> Sequence[ClaimView]:
        """See `Catalogue`."""
        return self._claims.by(BY_RANGE, pool)

    def claim(self, key: Key) -> ClaimView | None:
        """The claim, or None."""
        return self._claims.get(key)

    def shared_pools(self, namespace: str) -> Sequence[PoolView]:
        """See `Catalogue`."""
        shared = self._pools.by(SHARED, "yes")
        return [pool for pool in shared if pool.id.namespace != namespace and self.consents(pool, namespace)]

    def consents(self, pool: PoolView, namespace: str) -> bool:
        """See `Catalogue`."""
        if pool.shared_with is None:
            return False
        found = self.namespace_reflector.store.get(("", namespace))
        return found is not None and selects(pool.shared_with, found["metadata"].get("labels") or {})

    def unheld(self, raw: Raw) -> Iterable[Key]:
        """The allocation's key when it needs a look: it cools, or the stores show no holder that has it."""
        view = AllocationView.of(raw)
        kind = HOLDER_KINDS.get(view.purpose)
        if kind is None or view.holder is None:
            return () if view.purpose is Purpose.RESERVATION else (view.key,)
        return () if holds(view, self.cluster.store(kind).get(view.holder.key)) else (view.key,)

    def unheld_of(self, holder: Raw) -> Iterable[Key]:
        """Allocations that name this claim or pool, and are not (or no longer) its own."""
        return [key for view in self.allocations_for(uid_of(holder)) for key in self.unheld(view.raw)]

    def fill(self, pool: PoolView, shape: Shape) -> Fill:
        """How full the pool is, as its status shows it."""
        index = self.ledger.index(pool.key, shape)
        return Fill(index.fullest, index.used_spaces, shape.kind)
