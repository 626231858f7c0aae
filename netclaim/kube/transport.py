"""Connections to one API server: pools, keepalive, a timeout on everything, and errors by kind.

Why our own: the client library sends every request without a timeout and without TCP keepalive, and reads bodies
before it looks at the status.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from netclaim.kube import metrics
from netclaim.kube.credentials import Credentials
from netclaim.kube.endpoint import Endpoint
from netclaim.kube.errors import ApiError, Lost, ServerError, from_status

_EXCERPT: Final = 200
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)
_POOLS: Final = {"watch": 0, "request": 32, "lease": 2}


@dataclass(frozen=True, slots=True)
class Timeout:
    """Seconds: for the whole request, and between two reads."""

    total: float
    read: float | None = None


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited for what, in seconds. Everything has an end."""

    connect: float = 5.0
    unary: Timeout = Timeout(30.0)
    list_page: Timeout = Timeout(60.0, 20.0)
    watch_read: float = 70.0
    """Between two reads of a watch: bookmarks come once a minute."""

    watch_grace: float = 30.0
    """How much longer than asked for a watch may last."""


STANDARD: Final = Patience()


class _Resolver(AbstractResolver):
    """Name resolution in our own thread: a full default pool must not stop the renewal of a lease."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await asyncio.get_running_loop().run_in_executor(
            self._executor,
            lambda: socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG),
        )
        return [
            ResolveResult(
                hostname=host, host=str(address[0]), port=port, family=kind, proto=proto, flags=socket.AI_NUMERICHOST
            )
            for kind, _, proto, _, address in found
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _socket(info: tuple[Any, ...]) -> socket.socket:
    family, kind, proto = info[0], info[1], info[2]
    made = socket.socket(family, kind, proto)
    made.setblocking(False)  # noqa: FBT003 - positional only
    if family in (socket.AF_INET, socket.AF_INET6):
        for level, option, value in _KEEPALIVE:
            made.setsockopt(level, option, value)
    return made


class Transport:
    """Sends requests to one endpoint. Three pools, so that neither watches nor a burst of writes delay a lease."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str, patience: Patience = STANDARD) -> None:
        self.endpoint = endpoint
        self.patience = patience
        self.base = URL(endpoint.server)
        self.host = self.base.authority
        self._executor = ThreadPoolExecutor(2, thread_name_prefix="kube-io")
        self.credentials = Credentials(endpoint, self._executor)
        self._sessions = {
            pool: aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=limit, socket_factory=_socket, resolver=_Resolver(self._executor), keepalive_timeout=50
                ),
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                # Compression costs both sides more CPU than a cluster's own network saves.
                headers={"User-Agent": user_agent, "Accept": "application/json", "Accept-Encoding": "identity"},
                read_bufsize=2**18,
            )
            for pool, limit in _POOLS.items()
        }

    async def close(self) -> None:
        """Close every connection."""
        for session in self._sessions.values():
            await session.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        timeout: Timeout | None = None,
        pool: str = "request",
    ) -> Any:
        """Send one request and return its JSON reply.

        Raises:
            ApiError: what the server answered, or Lost.
        """
        payload = None if body is None else orjson.dumps(body)
        started = time.monotonic()
        try:
            async with self.open(
                method, path, query=query, payload=payload, content_type=content_type, timeout=timeout, pool=pool
            ) as reply:
                raw = await self._read(reply, f"{method} {path}")
        finally:
            metrics.REQUEST_TIME.labels(method, self.host).observe(time.monotonic() - started)
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            raise ServerError(f"{method} {self._shown(path)}: the reply is not JSON: {error}") from error

    @contextlib.asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        payload: bytes | None = None,
        content_type: str = "application/json",
        timeout: Timeout | None = None,
        pool: str = "request",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The reply to a request, once its status and content type are good; its body is still to be read."""
        url = URL(f"{self.endpoint.server}{path}", encoded=True).with_query(dict(query or {}))
        limits = timeout or self.patience.unary
        limit = aiohttp.ClientTimeout(total=limits.total, sock_connect=self.patience.connect, sock_read=limits.read)
        await self.credentials.refresh()
        for attempt in (1, 2):
            token = self.credentials.token
            context = self.credentials.context
            headers = [*self.credentials.headers(), *([("Content-Type", content_type)] if payload else [])]
            try:
                reply = await self._sessions[pool].request(
                    method,
                    url,
                    data=payload,
                    headers=headers,
                    timeout=limit,
                    ssl=context,
                    server_hostname=self.endpoint.server_name,
                    proxy=self.endpoint.proxy,
                    allow_redirects=False,
                )
            except aiohttp.ClientConnectorCertificateError as error:
                self._count(method, "<error>")
                await self.credentials.refresh(force=True)
                if attempt == 1 and self.credentials.context is not context:
                    continue
                raise Lost(f"{method} {self._shown(path)}: {error.certificate_error}") from error
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                self._count(method, "<error>")
                raise self._lost(error, method, path) from error
            self._count(method, str(reply.status))
            if reply.status == 401 and token and attempt == 1:
                await self.credentials.refresh(force=True)
                if self.credentials.token != token:
                    reply.close()
                    continue
            break
        try:
            if not 200 <= reply.status < 300:
                raise await self._refusal(reply, f"{method} {self._shown(path)}")
            if reply.content_type != "application/json":
                raise ServerError(
                    f"{method} {self._shown(path)}: the reply is {reply.content_type}, not JSON: "
                    "what answers there is not an API server",
                    status=reply.status,
                    reason="NotJSON",
                )
            yield reply
        finally:
            # Closes the connection unless the body was read to its end: a half-read one must not return to the pool.
            reply.close() if not reply.content.at_eof() else reply.release()

    async def _read(self, reply: aiohttp.ClientResponse, what: str) -> bytes:
        try:
            return await reply.read()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            method, path = what.split(" ", 1)
            raise self._lost(error, method, path) from error

    async def chunks(self, reply: aiohttp.ClientResponse, method: str, path: str) -> AsyncIterator[bytes]:
        """The body as it arrives.

        Raises:
            Lost: the stream broke or went silent.
        """
        try:
            async for chunk in reply.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self._lost(error, method, path) from error

    async def _refusal(self, reply: aiohttp.ClientResponse, what: str) -> ApiError:
        try:
            raw = await reply.content.read(2**20) if reply.content_type != "application/json" else await reply.read()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            raw = b""
        retry_after = reply.headers.get("Retry-After", "")
        body = None
        if reply.content_type == "application/json":
            with contextlib.suppress(orjson.JSONDecodeError):
                body = orjson.loads(raw)
        text = " ".join(raw[:_EXCERPT].decode("utf-8", "replace").split()) or reply.reason or ""
        return from_status(
            reply.status,
            body if isinstance(body, dict) else None,
            text,
            where=what,
            retry_after=float(retry_after) if retry_after.isdigit() else None,
        )

    def _lost(self, error: BaseException, method: str, path: str) -> Lost:
        dropped = not isinstance(error, TimeoutError)
        why = str(error) or type(error).__name__
        if isinstance(error, aiohttp.ClientConnectorError):
            why = os.strerror(error.errno) if error.errno else str(error.os_error)
        if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
            why = f"no answer in time ({why})"
        return Lost(f"{method} {self._shown(path)}: {why}", dropped=dropped)

    def _shown(self, path: str) -> str:
        return f"{self.endpoint.server}{path}"

    def _count(self, method: str, code: str) -> None:
        metrics.REQUESTS.labels(code, method, self.host).inc()
