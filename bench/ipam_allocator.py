"""B1: the allocator in memory, one allocate and one free at a time."""

import random
import statistics
import time

from bench.report import Report
from nso.ipam.blocks import Block
from nso.ipam.index import Entry, PoolIndex, Purpose, Shape, Strategy

GOAL_MICROSECONDS = 20.0
GOAL_GROWTH = 1.5


def _held(shape: Shape, count: int) -> list[int]:
    start, end = shape.bounds
    seeded = random.Random(7)
    if end - start <= 2_000_000:
        return seeded.sample(range(start, end), count)
    found: set[int] = set()
    while len(found) < count:
        found.add(seeded.randrange(start, end))
    return list(found)


def measure(cidr: str, length: int, count: int, *, steps: int) -> tuple[float, float]:
    """(allocate, free) in microseconds at p50, with `count` blocks held at random places of the pool."""
    shape = Shape(Block.parse(cidr), length)
    held = _held(shape, count)
    space = PoolIndex(shape, [Entry(shape.block(number), "", Purpose.CLAIM) for number in held]).space("")
    seeded = random.Random(11)
    allocate, free = [], []
    for step in range(steps):
        place = seeded.randrange(len(held))
        began = time.perf_counter_ns()
        space.drop(held[place])
        middle = time.perf_counter_ns()
        number = space.pick(Strategy.NEXT_FIT, step * 1e-6)
        if number is None:
            raise AssertionError("a block was just freed, so one must be found")
        space.hold(number)
        allocate.append(time.perf_counter_ns() - middle)
        free.append(middle - began)
        held[place] = number
    return statistics.median(allocate) / 1000, statistics.median(free) / 1000


def run(*, short: bool) -> Report:
    """IPv4 /32 and IPv6 /96, sparse and 99 % full, 1,000 against 100,000 held."""
    steps = 2_000 if short else 50_000
    report = Report("B1", "allocator in memory")
    sizes = {}
    for family, cidr, length in (("IPv4 /32", "10.0.0.0/8", 32), ("IPv6 /96", "fd00:1::/64", 96)):
        for count in (1_000, 100_000):
            sizes[family, count] = measure(cidr, length, count, steps=steps)
        small, large = sum(sizes[family, 1_000]), sum(sizes[family, 100_000])
        report.add(f"{family}: allocate and free, 100,000 held / 1,000", large / small, "x", goal=GOAL_GROWTH)
    full = {
        "IPv4 /32, 99 % full": measure("10.0.0.0/15", 32, 129_760, steps=steps),
        "IPv6 /96, 99 % full": measure("fd00:1::/79", 96, 129_760, steps=steps),
    }
    for what, (allocate, free) in {**{f"{f}, {c:,} held": v for (f, c), v in sizes.items()}, **full}.items():
        report.add(f"{what}: allocate p50", allocate, "us", goal=GOAL_MICROSECONDS)
        report.add(f"{what}: free p50", free, "us", goal=GOAL_MICROSECONDS)
    return report
