"""Who waits for what: claims that could not be served, oldest first, and the event that each is woken by. Pure.

Kept in memory only: after a restart every pending claim is looked at once and waits again.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from netclaim.api.meta import Key

Wait = tuple[str, ...]
"""What is waited for; made by the functions below, and otherwise only compared."""

Since = tuple[str, str]
"""(creationTimestamp, name) of who waits: the order of being served."""

TURN: Final = 2.0
"""Seconds for which a woken claim's place in the queue keeps younger ones back."""


def for_space(pool: Key, space: str) -> Wait:
    """Any free block of a space of a pool."""
    return ("space", *pool, space)


def for_block(pool: Key, space: str, block: str) -> Wait:
    """One very block."""
    return ("block", *pool, space, block)


def for_pool(pool: Key) -> Wait:
    """A change of a pool: carved, ready, gone."""
    return ("pool", *pool)


def for_vacancy(pool: Key) -> Wait:
    """Somebody leaves a pool, at any depth."""
    return ("vacancy", *pool)


def for_project(namespace: str) -> Wait:
    """Any change of a class or of an operator's pool in a project."""
    return ("project", namespace)


@dataclass(slots=True)
class _Waiter:
    since: Since
    waits: frozenset[Wait]
    woken: float | None = None


@dataclass(slots=True)
class Waiting:
    """The queues, each in the order of age. Times are monotonic seconds."""

    _waiters: dict[Key, _Waiter] = field(default_factory=dict)
    _queues: dict[Wait, list[tuple[Since, Key]]] = field(default_factory=dict)
    _turns: deque[tuple[float, Key]] = field(default_factory=deque)

    def __len__(self) -> int:
        """How many wait for something."""
        return len(self._waiters)

    def put(self, key: Key, since: Since, waits: AbstractSet[Wait]) -> None:
        """`key` waits for these from now on, and for nothing else."""
        self.remove(key)
        if not waits:
            return
        self._waiters[key] = _Waiter(since, frozenset(waits))
        for wait in waits:
            insort(self._queues.setdefault(wait, []), (since, key))

    def remove(self, key: Key) -> None:
        """`key` waits no longer."""
        waiter = self._waiters.pop(key, None)
        if waiter:
            self._leave_queues(key, waiter)

    def all_in(self, namespace: str) -> list[Key]:
        """Everyone of a namespace who waits, oldest first."""
        return [key for _, key in self._queues.get(for_project(namespace), ())]

    @property
    def projects(self) -> list[str]:
        """The namespaces in which somebody waits."""
        return [wait[1] for wait in self._queues if wait[0] == "project"]

    def those_for(self, wait: Wait) -> list[Key]:
        """Everyone who waits for this, oldest first, whether it is their turn or not."""
        return [key for _, key in self._queues.get(wait, ())]

    def wake(self, wait: Wait, now: float, count: int | None = None) -> list[Key]:
        """Those whose turn it is, oldest first: at most `count`, all when None. They keep their place for `TURN`.

        One that was woken less than `TURN` ago is not counted again.
        """
        self._expire_turns(now)
        chosen: list[Key] = []
        for _, key in self._queues.get(wait, ()):
            if count is not None and len(chosen) >= count:
                break
            if self._waiters[key].woken is None:
                chosen.append(key)
        for key in chosen:
            self._waiters[key].woken = now
            self._turns.append((now, key))
        return chosen

    def ahead(self, wait: Wait, since: Since, key: Key, now: float) -> int:
        """How many older ones have a right to a block before this one.

        One that had its turn and did not come for it holds nobody up.
        """
        self._expire_turns(now)
        return bisect_left(self._queues.get(wait, []), (since, key))

    def _expire_turns(self, now: float) -> None:
        while self._turns and now - self._turns[0][0] >= TURN:
            moment, key = self._turns.popleft()
            waiter = self._waiters.get(key)
            if waiter and waiter.woken == moment:
                self._leave_queues(key, waiter)
                waiter.waits = frozenset()

    def _leave_queues(self, key: Key, waiter: _Waiter) -> None:
        for wait in waiter.waits:
            queue = self._queues[wait]
            del queue[bisect_left(queue, (waiter.since, key))]
            if not queue:
                del self._queues[wait]
