"""Waiting times that double, with jitter."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field


def jittered(seconds: float, *, spread: float = 0.2) -> float:
    """`seconds`, give or take `spread` of it, so that many of us do not come at once."""
    return seconds * random.uniform(1 - spread, 1 + spread)  # noqa: S311 - timing, not secrecy


@dataclass(slots=True)
class Backoff:
    """`first` seconds, doubling up to `longest`; starts over after `healthy` seconds without a failure."""

    first: float
    longest: float
    healthy: float
    failures: int = 0
    _last: float = field(default=float("-inf"))

    def next(self) -> float:
        """How long to wait after one more failure."""
        now = time.monotonic()
        if now - self._last > self.healthy + self.longest:
            self.failures = 0
        self._last = now
        delay = delay_after(self.failures, first=self.first, longest=self.longest)
        self.failures += 1
        return delay

    def healthy_for(self, seconds: float) -> None:
        """Tell that all went well for so long."""
        if seconds >= self.healthy:
            self.failures = 0


def delay_after(failures: int, *, first: float, longest: float) -> float:
    """The jittered delay after `failures` failures before this one."""
    return jittered(min(first * 2.0 ** min(failures, 40), longest))
