"""Conditions keep their transition time and speak of the generation that was seen."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from netclaim.api import conditions

THEN = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)


def held(**condition: object) -> dict:
    return {"metadata": {"generation": 4}, "status": {"conditions": [{"type": "Bound"}, condition]}}


def test_a_first_condition_starts_now_and_names_the_generation() -> None:
    made = conditions.make({"metadata": {"generation": 7}}, "Ready", "False", "NotBound", "wait", NOW)
    assert made == {
        "type": "Ready",
        "status": "False",
        "reason": "NotBound",
        "message": "wait",
        "lastTransitionTime": "2026-02-03T04:05:06Z",
        "observedGeneration": 7,
    }


def test_another_reason_keeps_the_transition_time() -> None:
    before = held(type="Ready", status="False", reason="NotBound", lastTransitionTime=THEN)
    made = conditions.make(before, "Ready", "False", "NotProgrammed", "wait", NOW)
    assert made["lastTransitionTime"] == THEN
    assert made["reason"] == "NotProgrammed"


def test_a_flip_of_the_status_moves_the_transition_time() -> None:
    before = held(type="Ready", status="False", reason="NotBound", lastTransitionTime=THEN)
    assert conditions.make(before, "Ready", "True", "Ready", "", NOW)["lastTransitionTime"] == "2026-02-03T04:05:06Z"


def test_a_condition_without_a_time_gets_one() -> None:
    assert conditions.make(held(type="Ready", status="True"), "Ready", "True", "Ready", "", NOW)["lastTransitionTime"]


def test_an_empty_message_is_left_out() -> None:
    """T26: after success no error text stays."""
    assert "message" not in conditions.make(None, "Ready", "True", "Ready", "", NOW)


def test_times_are_written_in_utc() -> None:
    assert conditions.timestamp(NOW.astimezone(timezone(timedelta(hours=5)))) == "2026-02-03T04:05:06Z"


@pytest.mark.parametrize("obj", [None, {}, {"status": {}}, {"status": {"conditions": []}}, {"status": None}])
def test_nothing_is_known_where_nobody_wrote(obj: dict | None) -> None:
    assert conditions.condition(obj, "Ready") is None
    assert conditions.status_of(obj, "Ready") is None
    assert conditions.reason_of(obj, "Ready") == ""
    assert not conditions.is_true(obj, "Ready")
    assert not conditions.is_false(obj, "Ready")


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_a_status_is_read_as_it_is(status: str) -> None:
    obj = held(type="Ready", status=status, reason="Why", message="because")
    assert conditions.status_of(obj, "Ready") == status
    assert conditions.is_true(obj, "Ready") == (status == "True")
    assert conditions.is_false(obj, "Ready") == (status == "False")
    assert conditions.reason_of(obj, "Ready") == "Why"
    assert conditions.message_of(obj, "Ready") == "because"
