"""The work queue has client-go's semantics."""

import asyncio
import random
import time

from netclaim.kube.queue import Lane, TokenBucket, WorkQueue
from tests.waiting import until


def _queue(**options: float) -> WorkQueue[str]:
    return WorkQueue("test", **options)  # type: ignore[arg-type]


async def test_many_adds_before_a_key_is_taken_are_one() -> None:
    """T32: a burst of events is one reconcile."""
    queue = _queue()
    for _ in range(100):
        queue.add("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert queue.at_rest


async def test_a_key_added_while_it_is_worked_on_runs_after_it_and_never_beside_it() -> None:
    """T24."""
    queue = _queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "b"
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"


async def test_one_key_is_never_worked_on_twice_at_once_under_random_load() -> None:
    """T24: eight workers, 2,000 random adds; each key's last add is followed by a run."""
    queue = _queue()
    chance = random.Random(7)
    running: set[str] = set()
    last_run: dict[str, float] = {}
    last_add: dict[str, float] = {}

    async def work() -> None:
        while (key := await queue.get()) is not None:
            assert key not in running
            running.add(key)
            last_run[key] = time.monotonic()
            await asyncio.sleep(chance.uniform(0, 0.002))
            running.remove(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(8)]
    for _ in range(2000):
        key = f"k{chance.randrange(20)}"
        last_add[key] = time.monotonic()
        queue.add(key, chance.choice([Lane.LIVE, Lane.SLOW]))
        if chance.random() < 0.1:
            await asyncio.sleep(0.001)
    await until(lambda: queue.at_rest, what="all keys worked on")
    queue.close()
    await asyncio.gather(*workers)
    assert all(last_run[key] >= last_add[key] for key in last_add)


async def test_add_after_keeps_the_earliest_time() -> None:
    """A second, later wish does not put the first one off."""
    queue = _queue()
    started = time.monotonic()
    queue.add_after("a", 0.05)
    queue.add_after("a", 5.0)
    queue.add_after("b", 5.0)
    queue.add_after("b", 0.1)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert 0.05 <= time.monotonic() - started < 4.0


async def test_live_events_go_before_the_initial_list() -> None:
    """T21: after a restart with many objects a new claim does not wait for all of them."""
    queue = _queue()
    for number in range(100):
        queue.add(f"old{number}", Lane.SLOW)
    queue.add("new")
    assert await queue.get() == "new"


async def test_a_queued_key_moves_to_the_live_lane_when_something_happens_to_it() -> None:
    """T21."""
    queue = _queue()
    queue.add("a", Lane.SLOW)
    queue.add("b", Lane.SLOW)
    queue.add("b", Lane.LIVE)
    assert [await queue.get(), await queue.get()] == ["b", "a"]


async def test_the_slow_lane_is_not_starved_by_live_events() -> None:
    """T24."""
    queue = _queue()
    queue.add("slow", Lane.SLOW)
    taken = []
    for number in range(40):
        queue.add(f"live{number}")
        key = await queue.get()
        assert key is not None
        taken.append(key)
        queue.done(key)
    assert "slow" in taken


async def test_retries_double_from_5_ms_and_forget_starts_over() -> None:
    """T32: capped back-off per key."""
    queue = _queue(backoff_first=0.005, backoff_max=0.5)
    delays = [queue.retry("a") for _ in range(12)]
    assert 0.003 < delays[0] < 0.007
    assert 1.2 < delays[5] / delays[4] < 3.1
    assert max(delays) <= 0.6
    queue.forget("a")
    assert queue.retry("a") < 0.007


def test_retries_of_all_keys_together_have_a_rate() -> None:
    """T32: a thousand failing keys do not become a storm."""
    bucket = TokenBucket(rate=10.0, burst=5)
    waits = [bucket.wait() for _ in range(15)]
    assert waits[:5] == [0.0] * 5
    assert 0.5 < waits[-1] < 1.1


async def test_a_closed_queue_hands_nothing_out_and_workers_end() -> None:
    """Drain: what runs goes on, nothing new begins."""
    queue = _queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("b")
    queue.close()
    assert await queue.get() is None
    queue.done("a")
    await queue.wait_idle()


async def test_taking_keys_costs_the_same_however_many_wait() -> None:
    """T21: 20,000 keys are taken in linear time."""

    def seconds(count: int) -> float:
        queue = _queue()
        for number in range(count):
            queue.add(f"k{number}")
        started = time.perf_counter()
        for _ in range(count):
            key = queue._pop()
            assert key is not None
            queue.done(key)
        return time.perf_counter() - started

    small = min(seconds(2_000) for _ in range(3))
    assert min(seconds(20_000) for _ in range(3)) < 30 * small
