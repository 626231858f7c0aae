"""When a status that only tells progress is written: once it has stood for a moment, not at every step on the way.

An instance on its way up passes half a dozen reasons within seconds, and its Workload repeats each of them. Whoever
watches wants to know that it began (the Workload says so at once), the end, and where it is stuck.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from netclaim.api.conditions import condition
from netclaim.api.meta import Key, Raw
from netclaim.kube.apply import differs
from netclaim.kube.objects import key_of
from netclaim.kube.writes import ApplyStatus
from nso.compute import reasons

QUIET: Final = 4.0
"""Seconds that progress stands unchanged before it is told."""

LONGEST: Final = 12.0
"""Seconds after which progress is told although it never stood still."""


def is_progress(raw: Raw, write: ApplyStatus, kind: str) -> bool:
    """Whether the write says no more than where on its way the object is.

    `kind` is the condition that sums the object up. Its flips, refusals, an answer to a new generation, and addresses
    (R4: a claim's are never missing on its instance) are no progress.
    """
    if _addresses(raw.get("status") or {}) != _addresses(write.status):
        return False
    before, after = condition(raw, kind), condition({"status": write.status}, kind)
    if (raw.get("status") or {}).get("observedGeneration") != write.status.get("observedGeneration"):
        return False
    told = [one for one in (before, after) if one is not None]
    return all(one.get("status") == "False" and one.get("reason") in reasons.ON_ITS_WAY for one in told)


def _addresses(status: Raw) -> list[object]:
    shown = [(one.get("addresses"), one.get("externalAddresses")) for one in status.get("networkInterfaces") or ()]
    return [one for one in shown if any(one)]


@dataclass(frozen=True, slots=True)
class Held:
    """What waits to be told, since when it is just this, and since when there is something to tell."""

    status: Raw
    since: float
    first: float


@dataclass(slots=True)
class Pace:
    """Remembers what is held back, by object; after a restart it waits once more at most."""

    kind: str
    clock: Callable[[], float] = time.monotonic
    _held: dict[Key, Held] = field(default_factory=dict)

    def pause(self, raw: Raw, write: ApplyStatus) -> float:
        """Seconds until the write is due, 0 when it is now or when there is nothing to write."""
        key, now = key_of(raw), self.clock()
        if not differs(raw.get("status") or {}, write.status, write.owns) or not is_progress(raw, write, self.kind):
            self.forget(key)
            return 0.0
        held = self._held.get(key)
        if held is None:
            held = Held(write.status, now, now)
        elif held.status != write.status:
            held = Held(write.status, now, held.first)
        due = min(held.since + QUIET, held.first + LONGEST)
        if now >= due:
            self.forget(key)
            return 0.0
        self._held[key] = held
        return due - now

    def forget(self, key: Key) -> None:
        """The object is told, or gone."""
        self._held.pop(key, None)
