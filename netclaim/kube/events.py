"""Kubernetes Events (events.k8s.io/v1): told in the background, joined when they repeat, and never in the way."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Literal

from netclaim.api.meta import Raw
from netclaim.api.resources import EVENTS
from netclaim.kube import metrics
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError, NotFound
from netclaim.kube.queue import TokenBucket

log = logging.getLogger(__name__)

_SERIES_FOR: Final = 360.0
_KNOWN: Final = 4096
_QUEUED: Final = 1000
_NOTE: Final = 1024
_RATE: Final = 5.0
_BURST: Final = 50
_EARLIEST_UPDATE: Final = 10.0


@dataclass(slots=True)
class _Series:
    """One event that repeats: its stored name, how often, and when we last told the server."""

    namespace: str
    name: str = ""
    count: int = 1
    begun: float = field(default_factory=time.monotonic)
    told_at: float = field(default_factory=time.monotonic)


class EventRecorder:
    """Events of one program at one API server. `event` returns at once; `run` sends."""

    def __init__(self, client: Client, *, controller: str) -> None:
        self._client = client
        self._controller = controller
        self._instance = f"{controller}-{os.uname().nodename}"[:128]
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._queue: asyncio.Queue[tuple[_Series, Raw | None]] = asyncio.Queue(_QUEUED)
        self._bucket = TokenBucket(_RATE, _BURST)

    def event(
        self,
        regarding: Raw,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the API's word
        reason: str,
        note: str,
        *,
        action: str = "Reconcile",
    ) -> None:
        """Tell about `regarding`. The same again within 6 minutes raises a count; too many are dropped and counted."""
        metadata = regarding["metadata"]
        identity = (str(metadata.get("uid") or metadata["name"]), type, reason, note)
        now = time.monotonic()
        series = self._series.get(identity)
        if series is not None and now - series.begun < _SERIES_FOR:
            series.count += 1
            self._series.move_to_end(identity)
            if now - series.told_at >= _EARLIEST_UPDATE:
                series.told_at = now
                self._put(series, None)
            return
        series = _Series(metadata.get("namespace") or "default")
        self._series[identity] = series
        self._series.move_to_end(identity)
        while len(self._series) > _KNOWN:
            self._series.popitem(last=False)
        self._put(series, self._body(regarding, type, reason, note, action))

    async def run(self) -> None:
        """Send what is queued until cancelled."""
        while True:
            series, body = await self._queue.get()
            await asyncio.sleep(self._bucket.wait())
            try:
                await self._send(series, body)
                metrics.EVENTS.labels("sent").inc()
            except ApiError as error:
                metrics.EVENTS.labels("failed").inc()
                log.debug("an event was not recorded: %s", error)

    async def _send(self, series: _Series, body: Raw | None) -> None:
        if body is not None:
            created = await self._client.create(EVENTS, body)
            series.name = created["metadata"]["name"]
        elif series.name:
            told = {"count": series.count, "lastObservedTime": _now()}
            try:
                await self._client.json_patch(
                    EVENTS, series.namespace, series.name, [{"op": "add", "path": "/series", "value": told}]
                )
            except NotFound:
                series.name = ""

    def _put(self, series: _Series, body: Raw | None) -> None:
        try:
            self._queue.put_nowait((series, body))
        except asyncio.QueueFull:
            metrics.EVENTS.labels("dropped").inc()

    def _body(self, regarding: Raw, kind: str, reason: str, note: str, action: str) -> Raw:
        metadata = regarding["metadata"]
        about = {
            "apiVersion": regarding.get("apiVersion"),
            "kind": regarding.get("kind"),
            "namespace": metadata.get("namespace"),
            "name": metadata["name"],
            "uid": metadata.get("uid"),
            "resourceVersion": metadata.get("resourceVersion"),
        }
        return {
            "metadata": {
                "namespace": metadata.get("namespace") or "default",
                "name": f"{metadata['name'][:230]}.{secrets.token_hex(8)}",
            },
            "eventTime": _now(),
            "reportingController": f"netclaim.datumapis.com/{self._controller}",
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "type": kind,
            "note": note if len(note) <= _NOTE else f"{note[: _NOTE - 3]}...",
            "regarding": {name: value for name, value in about.items() if value},
        }


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
