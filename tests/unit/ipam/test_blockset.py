"""The sets that the search for a free block runs on, against plain Python sets."""

from hypothesis import given
from hypothesis import strategies as st

from nso.ipam.blockset import BlockSet, Intervals

DENSE = st.integers(min_value=0, max_value=1100)
WIDE = st.integers(min_value=0, max_value=2**108)
NUMBERS = st.one_of(DENSE, WIDE)


@given(st.lists(st.tuples(st.booleans(), NUMBERS), max_size=300))
def test_a_block_set_holds_what_was_added_and_not_discarded(steps: list[tuple[bool, int]]) -> None:
    """T26: free + used = size after every run."""
    tried, model = BlockSet(), set[int]()
    for is_add, number in steps:
        if is_add:
            assert tried.add(number) == (number not in model)
            model.add(number)
        else:
            assert tried.discard(number) == (number in model)
            model.discard(number)
    assert len(tried) == len(model)
    assert set(tried) == model
    assert all(number in tried for number in model)


@given(st.sets(DENSE), DENSE, DENSE)
def test_the_next_absent_number_is_the_smallest_one(members: set[int], start: int, end: int) -> None:
    """R15: a free block is found whenever there is one."""
    expected = next((number for number in range(start, end) if number not in members), None)
    assert BlockSet(members).next_absent(start, end) == expected


def test_a_full_region_is_jumped_over_at_every_level() -> None:
    """Three levels of full maps: the search climbs, and comes down at the first gap."""
    full = BlockSet(range(256 * 256 * 2))
    assert full.next_absent(0, 2**40) == 256 * 256 * 2
    assert full.next_absent(0, 256 * 256 * 2) is None
    full.discard(70_000)
    assert full.next_absent(5, 2**40) == 70_000
    full.add(70_000)
    assert full.next_absent(5, 2**40) == 256 * 256 * 2


INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=8)


@given(INTERVALS)
def test_intervals_hold_the_union_of_what_was_given(pairs: list[tuple[int, int]]) -> None:
    """Excluded and reserved ranges may overlap and touch."""
    model = {number for start, end in pairs for number in range(start, end)}
    tried = Intervals(pairs)
    assert tried.size == len(model)
    for number in range(62):
        assert (number in tried) == (number in model)
        end = tried.end_of(number)
        if end is not None:
            assert end not in model
            assert all(inside in model for inside in range(number, end))
