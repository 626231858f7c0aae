"""Sets of block numbers: what the search for a free block runs on.

Both sets hold plain integers, need memory for what is in them only (a /20 of IPv6 has 2^108 endpoints), and know
nothing of addresses. `BlockSet` is for many single members, `Intervals` for a few wide ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

_BITS = 8
_WIDTH = 1 << _BITS
_LOW = _WIDTH - 1
_FULL = (1 << _WIDTH) - 1


class BlockSet:
    """A set of non-negative integers that finds the next absent number fast, however full it is.

    A radix tree of 256-bit maps. Level 0 has a bit per member; a bit on level k+1 says that the map below it is full,
    so a search jumps over whole full regions. A search, an add and a discard each touch one map on most calls and
    one per level at worst; none of that depends on the number of members.
    """

    __slots__ = ("_levels", "_size")

    def __init__(self, members: Iterable[int] = ()) -> None:
        """The set of `members`."""
        self._levels: list[dict[int, int]] = [{}]
        self._size = 0
        for number in members:
            self.add(number)

    def __len__(self) -> int:
        """How many numbers are in the set."""
        return self._size

    def __contains__(self, number: int) -> bool:
        """Whether `number` is in the set."""
        return bool(self._levels[0].get(number >> _BITS, 0) >> (number & _LOW) & 1)

    def add(self, number: int) -> bool:
        """Put `number` in; False when it was there already."""
        level = 0
        while True:
            if level == len(self._levels):
                self._levels.append({})
            maps = self._levels[level]
            index, bit = number >> _BITS, 1 << (number & _LOW)
            before = maps.get(index, 0)
            if before & bit:
                return False
            maps[index] = before | bit
            if level == 0:
                self._size += 1
            if before | bit != _FULL:
                return True
            number, level = index, level + 1

    def discard(self, number: int) -> bool:
        """Take `number` out; False when it was not there."""
        level = 0
        while level < len(self._levels):
            maps = self._levels[level]
            index, bit = number >> _BITS, 1 << (number & _LOW)
            before = maps.get(index, 0)
            if not before & bit:
                return False
            after = before ^ bit
            if after:
                maps[index] = after
            else:
                del maps[index]
            if level == 0:
                self._size -= 1
            if before != _FULL:
                return True
            number, level = index, level + 1
        return True

    def next_absent(self, start: int, end: int) -> int | None:
        """The smallest number in [start, end) that is not in the set."""
        level, position = 0, start
        while True:
            if position << (_BITS * level) >= end:
                return None
            taken = self._levels[level].get(position >> _BITS, 0) if level < len(self._levels) else 0
            absent = (taken ^ _FULL) >> (position & _LOW)
            if absent:
                position += (absent & -absent).bit_length() - 1
                break
            position, level = (position >> _BITS) + 1, level + 1
        while level:
            level -= 1
            position <<= _BITS
            absent = self._levels[level].get(position >> _BITS, 0) ^ _FULL
            position += (absent & -absent).bit_length() - 1
        return position if position < end else None

    def __iter__(self) -> Iterator[int]:
        """The members; cheap to start, in no particular order."""
        for index, present in self._levels[0].items():
            rest = present
            while rest:
                yield (index << _BITS) + (rest & -rest).bit_length() - 1
                rest &= rest - 1


class Intervals:
    """A set of integers given as half-open intervals; overlapping and touching ones are merged. Never changed."""

    __slots__ = ("_ends", "_starts", "size")

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        """The union of `intervals`, each [start, end); empty ones are ignored."""
        merged: list[list[int]] = []
        for start, end in sorted(pair for pair in intervals if pair[0] < pair[1]):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        self._starts = [start for start, _ in merged]
        self._ends = [end for _, end in merged]
        self.size = sum(end - start for start, end in merged)
        """How many numbers are in the set."""

    def end_of(self, number: int) -> int | None:
        """The end of the interval that `number` is in, or None when it is in none."""
        index = bisect_right(self._starts, number) - 1
        if index >= 0 and number < self._ends[index]:
            return self._ends[index]
        return None

    def __contains__(self, number: int) -> bool:
        """Whether `number` is in one of the intervals."""
        return self.end_of(number) is not None

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same numbers."""
        return isinstance(other, Intervals) and (self._starts, self._ends) == (other._starts, other._ends)

    def __hash__(self) -> int:
        """A hash of the numbers held."""
        return hash((tuple(self._starts), tuple(self._ends)))
