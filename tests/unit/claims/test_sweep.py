"""The sweep's judgement: late, twice seen, in small numbers (T05)."""

from hypothesis import given, strategies

from nso.claims.sweep import FEW, SHARE, judge


def test_an_orphan_is_given_back_only_when_it_was_seen_before_and_long_enough_ago() -> None:
    """Claims.md: seen twice, minutes apart."""
    first = judge({}, {"a"}, 100, now=0.0, grace=120.0)
    assert not first.give_back
    early = judge(first.first_seen, {"a"}, 100, now=60.0, grace=120.0)
    assert not early.give_back
    late = judge(early.first_seen, {"a"}, 100, now=120.0, grace=120.0)
    assert late.give_back == {"a"}


def test_an_orphan_that_found_its_owner_again_starts_anew() -> None:
    """T05: a birth between two lists."""
    first = judge({}, {"a"}, 100, now=0.0, grace=120.0)
    found = judge(first.first_seen, set(), 100, now=60.0, grace=120.0)
    again = judge(found.first_seen, {"a"}, 100, now=130.0, grace=120.0)
    assert not again.give_back


def test_a_sweep_without_grace_still_looks_twice() -> None:
    """Claims.md: seen twice."""
    assert not judge({}, {"a"}, 100, now=5.0, grace=0.0).give_back


def test_a_sweep_that_would_give_back_many_stops_and_gives_back_none() -> None:
    """Claims.md: a restored backup must not free live addresses."""
    orphans = {f"uid-{number}" for number in range(FEW + 1)}
    first = judge({}, orphans, 20, now=0.0, grace=1.0)
    second = judge(first.first_seen, orphans, 20, now=2.0, grace=1.0)
    assert second.stopped
    assert not second.give_back
    assert second.first_seen.keys() == orphans


@given(
    total=strategies.integers(min_value=0, max_value=2000),
    count=strategies.integers(min_value=0, max_value=200),
    grace=strategies.floats(min_value=0, max_value=600),
)
def test_never_more_than_a_share_or_a_few_at_once(total: int, count: int, grace: float) -> None:
    """Claims.md: at most 5 % of them or 10 in one sweep."""
    orphans = {f"uid-{number}" for number in range(count)}
    first = judge({}, orphans, total, now=0.0, grace=grace)
    second = judge(first.first_seen, orphans, total, now=grace, grace=grace)
    assert len(second.give_back) <= max(FEW, total * SHARE)
    assert second.stopped == (count > max(FEW, int(total * SHARE)))
