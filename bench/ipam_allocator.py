"""B1: the allocator in memory, one allocate and one free at a time."""

import random
import statistics
import time

from bench.report import Report
from nso.ipam.blocks import Block
from nso.ipam.index import Entry, PoolIndex, Purpose, Shape, Strategy

GOAL_MICROSECONDS = 20.0
GOAL_GROWTH = 1.5
TURN = 500
"""Steps of one pool before the next one has its turn."""


def _held(shape: Shape, count: int) -> list[int]:
    start, end = shape.bounds
    seeded = random.Random(7)
    if end - start <= 2_000_000:
        return seeded.sample(range(start, end), count)
    found: set[int] = set()
    while len(found) < count:
        found.add(seeded.randrange(start, end))
    return list(found)


class Churn:
    """Allocate and free in turn in a pool with `count` blocks held at random places; times in nanoseconds."""

    def __init__(self, cidr: str, length: int, count: int) -> None:
        shape = Shape(Block.parse(cidr), length)
        self._held = _held(shape, count)
        entries = [Entry(shape.block(number), "", Purpose.CLAIM) for number in self._held]
        self._space = PoolIndex(shape, entries).space("")
        self._seeded = random.Random(11)
        self.allocate: list[int] = []
        self.free: list[int] = []

    def go(self, steps: int) -> None:
        """Free a random block and take the next one, `steps` times."""
        space, held = self._space, self._held
        for _ in range(steps):
            place = self._seeded.randrange(len(held))
            began = time.perf_counter_ns()
            space.drop(held[place])
            middle = time.perf_counter_ns()
            number = space.pick(Strategy.NEXT_FIT, len(self.free) * 1e-6)
            if number is None:
                raise AssertionError("a block was just freed, so one must be found")
            space.hold(number)
            self.allocate.append(time.perf_counter_ns() - middle)
            self.free.append(middle - began)
            held[place] = number

    def microseconds(self) -> tuple[float, float]:
        """(allocate, free) at p50."""
        return statistics.median(self.allocate) / 1000, statistics.median(self.free) / 1000


def run(*, short: bool) -> Report:
    """IPv4 /32 and IPv6 /96, 1,000 and 100,000 held and 99 % full, all in turn, since a machine's pace varies."""
    steps = 2_000 if short else 50_000
    pools = {
        f"{family}, {what}": Churn(cidr, length, count)
        for family, length, cidr, full in (
            ("IPv4 /32", 32, "10.0.0.0/8", "10.0.0.0/15"),
            ("IPv6 /96", 96, "fd00:1::/64", "fd00:1::/79"),
        )
        for what, cidr, count in (
            ("1,000 held", cidr, 1_000),
            ("100,000 held", cidr, 100_000),
            ("99 % full", full, 129_760),
        )
    }
    for _ in range(steps // TURN):
        for churn in pools.values():
            churn.go(TURN)
    report = Report("B1", "allocator in memory")
    times = {what: churn.microseconds() for what, churn in pools.items()}
    for family in ("IPv4 /32", "IPv6 /96"):
        small, large = sum(times[f"{family}, 1,000 held"]), sum(times[f"{family}, 100,000 held"])
        report.add(f"{family}: allocate and free, 100,000 held / 1,000", large / small, "x", goal=GOAL_GROWTH)
    for what, (allocate, free) in times.items():
        report.add(f"{what}: allocate p50", allocate, "us", goal=GOAL_MICROSECONDS)
        report.add(f"{what}: free p50", free, "us", goal=GOAL_MICROSECONDS)
    return report
