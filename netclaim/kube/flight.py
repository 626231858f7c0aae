"""The reconcile that runs right now: what it wrote, and whether it may still write.

A key is held after its reconcile until the stores show what it wrote: the next run must not plan from older facts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube.errors import LeadershipLost
from netclaim.kube.reflector import Reflector


@dataclass(frozen=True, slots=True)
class Expectation:
    """That `reflector` will show a write to `key`: its `version`, or (None) that the object of `uid` is going."""

    reflector: Reflector
    key: Key
    version: int | None
    uid: str = ""

    def future(self) -> asyncio.Future[None] | None:
        """Done when it is shown; None when it is shown already, or nobody follows the object any more."""
        if self.reflector.forgotten:
            return None
        if self.version is None:
            return self.reflector.expect_gone(self.key, self.uid)
        return self.reflector.expect_version(self.version)

    async def look_live(self) -> None:
        """Put what the server holds into the store, since its stream is late.

        Raises:
            ApiError: the server cannot be asked.
        """
        namespace, name = self.key
        self.reflector.observe(self.key, await self.reflector.client.find(self.reflector.resource, namespace, name))


@dataclass(slots=True)
class Flight:
    """One running reconcile."""

    leads: Callable[[], bool]
    expectations: list[Expectation] = field(default_factory=list)
    written: dict[tuple[Resource, Key], Raw] = field(default_factory=dict)
    """The server's last answer for each object that it wrote."""


current: Final[ContextVar[Flight | None]] = ContextVar("flight", default=None)


def check_leads(what: str) -> None:
    """Raise LeadershipLost when the running reconcile belongs to a leader that no longer leads."""
    flight = current.get()
    if flight is not None and not flight.leads():
        raise LeadershipLost(f"{what} was not sent: this process does not lead right now")
