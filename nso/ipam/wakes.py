"""Who is looked at again when something changes: the events behind every wait, and the marks that keep it cheap."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from netclaim.api import ipam
from netclaim.api.meta import Key, Raw
from netclaim.kube.controller import Controller
from netclaim.kube.objects import key_of, uid_of
from netclaim.kube.predicates import Predicate, changed_meta_or_spec, status_changed
from netclaim.kube.store import Change
from nso.ipam.claims import occupants
from nso.ipam.index import Purpose
from nso.ipam.ledger import pool_of
from nso.ipam.orphans import HOLDER_KINDS, holds
from nso.ipam.project import BY_NAMESPACE, BY_PARENT, Project, range_of
from nso.ipam.views import AllocationView
from nso.ipam.waiting import Waiting, for_block, for_pool, for_space, for_vacancy

COALESCE: Final = 0.2
"""Seconds in which many changes inside a pool become one look at it."""

MAX_DEPTH: Final = 16

pool_usable_changed: Final[Predicate] = changed_meta_or_spec | status_changed(
    lambda raw: [
        (raw.get("status") or {}).get("cidr"),
        (raw.get("status") or {}).get("blocks"),
        [
            (condition.get("status"), condition.get("reason"))
            for condition in (raw.get("status") or {}).get("conditions") or ()
            if condition["type"] == ipam.READY
        ],
    ]
)
"""Of a pool: everything but its counters."""

claim_changed: Final[Predicate] = changed_meta_or_spec | status_changed(
    lambda raw: [
        (raw.get("status") or {}).get(name) for name in ("phase", "cidr", "gateway", "poolRef", "allocationRef")
    ]
)
"""Of a claim: everything but the words of its conditions."""


class Wakes:
    """Subscriptions to the stores. `pool_waiting` holds pools that wait (for a parent, for a block)."""

    def __init__(
        self, project: Project, pool_waiting: Waiting, *, classes: Controller, pools: Controller, claims: Controller
    ) -> None:
        self._project = project
        self._pool_waiting = pool_waiting
        self._classes = classes
        self._pools = pools
        self._claims = claims
        project.class_reflector.store.subscribe(self._on_class)
        project.pool_reflector.store.subscribe(self._on_pool)
        project.claim_reflector.store.subscribe(self._on_claim)
        project.allocation_reflector.store.subscribe(self._on_allocation)
        project.namespace_reflector.store.subscribe(self._on_namespace)
        project.ledger.subscribe(self._on_freed)

    def project_changed(self, namespace: str) -> None:
        """A class or an operator's pool changed: everyone who waits in the project looks again, oldest first."""
        for key in self._project.waiting.all_in(namespace):
            self._claims.enqueue(key)

    def _on_class(self, change: Change) -> None:
        if change.initial or not _counts(change, changed_meta_or_spec):
            return
        namespace = change.key[0]
        for controller, reflector in (
            (self._classes, self._project.class_reflector),
            (self._pools, self._project.pool_reflector),
        ):
            for raw in reflector.store.by(BY_NAMESPACE, namespace):
                controller.enqueue(key_of(raw))
        self.project_changed(namespace)

    def _on_pool(self, change: Change) -> None:
        if change.initial or not _counts(change, pool_usable_changed):
            return
        self._wake_all(for_pool(change.key))
        for raw in self._project.pool_reflector.store.by(BY_PARENT, change.key):
            self._pools.enqueue(key_of(raw))
        raw = change.new or change.old or {}
        if not raw["spec"].get("madeFor"):
            for other in self._project.offered_pools(change.key[0]):
                if other.key != change.key:
                    self._pools.enqueue(other.key)
            self.project_changed(change.key[0])
        if raw["spec"].get("sharedWith") is not None or (change.old and change.old["spec"].get("sharedWith")):
            for namespace in self._project.waiting.projects:
                self.project_changed(namespace)
        if change.new is None:
            self._vacated(change.key, raw)

    def _on_claim(self, change: Change) -> None:
        if change.initial:
            return
        for pool in {key for raw in (change.old, change.new) if raw for key in range_of(raw)}:
            if change.new is None or change.old is None or _is_going(change.old) != _is_going(change.new):
                self._left(pool)
        if change.new is None and change.old is not None:
            for allocation in self._project.allocations_for(uid_of(change.old)):
                self._touch(allocation.pool)

    def _on_allocation(self, change: Change) -> None:
        if change.initial:
            return
        for raw in (change.old, change.new):
            for pool in pool_of(raw) if raw else ():
                self._pools.enqueue(pool, COALESCE)

    def _on_namespace(self, change: Change) -> None:
        if change.initial or (change.old and change.new and not changed_meta_or_spec(change.old, change.new)):
            return
        for key in self._pool_waiting.all_in(change.key[1]):
            self._pools.enqueue(key)
        # Its labels may be what the owner of a pool consents to.
        self.project_changed(change.key[1])

    def _on_freed(self, allocation: AllocationView) -> None:
        """A block has no holder now: its own waiter first, then the oldest of its space.

        When it was taken from a claim or a pool that still lives on it (by hand), nobody else is served: its holder
        takes it again.
        """
        if self._taken_from_holder(allocation):
            self._project.ledger.set_aside(allocation)
            return
        if allocation.purpose is Purpose.RESERVATION:
            self._serve(allocation.pool, allocation.space, count=None)
            for raw in self._project.pool_reflector.store.by(BY_PARENT, allocation.pool):
                self._pools.enqueue(key_of(raw))
            self.project_changed(allocation.id.namespace)
            return
        self._wake_all(for_block(allocation.pool, allocation.space, allocation.block.hex))
        self._serve(allocation.pool, allocation.space, count=1)
        self._left(allocation.pool)

    def _taken_from_holder(self, allocation: AllocationView) -> bool:
        if allocation.holder is None or allocation.purpose not in HOLDER_KINDS:
            return False
        is_carve = allocation.purpose is Purpose.CARVE
        reflector = self._project.pool_reflector if is_carve else self._project.claim_reflector
        holder = reflector.store.get(allocation.holder.key)
        if holder is None or not holds(allocation, holder) or (_is_going(holder) and not self._is_lived_in(holder)):
            return False
        (self._pools if is_carve else self._claims).enqueue(allocation.holder.key)
        return True

    def _is_lived_in(self, holder: Raw) -> bool:
        """Whether a pool (a claim never is) that goes has somebody inside: its carve is not IPAM's to free yet."""
        pool = self._project.pool(key_of(holder))
        return pool is not None and pool.id.uid == uid_of(holder) and bool(occupants(pool, self._project))

    def _serve(self, pool: Key, space: str, *, count: int | None) -> None:
        wait, now = for_space(pool, space), time.monotonic()
        for key in self._pool_waiting.wake(wait, now, count):
            self._pools.enqueue(key)
        for key in self._project.waiting.wake(wait, now, count):
            self._claims.enqueue(key)

    def _wake_all(self, wait: tuple[str, ...]) -> None:
        now = time.monotonic()
        for key in self._pool_waiting.wake(wait, now):
            self._pools.enqueue(key)
        for key in self._project.waiting.wake(wait, now):
            self._claims.enqueue(key)

    def _left(self, pool: Key) -> None:
        """Somebody left a pool: it and the pools above it may be empty now."""
        for key in self._upwards(pool):
            self._pools.enqueue(key, COALESCE)
            for waiter in self._project.waiting.those_for(for_vacancy(key)):
                self._claims.enqueue(waiter, COALESCE)

    def _touch(self, pool: Key) -> None:
        self._pools.enqueue(pool, COALESCE)

    def _vacated(self, pool: Key, raw: Raw) -> None:
        parent = raw["spec"].get("parentRef")
        if parent:
            self._left((parent.get("namespace") or pool[0], parent["name"]))

    def _upwards(self, pool: Key) -> Iterable[Key]:
        key: Key | None = pool
        for _ in range(MAX_DEPTH):
            if key is None:
                return
            yield key
            view = self._project.pool(key)
            key = view.parent if view else None


def _counts(change: Change, predicate: Predicate) -> bool:
    return change.old is None or change.new is None or predicate(change.old, change.new)


def _is_going(raw: Raw) -> bool:
    return bool(raw["metadata"].get("deletionTimestamp"))
