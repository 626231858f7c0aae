"""The work queue: client-go's semantics on one event loop.

* A key that is worked on never runs a second time at once; what is added meanwhile runs after it.
* Any number of adds before a key is taken are one.
* `add_after` keeps the earliest time.
* Live events go before the initial list and the resync, which still get every 16th turn.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import Hashable
from enum import IntEnum
from typing import Final, Generic, TypeVar

from netclaim.kube import metrics
from netclaim.kube.backoff import delay_after

K = TypeVar("K", bound=Hashable)

_PATIENCE: Final = 15


class Lane(IntEnum):
    """How urgent a key is."""

    LIVE = 0
    SLOW = 1


class TokenBucket:
    """`rate` permits a second, at most `burst` saved up. Only retries pay."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at = time.monotonic()

    def wait(self) -> float:
        """Take a permit and return the seconds until it is good."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate) - 1.0
        self._at = now
        return max(0.0, -self._tokens / self._rate)


class WorkQueue(Generic[K]):
    """Keys to work on. `get`, then `done` with the same key, always."""

    def __init__(
        self,
        name: str,
        *,
        backoff_first: float = 0.005,
        backoff_max: float = 300.0,
        retry_rate: float = 100.0,
        retry_burst: int = 500,
    ) -> None:
        self.name = name
        self._backoff_first = backoff_first
        self._backoff_max = backoff_max
        self._bucket = TokenBucket(retry_rate, retry_burst)
        # Ordered dicts: taking the first of a plain dict walks over all that were taken before.
        self._lanes: tuple[OrderedDict[K, float], OrderedDict[K, float]] = (OrderedDict(), OrderedDict())
        self._dirty: dict[K, Lane] = {}
        self._processing: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = float("inf")
        self._wakeup: asyncio.Event = asyncio.Event()
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        self._since_slow = 0
        self._closed = False
        self._depths = tuple(metrics.QUEUE_DEPTH.labels(name, lane.name.lower()) for lane in Lane)
        self._adds = metrics.QUEUE_ADDS.labels(name)
        self._retries = metrics.QUEUE_RETRIES.labels(name)
        self._wait = metrics.QUEUE_WAIT.labels(name)
        self._work = metrics.QUEUE_WORK.labels(name)

    def __len__(self) -> int:
        return len(self._lanes[Lane.LIVE]) + len(self._lanes[Lane.SLOW])

    @property
    def processing(self) -> int:
        """How many keys are taken and not done."""
        return len(self._processing)

    @property
    def at_rest(self) -> bool:
        """Whether nothing waits and nothing is worked on (keys that are due later do not count)."""
        return not len(self) and not self._processing

    def longest_running(self) -> tuple[float, float]:
        """(seconds of the longest running work, sum over all running work)."""
        now = time.monotonic()
        ages = [now - since for since in self._processing.values()]
        return (max(ages, default=0.0), sum(ages))

    # -- adding ----------------------------------------------------------------------------------------------------

    def add(self, key: K, lane: Lane = Lane.LIVE) -> None:
        """Work on `key` soon."""
        if self._closed:
            return
        known = self._dirty.get(key)
        if known is not None:
            if lane < known:
                self._dirty[key] = lane
                if key in self._lanes[known]:
                    self._lanes[lane][key] = self._lanes[known].pop(key)
                    self._measure()
            return
        self._adds.inc()
        self._dirty[key] = lane
        if key not in self._processing:
            self._push(key, lane)

    def add_after(self, key: K, delay: float) -> None:
        """Work on `key` in `delay` seconds, or earlier when that was asked for before."""
        if self._closed:
            return
        if delay <= 0:
            self.add(key)
            return
        when = time.monotonic() + delay
        if self._due.get(key, when + 1) <= when:
            return
        self._due[key] = when
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, key))
        self._arm()

    def retry(self, key: K, *, at_least: float = 0.0, at_most: float = float("inf")) -> float:
        """Work on `key` again after a failure; returns the delay: doubling per key, and a rate for all keys together.

        `at_most` bounds the doubling where the cause lies outside of the key and may end at any moment.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        longest = min(self._backoff_max, at_most)
        delay = max(delay_after(failures, first=self._backoff_first, longest=longest), self._bucket.wait(), at_least)
        self._retries.inc()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key went well: its next failure waits the shortest time again."""
        self._failures.pop(key, None)

    # -- working ---------------------------------------------------------------------------------------------------

    async def get(self) -> K | None:
        """The next key, None once the queue is closed."""
        while not self._closed:
            key = self._pop()
            if key is not None:
                return key
            self._wakeup.clear()
            await self._wakeup.wait()
        return None

    def done(self, key: K) -> None:
        """The key may run again."""
        since = self._processing.pop(key, None)
        if since is not None:
            self._work.observe(time.monotonic() - since)
        lane = self._dirty.get(key)
        if lane is not None and not self._closed:
            self._push(key, lane)
        if not self._processing:
            self._idle.set()

    def close(self) -> None:
        """Take nothing more in and hand nothing more out; work that runs goes on."""
        self._closed = True
        self._wakeup.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_for = float("inf")
        for lane in self._lanes:
            lane.clear()
        self._dirty.clear()
        self._measure()

    async def wait_idle(self) -> None:
        """Until nothing is worked on."""
        await self._idle.wait()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _push(self, key: K, lane: Lane) -> None:
        self._lanes[lane][key] = time.monotonic()
        self._measure()
        self._wakeup.set()

    def _pop(self) -> K | None:
        live, slow = self._lanes
        lane = live
        if slow and (not live or self._since_slow >= _PATIENCE):
            lane = slow
        if not lane:
            return None
        self._since_slow = 0 if lane is slow else self._since_slow + 1
        key, added = lane.popitem(last=False)
        now = time.monotonic()
        self._wait.observe(now - added)
        self._dirty.pop(key, None)
        self._processing[key] = now
        self._idle.clear()
        self._measure()
        if live or slow:
            self._wakeup.set()
        return key

    def _measure(self) -> None:
        for depth, lane in zip(self._depths, self._lanes, strict=True):
            depth.set(len(lane))

    def _arm(self) -> None:
        if not self._timers or self._closed or self._timers[0][0] >= self._armed_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = self._timers[0][0]
        delay = max(0.0, self._armed_for - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._armed_for = float("inf")
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, key = heapq.heappop(self._timers)
            if self._due.get(key) == when:
                del self._due[key]
                self.add(key)
        self._arm()
