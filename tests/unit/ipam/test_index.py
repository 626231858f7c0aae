"""The free-block index: strategies, counters, tries in flight, cooling, reservations, and how it heals.

The long run: ``NETCLAIM_MACHINE_EXAMPLES=2000 python -m pytest tests/unit/ipam/test_index.py``.
"""

import os

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nso.ipam.blocks import Block
from nso.ipam.index import PATIENCE, Entry, PoolIndex, Purpose, Shape, Space, Strategy


def shape(cidr: str, length: int, *withheld: tuple[int, int]) -> Shape:
    return Shape(Block.parse(cidr), length, withheld)


def entry(block: str, purpose: Purpose = Purpose.CLAIM, space: str = "", release_at: float = 0.0) -> Entry:
    return Entry(Block.parse(block), space, purpose, release_at)


def pick(index: PoolIndex, strategy: Strategy = Strategy.NEXT_FIT, now: float = 0.0) -> str | None:
    number = index.space("").pick(strategy, now)
    return None if number is None else str(index.shape.block(number))


def test_next_fit_goes_on_behind_the_block_given_last() -> None:
    """A new claim does not get the address just freed."""
    index = PoolIndex(shape("10.0.0.0/29", 32))
    assert [pick(index) for _ in range(3)] == ["10.0.0.0/32", "10.0.0.1/32", "10.0.0.2/32"]
    for block in ("10.0.0.0/32", "10.0.0.1/32", "10.0.0.2/32"):
        index.hold(entry(block))
    index.drop(entry("10.0.0.1/32"))
    assert pick(index) == "10.0.0.3/32"


def test_next_fit_goes_on_behind_the_newest_allocation_after_a_restart() -> None:
    """The index is built from IPAllocations and from nothing else, the place of the search too."""
    index = PoolIndex(shape("10.0.0.0/29", 32), [entry("10.0.0.5/32"), entry("10.0.0.2/32")])
    assert pick(index) == "10.0.0.3/32"


def test_next_fit_comes_round_to_the_start() -> None:
    """A freed block is given again when the end is reached."""
    index = PoolIndex(shape("10.0.0.0/30", 32))
    given_first = [pick(index) for _ in range(4)]
    for block in given_first:
        assert block is not None
        index.hold(entry(block))
    assert pick(index) is None
    index.drop(entry("10.0.0.0/32"))
    assert pick(index) == "10.0.0.0/32"


def test_first_fit_gives_the_lowest_free_block() -> None:
    """Strategy FirstFit."""
    index = PoolIndex(shape("10.0.0.0/29", 32), [entry("10.0.0.0/32"), entry("10.0.0.1/32")])
    index.drop(entry("10.0.0.0/32"))
    assert pick(index, Strategy.FIRST_FIT) == "10.0.0.0/32"
    assert pick(index, Strategy.FIRST_FIT) == "10.0.0.2/32"


def test_random_finds_every_block_and_then_none() -> None:
    """Strategy Random: also the last one of a full pool."""
    index = PoolIndex(shape("10.0.0.0/26", 32))
    found = {pick(index, Strategy.RANDOM) for _ in range(64)}
    assert len(found) == 64
    assert None not in found
    assert pick(index, Strategy.RANDOM) is None


def test_random_spreads_over_a_vast_pool() -> None:
    """A /20 of IPv6 is never written out: 2^76 blocks."""
    index = PoolIndex(shape("fd00::/20", 96))
    found = [index.space("").pick(Strategy.RANDOM, 0.0) for _ in range(50)]
    assert len(set(found)) == 50
    spread = [number - index.shape.bounds[0] for number in found if number is not None]
    assert max(spread) > 2**70


def test_withheld_blocks_are_never_given() -> None:
    """The first two and last two of a subnet are reserved; an exclusion lies in between."""
    index = PoolIndex(
        shape(
            "10.128.0.0/28",
            32,
            *[(n + (10 << 24) + (128 << 16), m + (10 << 24) + (128 << 16)) for n, m in ((0, 2), (5, 9), (14, 16))],
        )
    )
    found = []
    while (block := pick(index)) is not None:
        found.append(int(block.removesuffix("/32").split(".")[3]))
    assert found == [2, 3, 4, 9, 10, 11, 12, 13]
    assert index.fullest.reserved == 8


def test_an_operators_reservation_of_any_length_withholds_what_it_touches() -> None:
    """Reservations are made by operators too, for one space or for all."""
    index = PoolIndex(shape("10.0.0.0/24", 28), [entry("10.0.0.3/32", Purpose.RESERVATION)])
    index.hold(entry("10.0.0.32/27", Purpose.RESERVATION, space="aaaaaaaaaa"))
    assert pick(index) == "10.0.0.16/28"
    assert index.space("aaaaaaaaaa").capacity.reserved == 3
    assert index.space("").capacity.reserved == 1
    index.drop(entry("10.0.0.3/32", Purpose.RESERVATION))
    assert index.space("").capacity.reserved == 0


def test_a_try_that_made_no_allocation_is_free_again_after_a_while() -> None:
    """An index that was wrong heals by itself."""
    index = PoolIndex(shape("10.0.0.0/31", 32))
    space = index.space("")
    assert [pick(index, now=0.0), pick(index, now=1.0), pick(index, now=2.0)] == ["10.0.0.0/32", "10.0.0.1/32", None]
    index.hold(entry("10.0.0.1/32"))
    assert pick(index, now=PATIENCE) == "10.0.0.0/32"
    assert pick(index, now=PATIENCE + 1) is None
    assert space.capacity.allocated == 1


def test_one_very_block_is_picked_only_when_free() -> None:
    """A static address: not one that is taken, withheld or outside."""
    base = 10 << 24
    index = PoolIndex(shape("10.0.0.0/29", 32, (base, base + 1)), [entry("10.0.0.3/32")])
    space = index.space("")
    assert [space.pick_exact(base + offset, 0.0) for offset in (0, 2, 2, 3, 8)] == [False, True, False, False, False]


def test_the_cooling_block_that_is_due_first_is_taken_first() -> None:
    """A cooling block may be taken when nothing else is free, oldest first."""
    index = PoolIndex(
        shape("10.0.0.0/30", 32),
        [
            entry("10.0.0.0/32"),
            entry("10.0.0.1/32", Purpose.COOLING, release_at=300.0),
            entry("10.0.0.2/32", Purpose.COOLING, release_at=100.0),
            entry("10.0.0.3/32", Purpose.COOLING, release_at=200.0),
        ],
    )
    space = index.space("")
    assert pick(index) is None
    assert space.capacity.cooling == 3
    order = []
    while (number := space.pick_cooling()) is not None:
        order.append(number & 0xFF)
        space.leave_cooling(number)
    assert order == [2, 3, 1]


def test_a_block_that_cools_and_is_taken_again_is_counted_once() -> None:
    """Counters are sums whatever an allocation turns into."""
    index = PoolIndex(shape("10.0.0.0/30", 32), [entry("10.0.0.0/32")])
    cooling = entry("10.0.0.0/32", Purpose.COOLING, release_at=5.0)
    index.drop(entry("10.0.0.0/32"))
    index.hold(cooling)
    assert (index.fullest.allocated, index.fullest.cooling, index.fullest.available) == (0, 1, 3)
    index.drop(cooling)
    index.hold(entry("10.0.0.0/32"))
    assert (index.fullest.allocated, index.fullest.cooling, index.fullest.available) == (1, 0, 3)


def test_the_fullest_space_speaks_for_the_pool() -> None:
    """Status shows the counters of the fullest space."""
    index = PoolIndex(
        shape("10.0.0.0/30", 32),
        [entry("10.0.0.0/32", space="a"), *(entry(f"10.0.0.{n}/32", space="b") for n in (1, 2))],
    )
    assert index.fullest.available == 2
    assert index.used_spaces == 2


@pytest.mark.parametrize(("cidr", "length", "total"), [("fd00::/20", 96, 2**76), ("::/0", 128, 2**128)])
def test_a_vast_pool_is_counted_exactly(cidr: str, length: int, total: int) -> None:
    """A /20 of IPv6 overflows 64 bits."""
    assert PoolIndex(shape(cidr, length)).fullest.available == total


class SpaceMachine(RuleBasedStateMachine):
    """One space under everything that can happen to it, against sets of numbers."""

    SIZE = 40

    def __init__(self) -> None:
        super().__init__()
        self.index = PoolIndex(shape("10.0.0.0/26", 32, (10 << 24, (10 << 24) + 3)))
        self.held: dict[int, bool] = {}
        self.tried: dict[int, float] = {}
        self.now = 0.0

    @property
    def space(self) -> Space:
        return self.index.space("")

    def withheld(self) -> set[int]:
        return {number for number in range(10 << 24, (10 << 24) + 64) if number in self.space.withheld}

    @rule(strategy=st.sampled_from(list(Strategy)))
    def pick(self, strategy: Strategy) -> None:
        self.expire()
        number = self.space.pick(strategy, self.now)
        free = set(range(10 << 24, (10 << 24) + 64)) - set(self.held) - set(self.tried) - self.withheld()
        assert (number in free) if free else number is None
        if number is not None:
            self.tried[number] = self.now

    @rule(offset=st.integers(0, 63), cools=st.booleans())
    def appears(self, offset: int, *, cools: bool) -> None:
        number = (10 << 24) + offset
        if number not in self.held:
            self.space.hold(number, release_at=1.0 if cools else None)
            self.held[number] = cools
            self.tried.pop(number, None)

    @rule(offset=st.integers(0, 63))
    def goes(self, offset: int) -> None:
        number = (10 << 24) + offset
        if number in self.held:
            self.space.drop(number)
            del self.held[number]

    @rule(offset=st.integers(0, 60))
    def reserve(self, offset: int) -> None:
        block = Block("IPv4", (10 << 24) + offset & ~3, 30)
        self.index.hold(Entry(block, "", Purpose.RESERVATION))

    @rule(seconds=st.floats(0.1, PATIENCE))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    def expire(self) -> None:
        self.tried = {number: at for number, at in self.tried.items() if self.now - at < PATIENCE}

    @invariant()
    def counters_are_sums(self) -> None:
        capacity = self.space.capacity
        assert capacity.allocated + capacity.cooling + capacity.reserved + capacity.available == capacity.total == 64
        assert capacity.cooling == sum(self.held.values())
        assert capacity.allocated == len(self.held) - capacity.cooling
        assert capacity.available == len(set(range(10 << 24, (10 << 24) + 64)) - set(self.held) - self.withheld())


TestSpaceMachine = SpaceMachine.TestCase
TestSpaceMachine.settings = settings(
    max_examples=int(os.environ.get("NETCLAIM_MACHINE_EXAMPLES", "40")), stateful_step_count=60, deadline=None
)
