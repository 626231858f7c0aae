"""A controller: keys come in from watched objects, `reconcile(key)` brings the world in line with them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import structlog

from netclaim.api.meta import Key, Raw
from netclaim.kube import metrics, namespaces
from netclaim.kube.backoff import jittered
from netclaim.kube.errors import ApiError, Conflict, LeadershipLost, Lost, ServerError, Throttled
from netclaim.kube.flight import Expectation, Flight, current
from netclaim.kube.objects import key_of
from netclaim.kube.predicates import Predicate, changed_any
from netclaim.kube.queue import Lane, WorkQueue
from netclaim.kube.reflector import Reflector
from netclaim.kube.store import Change

log = logging.getLogger(__name__)

Reconcile: TypeAlias = Callable[[Key], Awaitable[float | None]]
KeysOf: TypeAlias = Callable[[Raw], Iterable[Key]]

HOLD: Final = 5.0
"""Seconds that a key waits for its writes to show in the stores before they are read live."""

_RESULTS: Final = ("success", "requeue_after", "error", "not_leading", "namespace_going")

_PASSING: Final[tuple[tuple[type[ApiError], float], ...]] = (
    (Conflict, 1.0),
    (Lost, 10.0),
    (ServerError, 10.0),
    (Throttled, 10.0),
)
"""Failures that say nothing about the key, and the longest delay after them: what waits must not wait on for minutes
when the server is back."""


def own_key(raw: Raw) -> Iterable[Key]:
    """The mapping of a controller to the objects that it reconciles."""
    return (key_of(raw),)


@dataclass(frozen=True, slots=True)
class Source:
    """A watched reflector, and which keys an object of it concerns."""

    reflector: Reflector
    keys: KeysOf
    when: Predicate


class Controller:
    """Runs `reconcile` for keys, never twice at once for one, level-triggered.

    `reconcile` returns None, or the seconds after which to look again. What it raises is logged once per key and
    reason, and the key comes again after a delay that doubles from 5 ms to `backoff_max`. A write that is refused
    because the namespace is going ends the run as well, and is nobody's failure. `timeout` seconds bound one run. Every
    key of the first watched reflector is looked at again every `resync` seconds, spread over that time.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *,
        workers: int = 4,
        timeout: float = 60.0,
        resync: float = 300.0,
        backoff_max: float = 300.0,
    ) -> None:
        self.name = name
        self.workers = workers
        self.queue: WorkQueue[Key] = WorkQueue(name, backoff_max=backoff_max)
        self.first_pass: float | None = None
        self._reconcile = reconcile
        self._timeout = timeout
        self._resync = resync
        self._sources: list[Source] = []
        self._told: dict[Key, str] = {}
        self._leads: Callable[[], bool] = lambda: True
        self._group: asyncio.TaskGroup | None = None
        self._holds: set[asyncio.Task[None]] = set()
        self._started = 0.0
        self._ran = False
        metrics.MAX_WORKERS.labels(name).set(workers)
        self._errors = metrics.RECONCILE_ERRORS.labels(name)
        self._time = metrics.RECONCILE_TIME.labels(name)
        self._active = metrics.ACTIVE_WORKERS.labels(name)
        self._results = {result: metrics.RECONCILES.labels(name, result) for result in _RESULTS}

    # -- what wakes it ---------------------------------------------------------------------------------------------

    def watch(self, reflector: Reflector, keys: KeysOf, *, when: Predicate = changed_any) -> None:
        """Enqueue `keys(object)` for every object that appears, goes, or changes as `when` says.

        When a change moves an object from one set of keys to another, both are enqueued.
        """
        source = Source(reflector, keys, when)
        # A program that follows what comes and goes watches often: what was forgotten meanwhile is let go of here.
        self._sources = [*self.sources, source]
        reflector.store.subscribe(lambda change: self._on_change(source, change))
        for raw in list(reflector.store.all()):
            self._enqueue_of(source, raw, Lane.SLOW)

    def enqueue(self, key: Key, after: float = 0.0) -> None:
        """Look at `key` now, or in `after` seconds."""
        self.queue.add_after(key, after)

    @property
    def sources(self) -> list[Source]:
        """What is watched and was not forgotten."""
        self._sources = [source for source in self._sources if not source.reflector.forgotten]
        return self._sources

    @property
    def unsynced(self) -> list[Reflector]:
        """The watched reflectors that have not been equal to the server yet."""
        return [source.reflector for source in self.sources if not source.reflector.synced.is_set()]

    def _on_change(self, source: Source, change: Change) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and not source.when(old, new):
            return
        lane = Lane.SLOW if change.initial else Lane.LIVE
        for raw in (new, old):
            if raw is not None:
                self._enqueue_of(source, raw, lane)

    def _enqueue_of(self, source: Source, raw: Raw, lane: Lane) -> None:
        try:
            keys = list(source.keys(raw))
        except Exception as error:  # noqa: BLE001 - a malformed object must not stop the stream
            source.reflector.store.report_malformed(raw, error)
            return
        for key in keys:
            self.queue.add(key, lane)

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self, leads: Callable[[], bool] = lambda: True) -> None:
        """Work until cancelled, or until `drain` was called and the running reconciles ended.

        `leads` is asked before each write of a reconcile. May be called again after it was cancelled: then every known
        key is looked at anew, since somebody else may have worked meanwhile, beside those that were queued.
        """
        self._leads = leads
        if self._ran:
            for source in self.sources:
                for raw in list(source.reflector.store.all()):
                    self._enqueue_of(source, raw, Lane.SLOW)
        self._ran = True
        self._started = time.monotonic()
        self.first_pass = None
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                resync = group.create_task(self._resync_forever(), name=f"{self.name}-resync")
                workers = [
                    group.create_task(self._work(), name=f"{self.name}-{number}") for number in range(self.workers)
                ]
                await asyncio.wait(workers)
                for task in (resync, *self._holds):
                    task.cancel()
        finally:
            self._group = None

    def drain(self) -> None:
        """Start no further reconcile. What is queued is dropped: whoever works next begins with a full pass."""
        self.queue.close()

    def measure(self) -> None:
        """Bring the gauges up to date."""
        longest, total = self.queue.longest_running()
        metrics.QUEUE_LONGEST.labels(self.name).set(longest)
        metrics.QUEUE_UNFINISHED.labels(self.name).set(total)

    async def _work(self) -> None:
        while (key := await self.queue.get()) is not None:
            self._active.inc()
            flight = Flight(self._leads)
            try:
                await self._reconcile_once(key, flight)
            except BaseException:
                # Stopped in the middle: whoever works next, perhaps we, begins with it.
                self.queue.add(key)
                self.queue.done(key)
                raise
            finally:
                self._active.dec()
            self._finish(key, flight)
            # A reconcile that had nothing to do never waited: the lease and the watches come in between.
            await asyncio.sleep(0)

    def _finish(self, key: Key, flight: Flight) -> None:
        pending = [future for each in flight.expectations if (future := each.future()) is not None]
        if not pending or self._group is None:
            self._release(key)
            return
        hold = self._group.create_task(self._hold(key, pending, flight.expectations), name=f"{self.name}-hold")
        self._holds.add(hold)
        hold.add_done_callback(self._holds.discard)

    async def _hold(self, key: Key, pending: list[asyncio.Future[None]], expectations: list[Expectation]) -> None:
        try:
            async with asyncio.timeout(HOLD):
                for future in pending:
                    await future
        except TimeoutError:
            log.debug("%s %s: the watch is late, reading live", self.name, "/".join(key))
            for expectation in expectations:
                if expectation.future() is not None:
                    try:
                        await expectation.look_live()
                    except ApiError as error:
                        log.debug("%s %s: cannot read live: %s", self.name, "/".join(key), error)
        finally:
            self._release(key)

    def _release(self, key: Key) -> None:
        self.queue.done(key)
        if self.first_pass is None and self.queue.at_rest:
            self.first_pass = time.monotonic() - self._started
            log.info("%s: first pass done after %.2f s", self.name, self.first_pass)

    async def _reconcile_once(self, key: Key, flight: Flight) -> None:
        started = time.monotonic()
        token = current.set(flight)
        result = "error"
        with structlog.contextvars.bound_contextvars(
            controller=self.name, key="/".join(part for part in key if part), reconcile_id=secrets.token_hex(4)
        ):
            limit = asyncio.timeout(self._timeout)
            try:
                async with limit:
                    again = await self._reconcile(key)
            except LeadershipLost as error:
                log.info("stopped: %s", error)
                result = "not_leading"
            except TimeoutError as error:
                text = f"took longer than {self._timeout:g} s and was stopped" if limit.expired() else str(error)
                self._failed(key, text or "timed out", None)
            except ApiError as error:
                if namespaces.is_going(error):
                    result = "namespace_going"
                    log.debug("left alone, again in %.1f s: %s", self.queue.retry(key), error)
                else:
                    self._failed(key, str(error), error)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other keys go on
                self._failed(key, f"{type(error).__name__}: {error}", error)
            else:
                result = "success" if again is None else "requeue_after"
                self._succeeded(key, again)
            finally:
                current.reset(token)
                self._results[result].inc()
                self._time.observe(time.monotonic() - started)

    def _succeeded(self, key: Key, again: float | None) -> None:
        self.queue.forget(key)
        if self._told.pop(key, None) is not None:
            log.info("succeeded after failures")
        if again is not None:
            self.queue.add_after(key, again)

    def _failed(self, key: Key, text: str, error: Exception | None) -> None:
        self._errors.inc()
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        at_most = next((limit for kind, limit in _PASSING if isinstance(error, kind)), float("inf"))
        delay = self.queue.retry(key, at_least=jittered(retry_after) if retry_after else 0.0, at_most=at_most)
        if isinstance(error, Conflict | Lost):
            # Somebody was faster, or the server is away (its reflectors say so): looking again is all there is to do.
            log.debug("again in %.3f s: %s", delay, text)
            return
        if self._told.get(key) == text:
            log.debug("failed again, next in %.1f s: %s", delay, text)
            return
        self._told[key] = text
        unexpected = error is not None and not isinstance(error, ApiError)
        log.error("failed, tried again with growing delays: %s", text, exc_info=error if unexpected else None)

    async def _resync_forever(self) -> None:
        """Look at every key again, a few at a time, so that no burst ever comes of it."""
        while True:
            await asyncio.sleep(jittered(self._resync, spread=0.1) / 2)
            sources = self.sources
            if not sources:
                continue
            first = sources[0]
            keys = list(first.reflector.store.keys())
            batches = max(1, min(len(keys), int(self._resync)))
            pause = jittered(self._resync, spread=0.1) / 2 / batches
            for number in range(batches):
                for key in keys[number::batches]:
                    raw = first.reflector.store.get(key)
                    if raw is not None:
                        self._enqueue_of(first, raw, Lane.SLOW)
                await asyncio.sleep(pause)
