"""What a program serves about itself: /metrics, /healthz, /readyz. And how late its event loop is."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from netclaim.kube import metrics
from netclaim.kube.errors import ConfigError

LAG_WINDOW: Final = 10.0


class LoopLag:
    """Measures how late timers run. `worst` is the worst of the last 10 seconds, in seconds."""

    def __init__(self, interval: float = 0.25) -> None:
        self._interval = interval
        self._seen: deque[tuple[float, float]] = deque()

    @property
    def worst(self) -> float:
        return max((lag for _, lag in self._seen), default=0.0)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.monotonic() + self._interval
            await asyncio.sleep(self._interval)
            now = time.monotonic()
            self._seen.append((now, max(0.0, now - due)))
            while self._seen[0][0] < now - LAG_WINDOW:
                self._seen.popleft()
            metrics.LOOP_LAG.set(self.worst)


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, `:port` or `[v6]:port`.

    Raises:
        ConfigError: it is something else.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--metrics-address {address!r} is not host:port")
    return host.strip("[]") or "0.0.0.0", int(port)


class Serving:
    """The HTTP server. Each question is a function that returns the reasons against it (none: 200, else 503)."""

    def __init__(
        self,
        address: str,
        *,
        unhealthy: Callable[[], list[str]],
        unready: Callable[[], list[str]],
        measure: Callable[[], None],
    ) -> None:
        self._address = address
        self._measure = measure
        app = web.Application()
        app.router.add_get("/healthz", self._answer(unhealthy))
        app.router.add_get("/readyz", self._answer(unready))
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        self.bound = ""

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address cannot be taken.
        """
        host, port = split_address(self._address)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(f"cannot serve metrics on {self._address}: {error.strerror or error}") from error
        found = self._runner.addresses[0]
        self.bound = f"[{found[0]}]:{found[1]}" if ":" in found[0] else f"{found[0]}:{found[1]}"

    async def close(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    @staticmethod
    def _answer(question: Callable[[], list[str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def answer(_request: web.Request) -> web.Response:
            reasons = question()
            return web.Response(text="\n".join(reasons) + "\n" if reasons else "ok\n", status=503 if reasons else 200)

        return answer

    async def _metrics(self, _request: web.Request) -> web.Response:
        self._measure()
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
