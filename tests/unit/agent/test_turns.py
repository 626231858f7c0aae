"""Turns: in order, and whoever would end too late is told so at once."""

import asyncio

import pytest

from node_agent.cni.turns import LateError, Turns
from tests.waiting import until


async def taken(most: int, prompt: float, *, took: float = 0.0) -> Turns:
    """Turns that are all taken; ``took``: the seconds that the last call has taken."""
    turns = Turns(most, prompt)
    await turns.take(hurried=True)
    turns.give_back(took=took)
    for _ in range(most):
        await turns.take(hurried=True)
    return turns


async def queued(turns: Turns, *, hurried: bool = True) -> asyncio.Task[None]:
    """A call that waits, or was refused already."""
    task = asyncio.create_task(turns.take(hurried=hurried))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return task


async def test_turns_come_in_the_order_of_arrival() -> None:
    turns = await taken(1, 60)
    waiting = [await queued(turns) for _ in range(3)]
    assert turns.waiting == 3
    for number, task in enumerate(waiting):
        turns.give_back(took=0.1)
        await task
        assert [other.done() for other in waiting] == [place <= number for place in range(3)]


async def test_a_call_in_a_hurry_that_would_end_too_late_for_its_place_is_refused_at_once() -> None:
    """T11: two turns of 4.5 s each within 10 s: the third in the queue would end after 11 s. A patient one waits."""
    turns = await taken(2, 10, took=4.5)
    first, second = await queued(turns), await queued(turns)
    with pytest.raises(LateError):
        await turns.take(hurried=True)
    patient = await queued(turns, hurried=False)
    assert [task.done() for task in (first, second, patient)] == [False, False, False]
    for _ in range(3):
        turns.give_back()
    await asyncio.gather(first, second, patient)


async def test_when_calls_get_slower_the_end_of_the_queue_is_refused_and_its_head_served() -> None:
    """T11: the pace is that of the last calls, looked at again whenever one ends."""
    turns = await taken(2, 10)
    first, second, third, fourth = [await queued(turns) for _ in range(4)]
    turns.give_back(took=4.5)
    await first
    with pytest.raises(LateError):
        await fourth
    assert [task.done() for task in (second, third)] == [False, False]
    turns.give_back()
    turns.give_back()
    await asyncio.gather(second, third)


async def test_slow_calls_of_the_past_refuse_nobody_while_turns_are_free() -> None:
    turns = Turns(2, 10)
    await turns.take(hurried=True)
    turns.give_back(took=100_000)
    await turns.take(hurried=True)
    await turns.take(hurried=True)


async def test_a_call_that_is_given_up_leaves_its_place_or_its_turn_to_the_next() -> None:
    turns = await taken(1, 60)
    first, second, third = [await queued(turns) for _ in range(3)]
    first.cancel()
    turns.give_back()  # the second has its turn, and is given up before it notices
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await third
    assert (turns.waiting, first.cancelled()) == (0, True)


async def test_it_is_crowded_for_as_long_as_somebody_waits() -> None:
    turns = await taken(1, 60)
    assert turns.crowded == 0
    waiting = await queued(turns)
    await until(lambda: turns.crowded > 0)
    turns.give_back()
    await waiting
    assert turns.crowded == 0
