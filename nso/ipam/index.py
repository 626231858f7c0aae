"""The free-block index: which block of a pool to try next. Pure, in memory, and only ever a guess.

Truth is the IPAllocation objects: creating one is the allocation, and the API server refuses a second of the same
name. The index is built from those objects and from nothing else. A number that was just tried counts as taken for
`PATIENCE` seconds, so that a create in flight is not tried twice; when no object shows up by then it is free again,
which is how an index that was wrong heals.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from nso.ipam.blocks import Block
from nso.ipam.blockset import BlockSet, Intervals

PATIENCE: Final = 10.0
"""Seconds for which a block that was tried counts as taken although no object shows it yet."""


class Purpose(StrEnum):
    """What an IPAllocation is for."""

    CLAIM = "Claim"
    CARVE = "Carve"
    RESERVATION = "Reservation"
    COOLING = "Cooling"


class Strategy(StrEnum):
    """Where the search for a free block starts."""

    NEXT_FIT = "NextFit"
    FIRST_FIT = "FirstFit"
    RANDOM = "Random"


@dataclass(frozen=True, slots=True)
class Kind:
    """What makes an allocation's name unique in a pool: all blocks are of one length, in spaces of the same roles."""

    length: int
    unique_within: tuple[str, ...] = ()

    def __str__(self) -> str:
        """`/32 once in each network`, `/96 once in the project`."""
        space = f"each {', '.join(self.unique_within)}" if self.unique_within else "the project"
        return f"/{self.length} once in {space}"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pool hands out: blocks of `length` out of `cidr`, but for those in `withheld` (block numbers).

    Each block once for each of the address spaces that the scope roles `unique_within` separate.
    """

    cidr: Block
    length: int
    withheld: tuple[tuple[int, int], ...] = ()
    unique_within: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """What a pool keeps for its whole life, whatever becomes of its range."""
        return Kind(self.length, self.unique_within)

    @property
    def bounds(self) -> tuple[int, int]:
        """Numbers [start, end) of the pool's blocks."""
        return self.cidr.numbers(self.length)

    def block(self, number: int) -> Block:
        """The block with that number."""
        return Block.numbered(self.cidr.family, self.length, number)


@dataclass(frozen=True, slots=True)
class Entry:
    """One IPAllocation as the index counts it. `release_at` (seconds since the epoch) is for cooling blocks."""

    block: Block
    space: str
    purpose: Purpose
    release_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Capacity:
    """Blocks of one space: `total` is always the sum of the other four."""

    total: int
    allocated: int
    reserved: int
    cooling: int
    available: int


@dataclass(slots=True)
class Space:
    """The blocks of one address space of a pool. Numbers in, numbers out."""

    start: int
    end: int
    withheld: Intervals
    taken: BlockSet = field(default_factory=BlockSet)
    cooling: dict[int, float] = field(default_factory=dict)
    held: int = 0
    withheld_but_held: int = 0
    _tried: dict[int, float] = field(default_factory=dict)
    _deadlines: deque[tuple[float, int]] = field(default_factory=deque)
    _cooling_order: list[tuple[float, int]] = field(default_factory=list)
    _last: int = -1

    def hold(self, number: int, *, release_at: float | None = None) -> None:
        """Count an existing allocation: cooling until `release_at`, else in use. A known one may change its kind."""
        if number in self._tried:
            del self._tried[number]
            self._count(number, 1)
        elif self.taken.add(number):
            self._last = number
            self._count(number, 1)
        self.cooling.pop(number, None)
        if release_at is not None:
            self.cooling[number] = release_at
            heapq.heappush(self._cooling_order, (release_at, number))

    def drop(self, number: int) -> None:
        """An allocation is gone: its block is free."""
        if number in self._tried or not self.taken.discard(number):
            return
        self.cooling.pop(number, None)
        self._count(number, -1)

    def _count(self, number: int, change: int) -> None:
        self.held += change
        if number in self.withheld:
            self.withheld_but_held += change

    def pick(self, strategy: Strategy, now: float) -> int | None:
        """A block that seems free, marked as tried; None when there is none. `now`: monotonic seconds."""
        self.expire(now)
        match strategy:
            case Strategy.NEXT_FIT:
                begin = self._last + 1 if self.start <= self._last < self.end - 1 else self.start
            case Strategy.RANDOM:
                begin = random.randrange(self.start, self.end)  # noqa: S311 (spreads load, guards nothing)
            case Strategy.FIRST_FIT:
                begin = self.start
        number = self._search(begin, self.end)
        if number is None and begin > self.start:
            number = self._search(self.start, begin)
        if number is not None:
            self._mark(number, now)
        return number

    def pick_exact(self, number: int, now: float) -> bool:
        """Mark this very block as tried; False when it is taken, withheld or outside."""
        self.expire(now)
        if not self.start <= number < self.end or number in self.withheld or number in self.taken:
            return False
        self._mark(number, now)
        return True

    def pick_cooling(self) -> int | None:
        """The cooling block that would be free first; None when nothing cools. Not marked: its holder is replaced."""
        order = self._cooling_order
        while order:
            release_at, number = order[0]
            if self.cooling.get(number) == release_at:
                return number
            heapq.heappop(order)
        return None

    def leave_cooling(self, number: int) -> None:
        """The cooling block is being taken over: nobody else picks it."""
        self.cooling.pop(number, None)

    def give_back(self, number: int) -> None:
        """A try that certainly made no allocation: the block is free again at once."""
        if self._tried.pop(number, None) is not None:
            self.taken.discard(number)

    def _search(self, begin: int, end: int) -> int | None:
        number: int | None = begin
        while number is not None and number < end:
            number = self.taken.next_absent(number, end)
            if number is None:
                return None
            behind = self.withheld.end_of(number)
            if behind is None:
                return number
            number = behind
        return None

    def _mark(self, number: int, now: float) -> None:
        self.taken.add(number)
        self._last = number
        self._tried[number] = now + PATIENCE
        self._deadlines.append((now + PATIENCE, number))

    def expire(self, now: float) -> None:
        """Free what was tried long ago and never became an allocation."""
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, number = self._deadlines.popleft()
            if self._tried.get(number) == deadline:
                self.give_back(number)

    def withhold(self, withheld: Intervals) -> None:
        """Replace what must not be handed out; blocks in use stay in use."""
        self.withheld = withheld
        self.withheld_but_held = sum(number in withheld for number in self.taken if number not in self._tried)

    @property
    def free(self) -> int:
        """How many blocks a search would find; cooling ones and tries in flight are not counted."""
        return self.capacity.available - len(self._tried)

    @property
    def capacity(self) -> Capacity:
        """The counters as status shows them: tries in flight are not counted."""
        total = self.end - self.start
        cooling = len(self.cooling)
        reserved = self.withheld.size - self.withheld_but_held
        return Capacity(total, self.held - cooling, reserved, cooling, total - self.held - reserved)


class PoolIndex:
    """All spaces of one pool. Blocks of another length than the pool's, and reservations, are withheld from all."""

    def __init__(self, shape: Shape, entries: Iterable[Entry] = ()) -> None:
        """Build from allocations, given in the order of their creation: NextFit goes on behind the last one."""
        self.shape = shape
        self.spaces: dict[str, Space] = {}
        self._reserved: dict[tuple[Block, str], int] = {}
        for entry in entries:
            self.hold(entry)

    def space(self, name: str) -> Space:
        """The space of that name; a new one is empty."""
        found = self.spaces.get(name)
        if found is None:
            start, end = self.shape.bounds
            found = self.spaces[name] = Space(start, end, self._withheld(name))
        return found

    def hold(self, entry: Entry) -> None:
        """Count an allocation that exists."""
        if self._is_plain(entry):
            cooling = entry.release_at if entry.purpose is Purpose.COOLING else None
            self.space(entry.space).hold(entry.block.number, release_at=cooling)
        else:
            self._reserve(entry, 1)

    def drop(self, entry: Entry) -> None:
        """An allocation is gone."""
        if self._is_plain(entry):
            self.space(entry.space).drop(entry.block.number)
        else:
            self._reserve(entry, -1)

    def _is_plain(self, entry: Entry) -> bool:
        return entry.purpose is not Purpose.RESERVATION and entry.block.length == self.shape.length

    def _reserve(self, entry: Entry, change: int) -> None:
        key = (entry.block, entry.space)
        count = self._reserved.get(key, 0) + change
        if count > 0:
            self._reserved[key] = count
        else:
            self._reserved.pop(key, None)
        for name, space in self.spaces.items():
            space.withhold(self._withheld(name))

    def _withheld(self, space: str) -> Intervals:
        start, end = self.shape.bounds
        reserved = [
            block.numbers(self.shape.length)
            for block, of_space in self._reserved
            if of_space in ("", space) and block.overlaps(self.shape.cidr)
        ]
        parts = [*self.shape.withheld, *reserved]
        return Intervals((max(first, start), min(last, end)) for first, last in parts)

    @property
    def fullest(self) -> Capacity:
        """Counters of the space with the fewest blocks left; of an empty one when nothing was ever given."""
        used = [space.capacity for space in self.spaces.values() if space.held]
        if not used:
            start, end = self.shape.bounds
            used = [Space(start, end, self._withheld("")).capacity]
        return min(used, key=lambda capacity: (capacity.available, -capacity.allocated))

    @property
    def used_spaces(self) -> int:
        """How many spaces hold an allocation."""
        return sum(1 for space in self.spaces.values() if space.held)
