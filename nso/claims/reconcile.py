"""The reconcilers of claims and of interfaces: observe, plan, apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from netclaim.api import resources
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import CLAIM_RELEASE_FINALIZER
from netclaim.freshness import FRESH
from netclaim.kube.backoff import jittered
from netclaim.kube.errors import ApiError, Conflict, Lost, Throttled
from netclaim.kube.writes import Create
from nso.claims import interfaces, reasons
from nso.claims.answers import refusal_of_write
from nso.claims.observed import ClaimSeen
from nso.claims.plan import plan
from nso.claims.release import plan_departed
from nso.claims.view import View
from nso.execute import Executor, IpamRefused, NameTaken
from nso.steps import Plan, needs_ipam, writes_of

AWAY: Final = 2.0
"""Seconds, spread, until a claim looks again whether IPAM answers; while its watch says no, nothing is sent."""

LOOK_AGAIN: Final = 30.0
"""Seconds until an IPClaim that another cell has under our name is looked at again: no watch of ours shows it."""


class Claims:
    """Reconciles one claim at a time.

    Remembers foreign IPClaims that stand in the way, and the claims that were asked for and are not bound yet.
    """

    def __init__(self, view: View, executor: Executor) -> None:
        self._view = view
        self._executor = executor
        self._in_the_way: dict[Key, Raw] = {}
        self._asking: dict[Key, ClaimSeen] = {}

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
        await self._release_departed(key, seen)
        if seen is None:
            self._in_the_way.pop(key, None)
            return None
        planned = plan(seen)
        if self._view.ipam_is_away and needs_ipam(planned):
            return await self._wait_for_ipam(seen, self._view.ipam_is_away)
        self._remember(key, seen, planned)
        try:
            await self._executor.run(planned)
        except IpamRefused as refused:
            return await self._refused(seen, refused.cause)
        if key in self._in_the_way:
            return LOOK_AGAIN
        return FRESH.total_seconds() if seen.is_fresh else None

    def _remember(self, key: Key, seen: ClaimSeen, planned: Plan) -> None:
        """From the first IPClaim on until an interface or the claim's own release answers for them."""
        releases = seen.claim.is_going and seen.claim.has_finalizer(CLAIM_RELEASE_FINALIZER)
        if releases or seen.interface is not None or seen.was_bound:
            self._asking.pop(key, None)
        elif any(isinstance(write, Create) and write.resource is resources.IP_CLAIMS for write in writes_of(planned)):
            self._asking[key] = seen

    async def _release_departed(self, key: Key, seen: ClaimSeen | None) -> None:
        """Give back at once what a claim asked for that went without its release; after a restart the sweep does."""
        asked = self._asking.get(key)
        if asked is None or (seen is not None and seen.claim.uid == asked.claim.uid):
            return
        try:
            await self._executor.run(plan_departed(await self._view.departed(asked)))
        except IpamRefused as refused:
            raise refused.cause from refused
        del self._asking[key]

    async def _refused(self, seen: ClaimSeen, error: ApiError) -> float | None:
        """Tell what IPAM answered; what only time or an event can change is not an error of ours."""
        if isinstance(error, Lost):
            return await self._wait_for_ipam(seen, str(error))
        if seen.claim.is_going or isinstance(error, Conflict | Throttled):
            raise error
        failure = refusal_of_write(error, seen.project, seen.claim.namespace)
        await self._executor.run(plan(replace(seen, failure=failure)))
        if failure.reason == reasons.ALLOCATION_FAILED.name:
            raise error
        return None

    async def _wait_for_ipam(self, seen: ClaimSeen, why: str) -> float:
        """Held addresses are not touched, new ones wait with a reason, and nothing is sent until IPAM answers."""
        if not seen.claim.is_going:
            failure = reasons.ALLOCATION_FAILED.refuse(
                error=f"IPAM does not answer ({why}). It is asked again when it does."
            )
            await self._executor.run(plan(replace(seen, failure=failure)))
        return jittered(AWAY)

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

    async def reconcile(self, key: Key) -> float | None:
        """Bring one interface further."""
        seen = await self._view.interface(key)
        if seen is None:
            return None
        try:
            await self._executor.run(interfaces.plan(seen))
        except IpamRefused as refused:
            if isinstance(refused.cause, Lost):
                return jittered(AWAY)
            raise refused.cause from refused
        return None
