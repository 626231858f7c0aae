"""The reconcilers of claims and of interfaces: observe, plan, apply."""

from __future__ import annotations

from typing import Final

from netclaim.api.meta import Key, Raw
from netclaim.kube.errors import Conflict, Throttled
from nso.claims import interfaces, reasons
from nso.claims.answers import refusal_of_write
from nso.claims.plan import plan
from nso.claims.view import View
from nso.execute import Executor, IpamRefused, NameTaken

LOOK_AGAIN: Final = 30.0
"""Seconds until an IPClaim that another cell has under our name is looked at again: no watch of ours shows it."""


class Claims:
    """Reconciles one claim at a time; remembers foreign IPClaims that stand in the way."""

    def __init__(self, view: View, executor: Executor) -> None:
        self._view = view
        self._executor = executor
        self._in_the_way: dict[Key, Raw] = {}

    async def reconcile(self, key: Key) -> float | None:
        """Bring one claim further. What IPAM refuses is told in the claim's status, then tried again."""
        also = await self._known_to_be_in_the_way(key)
        try:
            return await self._pass(key, also)
        except NameTaken as taken:
            if not self._view.shows(taken.ip_claim):
                self._in_the_way[key] = taken.ip_claim
            return await self._pass(key, (*also, taken.ip_claim))

    async def _pass(self, key: Key, also: tuple[Raw, ...]) -> float | None:
        seen = await self._view.claim(key, also=also)
        if seen is None:
            self._in_the_way.pop(key, None)
            return None
        try:
            await self._executor.run(plan(seen))
        except IpamRefused as refused:
            if seen.claim.is_going or isinstance(refused.cause, Conflict | Throttled):
                raise refused.cause from refused
            failure = refusal_of_write(refused.cause, seen.project, seen.claim.namespace)
            told = await self._view.claim(key, also=also, failure=failure)
            if told is not None:
                await self._executor.run(plan(told))
            if failure.reason == reasons.ALLOCATION_FAILED.name:
                raise refused.cause from refused
        return LOOK_AGAIN if key in self._in_the_way else None

    async def _known_to_be_in_the_way(self, key: Key) -> tuple[Raw, ...]:
        remembered = self._in_the_way.pop(key, None)
        if remembered is None:
            return ()
        found = await self._view.reread([remembered])
        if found:
            self._in_the_way[key] = found[0]
        return found


class Interfaces:
    """Reconciles one interface at a time."""

    def __init__(self, view: View, executor: Executor) -> None:
        self._view = view
        self._executor = executor

    async def reconcile(self, key: Key) -> None:
        """Bring one interface further."""
        seen = await self._view.interface(key)
        if seen is None:
            return
        try:
            await self._executor.run(interfaces.plan(seen))
        except IpamRefused as refused:
            raise refused.cause from refused
