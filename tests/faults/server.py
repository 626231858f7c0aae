"""The fault server: list, watch, get, create, update, apply, JSON patch and delete, each of which can be made to fail.

A fault is asked for with ``server.inject(fault, times=..., when=...)`` and is used up by the next requests that match.
"""

import asyncio
import bisect
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

import orjson
from aiohttp import web

from tests.faults.storage import Happened, Key, Raw, RefusedError, Storage

MANY = 1_000_000


class Fault(Enum):
    """How a request goes wrong. Those that end in ``AFTER`` take effect first: the reply is what is lost."""

    SILENT = "nothing is ever answered; a watch goes quiet"
    RESET = "the connection is reset before anything happens"
    RESET_AFTER = "the request takes effect, then the connection is reset"
    SILENT_AFTER = "the request takes effect, then nothing is ever answered"
    HALF_LINE = "a watch ends in the middle of its next line"
    GONE = "HTTP 410"
    GONE_EVENT = "an ERROR event with code 410 in a watch that was answered with 200"
    THROTTLED_TEXT = "429 as text with Retry-After"
    CONFLICT = "409 that is not about what the request was sent over"
    DENIED = "503 by an admission webhook, as the API server passes it on"
    HTML_503 = "503 with an HTML page"
    HTML_200 = "200 with an HTML page, as captive proxies answer"
    EMPTY = "200 without a body; a watch that ends at once"
    EMPTY_OBJECT = "200 with an empty JSON object"
    GARBAGE_LINE = "a line of a watch that is not JSON"
    UNAUTHORIZED = "401"


@dataclass(frozen=True)
class Request:
    """What a fault may depend on. ``verb`` is one of list, watch, get, create, update, patch, delete."""

    verb: str
    collection: str
    key: Key


Condition = Callable[[Request], bool]


@dataclass
class _Planned:
    fault: Fault
    times: int
    when: Condition


@dataclass
class FaultServer:
    """One API server in memory. ``tokens`` (when not empty) are the only bearer tokens that it knows."""

    storage: Storage = field(default_factory=Storage)
    tokens: set[str] = field(default_factory=set)
    unserved: set[str] = field(default_factory=set)
    seen: list[Request] = field(default_factory=list)
    bookmark_every: float = 0.5
    url: str = ""
    _planned: list[_Planned] = field(default_factory=list)
    _runner: web.AppRunner | None = None
    _port: int = 0
    _sorted: tuple[str, int, list[Key]] = ("", 0, [])

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self, tls: ssl.SSLContext | None = None) -> Self:
        """Listen on loopback: a free port at first, the same port after ``stop``."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=tls, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._port}"
        return self

    async def stop(self) -> None:
        """Refuse connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def kubeconfig(self, *, ca: str = "", token_file: str = "", token: str = "") -> str:
        """A kubeconfig document for this server."""
        cluster = {"server": self.url, **({"certificate-authority": ca} if ca else {})}
        user = {**({"tokenFile": token_file} if token_file else {}), **({"token": token} if token else {})}
        return orjson.dumps(
            {
                "kind": "Config",
                "apiVersion": "v1",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        ).decode()

    # -- faults ----------------------------------------------------------------------------------------------------

    def inject(self, fault: Fault, *, times: int = 1, when: Condition = lambda _: True) -> None:
        """Let the next ``times`` requests that match fail."""
        self._planned.append(_Planned(fault, times, when))

    def heal(self) -> None:
        """No more faults. Requests that hang already go on hanging."""
        self._planned.clear()

    def count(self, verb: str) -> int:
        """How many requests of this verb came in."""
        return sum(request.verb == verb for request in self.seen)

    def _fault(self, request: Request) -> Fault | None:
        for planned in self._planned:
            if planned.when(request):
                planned.times -= 1
                if planned.times <= 0:
                    self._planned.remove(planned)
                return planned.fault
        return None

    # -- requests --------------------------------------------------------------------------------------------------

    async def _serve(self, http: web.Request) -> web.StreamResponse:
        request, subresource = _parse(http)
        self.seen.append(request)
        authorized = not self.tokens or http.headers.get("Authorization", "").removeprefix("Bearer ") in self.tokens
        fault = self._fault(request) if authorized else Fault.UNAUTHORIZED
        body = await http.read()
        if fault in (Fault.SILENT, Fault.RESET):
            return await _vanish(http, fault)
        refused = _refusal(fault)
        if refused is not None:
            return refused
        if request.collection in self.unserved:
            return web.Response(status=404, text="404 page not found\n")
        if request.verb == "watch":
            return await self._watch(http, request, fault)
        if fault is Fault.EMPTY:
            return web.Response(body=b"", content_type="application/json")
        if fault is Fault.EMPTY_OBJECT:
            return web.json_response({})
        try:
            reply, code = self._carry_out(http, request, subresource, orjson.loads(body) if body else {})
        except RefusedError as error:
            return web.json_response(error.status(), status=error.code)
        if fault in (Fault.RESET_AFTER, Fault.SILENT_AFTER):
            return await _vanish(http, fault)
        return web.Response(body=orjson.dumps(reply), status=code, content_type="application/json")

    def _carry_out(self, http: web.Request, request: Request, subresource: str, body: Raw) -> tuple[Raw, int]:
        storage, collection, key = self.storage, request.collection, request.key
        match request.verb:
            case "list":
                return self._list(http, collection, key[0]), 200
            case "get":
                return storage.get(collection, key), 200
            case "create":
                if key[0]:
                    body["metadata"].setdefault("namespace", key[0])
                return storage.create(collection, body), 201
            case "update":
                return storage.replace(collection, key, body), 200
            case "patch" if http.content_type == "application/json-patch+json":
                assert isinstance(body, list)
                return storage.json_patch(collection, key, body), 200
            case "patch":
                if subresource:
                    storage.get(collection, key)
                return storage.merge(collection, key, body), 200
            case "delete":
                return storage.delete(collection, key, body.get("preconditions") or {}), 200
        raise RefusedError(405, "MethodNotAllowed", f"{http.method} is not allowed")

    def _list(self, http: web.Request, collection: str, namespace: str) -> Raw:
        limit = int(http.query.get("limit") or 0)
        token = http.query.get("continue") or ""
        version, _, after = token.partition("/") if token else (str(self.storage.version), "", "")
        if int(version) < self.storage.oldest:
            raise RefusedError(410, "Expired", "the continue token is too old")
        keys = self._sorted_keys(collection)
        if namespace:
            keys = [key for key in keys if key[0] == namespace]
        if after:
            keys = keys[bisect.bisect(keys, tuple(after.split("|"))) :]
        page = keys[:limit] if limit else keys
        metadata = {"resourceVersion": version}
        if len(page) < len(keys):
            metadata["continue"] = f"{version}/{'|'.join(page[-1])}"
        items = [self.storage.collection(collection)[key] for key in page]
        return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}

    def _sorted_keys(self, collection: str) -> list[Key]:
        if self._sorted[:2] != (collection, self.storage.version):
            self._sorted = (collection, self.storage.version, sorted(self.storage.collection(collection)))
        return self._sorted[2]

    async def _watch(self, http: web.Request, request: Request, fault: Fault | None) -> web.StreamResponse:
        since = int(http.query["resourceVersion"])
        gone = RefusedError(410, "Expired", f"too old resource version: {since} ({self.storage.oldest})")
        if since < self.storage.oldest and fault is None:
            fault = Fault.GONE_EVENT
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(http)
        with contextlib.suppress(ConnectionError):
            if fault is Fault.GONE_EVENT:
                await stream.write(_line("ERROR", gone.status()))
            elif fault is not Fault.EMPTY:
                await self._stream(http, stream, request, since, fault)
        return stream

    async def _stream(
        self, http: web.Request, stream: web.StreamResponse, request: Request, since: int, fault: Fault | None
    ) -> None:
        async for happened in self._events(request, since):
            if happened is None:
                mark = {"metadata": {"resourceVersion": str(self.storage.version)}}
                await stream.write(_line("BOOKMARK", mark))
                continue
            line = _line(happened.type, happened.object)
            if fault is Fault.HALF_LINE:
                await stream.write(line[: len(line) // 2])
                return
            if fault is Fault.GARBAGE_LINE:
                await stream.write(b"\x00not json\n")
                return
            if fault in (Fault.RESET_AFTER, Fault.SILENT_AFTER):
                await stream.write(line)
                await _vanish(http, fault)
            await stream.write(line)

    async def _events(self, request: Request, since: int) -> AsyncIterator[Happened | None]:
        """What happened after `since`, then None now and then: the time for a bookmark."""
        reached = since
        while True:
            pending = [
                each
                for each in self.storage.history
                if each.version > reached
                and each.collection == request.collection
                and (not request.key[0] or each.object["metadata"].get("namespace") == request.key[0])
            ]
            for each in pending:
                yield each
                reached = each.version
            if pending:
                continue
            try:
                async with asyncio.timeout(self.bookmark_every), self.storage.changed:
                    await self.storage.changed.wait()
            except TimeoutError:
                # A version from the future is waited for in silence, without bookmarks, as the real server does.
                if since <= self.storage.version:
                    yield None


def _parse(http: web.Request) -> tuple[Request, str]:
    parts = http.path.strip("/").split("/")
    depth = 2 if parts[0] == "api" else 3
    base, rest = parts[:depth], parts[depth:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "", "")[:3]
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    verb = verbs.get(http.method) or ("watch" if http.query.get("watch") else "get" if name else "list")
    return Request(verb, "/" + "/".join([*base, plural]), (namespace, name)), subresource


def _refusal(fault: Fault | None) -> web.Response | None:
    match fault:
        case Fault.UNAUTHORIZED:
            return web.json_response(RefusedError(401, "Unauthorized", "Unauthorized").status(), status=401)
        case Fault.GONE:
            return web.json_response(RefusedError(410, "Expired", "too old resource version").status(), status=410)
        case Fault.THROTTLED_TEXT:
            return web.Response(
                status=429, text="Too many requests, please try again later.\n", headers={"Retry-After": "1"}
            )
        case Fault.CONFLICT:
            return web.json_response(RefusedError(409, "Conflict", "the object has been modified").status(), status=409)
        case Fault.DENIED:
            denied = RefusedError(503, "ServiceUnavailable", 'admission webhook "a.b" denied the request: not yet')
            return web.json_response(denied.status(), status=503)
        case Fault.HTML_503:
            return web.Response(status=503, text="<html><h1>503</h1></html>", content_type="text/html")
        case Fault.HTML_200:
            return web.Response(status=200, text="<html>sign in</html>", content_type="text/html")
    return None


async def _vanish(http: web.Request, fault: Fault) -> web.Response:
    """Never answer; reset the connection where the fault says so."""
    assert http.transport is not None
    if fault in (Fault.RESET, Fault.RESET_AFTER):
        connection = http.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        http.transport.abort()
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


def _line(kind: str, obj: Raw) -> bytes:
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"
