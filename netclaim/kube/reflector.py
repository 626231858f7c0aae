"""Keeping a store equal to what one API server holds of one kind: list once, then watch, through every fault."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import itertools
import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import ClassVar, Final

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube import metrics
from netclaim.kube.backoff import Backoff, jittered
from netclaim.kube.client import PAGE, Client, WatchEvent
from netclaim.kube.errors import ApiError, Forbidden, Gone, Lost, NotFound, ServerError
from netclaim.kube.objects import is_going, key_of, slimmed, uid_of, version_number
from netclaim.kube.store import Change, Store

log = logging.getLogger(__name__)

SILENT_AFTER: Final = 210.0
"""Seconds without a word from the server after which a reflector that is not backing off is unhealthy."""

_BATCH: Final = 100
_LOG_AGAIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a reflector comes back, in seconds."""

    first: float = 0.8
    """After the first failure, doubling from there on."""

    longest: float = 30.0
    healthy: float = 120.0
    """So long without a failure, and the next one waits `first` again."""

    short_watch: float = 1.0
    """A watch that ends sooner than this without an event counts as a failure."""

    relist: float = 1.0
    """At most this long before a list after an expired version, at random."""

    not_served: float = 30.0
    """Between two looks whether the kind is served now."""


STANDARD: Final = Pace()


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind: a namespace (None: all), selectors."""

    resource: Resource
    namespace: str | None = None
    label_selector: str | None = None
    field_selector: str | None = None

    def __str__(self) -> str:
        parts = [self.resource.plural, self.namespace and f"in {self.namespace}"]
        parts += [self.label_selector and f"with {self.label_selector}", self.field_selector]
        return " ".join(part for part in parts if part)


class QuietGc:
    """No cyclic garbage collection while long first lists are decoded: it is most of their cost; they hold no cycles.

    The objects of the lists are frozen afterwards: they never need to be looked through again.
    """

    _depth: ClassVar[int] = 0

    @classmethod
    @contextlib.contextmanager
    def hold(cls) -> Iterator[None]:
        """Hold collection off; may be nested and interleaved among tasks."""
        cls._depth += 1
        if cls._depth == 1:
            # What is garbage now would be frozen with the rest for good.
            gc.collect()
            gc.disable()
        try:
            yield
        finally:
            cls._depth -= 1
            if not cls._depth:
                gc.freeze()
                gc.enable()


class Reflector:
    """One list-and-watch. `run` never returns; `synced` is set once the store was equal to the server.

    `refused` tells that the server does not serve this kind, or not to us: no controller but its own waits for it.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection,
        *,
        slim: Callable[[Raw], Raw] | None = None,
        pace: Pace = STANDARD,
    ) -> None:
        self.client = client
        self.selection = selection
        self.resource = selection.resource
        self.store = Store(selection.resource)
        self.synced = asyncio.Event()
        self.refused = False
        self.forgotten = False
        self.backing_off = False
        self.last_heard = time.monotonic()
        self.failure = ""
        self._slim = slim
        self._version = ""
        self._highest = 0
        self._pace = pace
        self._backoff = Backoff(pace.first, pace.longest, pace.healthy)
        self._in_one_piece = False
        self._logged_at = float("-inf")
        self._tickets = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._waiting_gone: dict[Key, list[tuple[str, asyncio.Future[None]]]] = {}
        self.store.subscribe(self._resolve_gone)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The resource version that the store has reached."""
        return version_number(self._version)

    @property
    def age(self) -> float:
        """Seconds since the server said anything."""
        return time.monotonic() - self.last_heard

    @property
    def healthy(self) -> bool:
        """Whether the server was heard of lately, or its absence is known and retried."""
        return self.backing_off or self.age < SILENT_AFTER

    # -- read your own writes --------------------------------------------------------------------------------------

    def expect_version(self, version: int) -> asyncio.Future[None] | None:
        """A future that is done once the store has passed `version`; None when it has."""
        if version <= self.version:
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (version, next(self._tickets), future))
        return future

    def expect_gone(self, key: Key, uid: str) -> asyncio.Future[None] | None:
        """A future that is done once the store shows that the object is going or gone; None when it does."""
        held = self.store.get(key)
        if held is None or (uid and uid_of(held) != uid) or is_going(held):
            return None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_gone.setdefault(key, []).append((uid_of(held), future))
        return future

    def observe(self, key: Key, raw: Raw | None) -> None:
        """Take in what a live GET found (None: nothing) when the stream is late."""
        if raw is None:
            self.store.remove(key)
        else:
            self.store.put(self._shaped(raw))

    def _advance(self, version: str) -> None:
        if not version:
            return
        self._version = version
        reached = self.version
        while self._waiting and self._waiting[0][0] <= reached:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def _resolve_gone(self, change: Change) -> None:
        waiting = self._waiting_gone.get(change.key)
        if not waiting:
            return
        if change.new is not None and not is_going(change.new):
            return
        for _, future in self._waiting_gone.pop(change.key):
            if not future.done():
                future.set_result(None)

    # -- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """List, watch, and begin again where it must. Ends by cancellation only."""
        self.last_heard = time.monotonic()
        while True:
            started = time.monotonic()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except ApiError as error:
                self._backoff.healthy_for(time.monotonic() - started)
                await self._recover(error)

    async def _recover(self, error: ApiError) -> None:
        metrics.REFLECTOR_FAILURES.labels(self.client.host, self.resource.plural, type(error).__name__).inc()
        delay = max(self._backoff.next(), error.retry_after or 0.0)
        if isinstance(error, Gone):
            # A version that expired is no fault; only a second one in a row is.
            self._in_one_piece = not self._version
            self._version = ""
            delay = random.uniform(0.0, self._pace.relist) if self._backoff.failures <= 1 else delay  # noqa: S311
        elif isinstance(error, NotFound):
            self._version = ""
            self.refused = True
            delay = jittered(self._pace.not_served, spread=0.5)
        elif isinstance(error, Forbidden):
            self.refused = True
        self._report(error, delay)
        self.backing_off = True
        try:
            await asyncio.sleep(delay)
        finally:
            self.backing_off = False
            self.last_heard = time.monotonic()

    async def _list(self) -> None:
        selection = self.selection
        metrics.REFLECTOR_LISTS.labels(self.client.host, self.resource.plural).inc()
        with contextlib.ExitStack() as stack:
            objects: dict[Key, Raw] = {}
            version = ""
            pages = self.client.list_pages(
                self.resource,
                selection.namespace,
                label_selector=selection.label_selector,
                field_selector=selection.field_selector,
                limit=0 if self._in_one_piece else PAGE,
            )
            async with aclosing(pages):
                async for page in pages:
                    self._heard()
                    version = page.resource_version
                    if page.token and not objects and not self.synced.is_set():
                        stack.enter_context(QuietGc.hold())
                    for raw in page.items:
                        shaped = self._shaped(raw)
                        objects[key_of(shaped)] = shaped
                    await asyncio.sleep(0)
            await self._replace(objects, version)
        self._in_one_piece = False
        self.refused = False
        if not self.synced.is_set():
            log.info("synced %s: %d objects", selection, len(self.store))
            self.synced.set()

    async def _replace(self, objects: dict[Key, Raw], version: str) -> None:
        """Make the store equal to a list, in pieces that do not stall the loop."""
        listed = version_number(version)
        # A list that is older than what we knew comes from a restored backup: then the list is right, not we.
        restored = listed < self._highest
        initial = not self.synced.is_set()
        missing = [key for key in list(self.store.keys()) if key not in objects]
        for number, key in enumerate(missing, 1):
            self.store.remove(key, version=None if restored else listed)
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        for number, raw in enumerate(objects.values(), 1):
            self.store.put(raw, initial=initial, force=restored)
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        self._advance(version)
        self._highest = listed

    async def _watch(self) -> None:
        started = time.monotonic()
        events = 0
        selection = self.selection
        stream = self.client.watch(
            self.resource,
            selection.namespace,
            resource_version=self._version,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            timeout_seconds=random.randint(300, 600),  # noqa: S311
        )
        try:
            async with aclosing(stream):
                async for event in stream:
                    self._heard()
                    events += 1
                    self._take(event)
                    if events % _BATCH == 0:
                        await asyncio.sleep(0)
        except Lost as error:
            if not events and not error.dropped:
                # Not even a bookmark. A server whose storage was restored to an older version behaves like this: it
                # waits in silence for the version that we ask for. Only a list shows what is there.
                self._version = ""
            raise
        self._heard()
        lasted = time.monotonic() - started
        self._backoff.healthy_for(lasted)
        if not events and lasted < self._pace.short_watch:
            raise ServerError(f"watch of {selection}: ended after {lasted:.1f} s without an event", reason="ShortWatch")

    def _take(self, event: WatchEvent) -> None:
        try:
            version = str(event.object["metadata"].get("resourceVersion") or "")
            if event.type != "BOOKMARK":
                shaped = self._shaped(event.object)
                key = key_of(shaped)
                if event.type == "DELETED":
                    self.store.remove(key, version=version_number(version) or None)
                else:
                    self.store.put(shaped)
        except (KeyError, TypeError, AttributeError) as error:
            metrics.MALFORMED.labels(self.resource.plural).inc()
            log.warning("watch of %s: an event without name or metadata was left out: %r", self.selection, error)
            return
        # Only now: an event that the store did not take must come again.
        self._advance(version)
        self._highest = max(self._highest, self.version)

    def _shaped(self, raw: Raw) -> Raw:
        kept = slimmed(raw, self.resource)
        if self._slim is None:
            return kept
        try:
            return self._slim(kept)
        except Exception as error:  # noqa: BLE001 - a malformed object is kept as it is
            self.store.report_malformed(kept, error)
            return kept

    def _heard(self) -> None:
        self.last_heard = time.monotonic()
        if self.failure:
            log.info("%s: reached again", self.selection)
            self.failure = ""
            self._logged_at = float("-inf")

    def _report(self, error: ApiError, delay: float) -> None:
        """Say what failed: at once when it is new, then once a minute."""
        text = str(error)
        now = time.monotonic()
        level = logging.DEBUG
        if type(error).__name__ != self.failure or now - self._logged_at > _LOG_AGAIN:
            level = logging.INFO if isinstance(error, Gone) else logging.WARNING
            self._logged_at = now
        self.failure = type(error).__name__
        advice = ""
        if isinstance(error, Forbidden):
            advice = f"; the account needs get, list and watch on {self.resource.qualified_name}"
        elif isinstance(error, NotFound):
            advice = f"; is the CustomResourceDefinition {self.resource.qualified_name} installed?"
        log.log(
            level,
            "cannot follow %s at %s: %s%s; again in %.1f s",
            self.selection,
            self.client.server,
            text,
            advice,
            delay,
        )
