"""Leader election by a Lease.

Leading is a local fact with an end: `valid_until` = the moment before the last confirmed write + `deadline`. Others may
take the lease only after they have seen it unchanged for `lease` seconds, which is later. No clock is ever compared
with another machine's, and no reply that was lost is taken for a success.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from netclaim.api.meta import Raw
from netclaim.api.resources import LEASES
from netclaim.kube import metrics
from netclaim.kube.backoff import jittered
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound

log = logging.getLogger(__name__)

_LOG_AGAIN = 60.0


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds: until others may take over, until we stop by ourselves, between two attempts."""

    lease: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0


STANDARD = Timings()


def boot_time() -> float:
    """Seconds since boot. Unlike the monotonic clock it goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def new_identity() -> str:
    """A name that no other process has, nor this one after a restart."""
    return f"{os.uname().nodename}_{uuid.uuid4()}"


class Elector:
    """One candidate for one Lease. `run` competes and renews; `lead` runs work while this candidate leads."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        *,
        identity: str = "",
        timings: Timings = STANDARD,
        clock: Callable[[], float] = boot_time,
        die: Callable[[int], object] = os._exit,
    ) -> None:
        self.identity = identity or new_identity()
        self._client = client.for_leases(timings.deadline / 2)
        self._namespace = namespace
        self._name = name
        self._timings = timings
        self._clock = clock
        self._die = die
        self._valid_until = float("-inf")
        self._acquired = asyncio.Event()
        self._lease: Raw | None = None
        self._seen: Raw = {}
        self._seen_at = float("-inf")
        self._holder = ""
        self._failure = ""
        self._logged_at = float("-inf")
        self._gauge = metrics.LEADER.labels(name)
        self._gauge.set(0)

    def is_leader(self) -> bool:
        """Whether this process leads right now."""
        return self._clock() < self._valid_until

    # -- competing -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Compete and renew until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._timings.deadline / 2):
                    await self._attempt()
            except Conflict:
                # The lease is not what we last saw (or our write did take effect, and its reply was lost).
                self._lease = None
            except (ApiError, TimeoutError) as error:
                self._lease = None
                self._report(error)
            await asyncio.sleep(jittered(self._timings.retry))

    async def _attempt(self) -> None:
        if self._lease is None:
            self._lease = await self._read()
        lease = self._lease
        if lease is not None:
            self._observe(lease)
            if not self._is_free(lease):
                self._lease = None
                return
        wanted = self._claimed(lease)
        before = self._clock()
        if lease is None:
            try:
                self._lease = await self._client.create(LEASES, wanted)
            except AlreadyExists:
                return
        else:
            self._lease = await self._client.replace(LEASES, wanted)
        self._won(before)

    async def _read(self) -> Raw | None:
        return await self._client.find(LEASES, self._namespace, self._name)

    def _observe(self, lease: Raw) -> None:
        spec = lease.get("spec") or {}
        if spec != self._seen:
            self._seen, self._seen_at = spec, self._clock()
        holder = str(spec.get("holderIdentity") or "")
        if holder != self._holder:
            self._holder = holder
            if holder != self.identity:
                log.info("lease %s/%s: led by %s", self._namespace, self._name, holder or "nobody")

    def _is_free(self, lease: Raw) -> bool:
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") in (None, "", self.identity):
            return True
        term = max(self._timings.lease, float(spec.get("leaseDurationSeconds") or 0))
        return self._clock() - self._seen_at > term

    def _claimed(self, lease: Raw | None) -> Raw:
        moment = dt.datetime.now(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        before = (lease or {}).get("spec") or {}
        ours = before.get("holderIdentity") == self.identity
        metadata = {"namespace": self._namespace, "name": self._name}
        return {
            "metadata": {**metadata, "resourceVersion": lease["metadata"]["resourceVersion"]} if lease else metadata,
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": max(1, round(self._timings.lease)),
                "acquireTime": before.get("acquireTime") if ours else moment,
                "renewTime": moment,
                "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if ours or not lease else 1),
            },
        }

    def _won(self, before: float) -> None:
        """A write at or after the moment `before` was confirmed."""
        self._failure = ""
        self._valid_until = before + self._timings.deadline
        if not self._acquired.is_set() and self.is_leader():
            log.info("lease %s/%s: leading as %s", self._namespace, self._name, self.identity)
            self._holder = self.identity
            self._gauge.set(1)
            self._acquired.set()

    # -- leading ---------------------------------------------------------------------------------------------------

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` whenever this candidate leads; return when it returns, raise what it raises.

        When the lead is lost the work is cancelled, and the process ends when the work has not stopped before others
        may begin.
        """
        while True:
            await self._acquired.wait()
            task = asyncio.ensure_future(work())
            try:
                while self.is_leader() and not task.done():
                    await asyncio.wait({task}, timeout=max(0.0, self._valid_until - self._clock()))
            except asyncio.CancelledError:
                task.cancel()
                await asyncio.wait({task})
                raise
            if task.done():
                return task.result()
            await self._stop(task)

    async def _stop(self, task: asyncio.Future[None]) -> None:
        self._acquired.clear()
        self._valid_until = float("-inf")
        self._gauge.set(0)
        log.warning("lease %s/%s: lost, the work is stopped", self._namespace, self._name)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=self._timings.lease - self._timings.deadline)
        if not done:
            log.critical("lease %s/%s: the work does not stop, the process ends", self._namespace, self._name)
            self._die(1)
            return
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def release(self) -> None:
        """Give the lease up, so that the next leader need not wait. Call it when the work has ended."""
        self._valid_until = float("-inf")
        self._acquired.clear()
        self._gauge.set(0)
        try:
            async with asyncio.timeout(self._timings.deadline / 2):
                lease = await self._read()
                if lease is None or (lease.get("spec") or {}).get("holderIdentity") != self.identity:
                    return
                freed = self._claimed(lease)
                freed["spec"].update(holderIdentity="", leaseDurationSeconds=1)
                await self._client.replace(LEASES, freed)
                log.info("lease %s/%s: released", self._namespace, self._name)
        except (ApiError, TimeoutError) as error:
            log.warning("lease %s/%s: not released: %s", self._namespace, self._name, error)

    def _report(self, error: Exception) -> None:
        """Say what failed: at once when it is new, then once a minute."""
        text = str(error) or f"no answer within {self._timings.deadline / 2:g} s"
        now = self._clock()
        kind = type(error).__name__
        if kind == self._failure and now - self._logged_at < _LOG_AGAIN:
            return
        self._failure, self._logged_at = kind, now
        advice = ""
        if isinstance(error, NotFound):
            advice = f"; does the namespace {self._namespace} exist?"
        elif isinstance(error, Forbidden):
            advice = "; the account needs get, create and update on leases there"
        log.warning("lease %s/%s: cannot be read or written: %s%s", self._namespace, self._name, text, advice)
