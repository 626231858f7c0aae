"""A gateway on loopback before a real API server: what comes in goes on to it, except for what is made to go wrong.

Unlike the proxy it reads the requests (they come in as plain HTTP and go on over TLS as the administrator), so each
kind of fault can be told from the others: refused before it took effect, or lost after it did.
"""

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web

from netclaim.kube import endpoint
from netclaim.kube.transport import Transport


class Fault(Enum):
    """How a request goes wrong. Only with `LOST` has it taken effect."""

    REFUSED = "the connection is reset before the server hears of the request"
    LOST = "the server carries the request out, and the connection is reset instead of the reply"
    CONFLICT = 409
    THROTTLED = 429
    BROKEN = 500
    AWAY = 503


_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
_HOP_BY_HOP = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})


@dataclass
class Gateway:
    """Forwards to the API server of a kubeconfig. `rate` is the share of requests that go wrong, watches left out."""

    kubeconfig: Path
    seed: int = 0
    rate: float = 0.0
    address: str = ""
    happened: Counter[Fault] = field(default_factory=Counter)
    _chance: random.Random = field(default_factory=random.Random)
    _transport: Transport | None = None
    _session: aiohttp.ClientSession | None = None
    _runner: web.AppRunner | None = None
    _watches: set[asyncio.Transport] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._chance = random.Random(self.seed)
        self._transport = Transport(await endpoint.find(str(self.kubeconfig)), user_agent="gateway")
        await self._transport.credentials.refresh()
        connector = aiohttp.TCPConnector(ssl=self._transport.credentials.context, limit=0)
        # Nothing is asked for compressed: a long list would be, and who asked for it did not.
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=False, skip_auto_headers=["Accept-Encoding"]
        )
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        assert self._session is not None
        assert self._transport is not None
        self.cut()
        await self._runner.cleanup()
        await self._session.close()
        await self._transport.close()

    def write_kubeconfig(self, path: Path) -> Path:
        """A kubeconfig whose server is the gateway."""
        cluster = {"name": "c", "cluster": {"server": self.address}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        users = [{"name": "u", "user": {}}]
        document = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": users}
        path.write_bytes(orjson.dumps(document | {"clusters": [cluster], "contexts": [context]}))
        return path

    def cut(self) -> None:
        """Break every watch: what happens until it is resumed is not heard of meanwhile."""
        for transport in list(self._watches):
            transport.abort()

    def _fault(self, method: str) -> Fault | None:
        if self._chance.random() >= self.rate:
            return None
        kinds = [Fault.REFUSED, Fault.LOST, Fault.THROTTLED, Fault.BROKEN, Fault.AWAY]
        # Nothing that is made anew, and nothing that is read, can be in conflict with what is there.
        kinds += [Fault.CONFLICT] if method in ("PATCH", "PUT", "DELETE") else []
        chosen = self._chance.choice(kinds)
        self.happened[chosen] += 1
        return chosen

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        assert self._transport is not None
        body = await request.read()
        is_watch = "watch" in request.query
        fault = None if is_watch else self._fault(request.method)
        if fault is Fault.REFUSED:
            return await _reset(request)
        if fault is not None and fault is not Fault.LOST:
            return _status(int(fault.value))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        url = f"{self._transport.endpoint.server}{request.rel_url.raw_path_qs}"
        async with self._session.request(request.method, url, data=body or None, headers=headers) as reply:
            if is_watch and reply.status == 200:
                return await self._stream(request, reply)
            answer = await reply.read()
        if fault is Fault.LOST:
            return await _reset(request)
        kept = {name: reply.headers[name] for name in ("Content-Type", "Retry-After") if name in reply.headers}
        return web.Response(body=answer, status=reply.status, headers=kept)

    async def _stream(self, request: web.Request, reply: aiohttp.ClientResponse) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": reply.headers["Content-Type"]})
        transport: Any = request.transport
        self._watches.add(transport)
        try:
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):
                await stream.prepare(request)
                async for chunk in reply.content.iter_any():
                    await stream.write(chunk)
        finally:
            self._watches.discard(transport)
        return stream


async def _reset(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def _status(code: int) -> web.Response:
    said: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    said |= {"code": code, "reason": _REASONS[code], "message": "the gateway says so"}
    return web.json_response(said, status=code)
