"""Waiting for a condition, and asking an API server, without blocking the supervisor."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from dev.controlplane import Plane

POLL = 0.05


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return when `condition` holds; the caller sets the deadline."""
    while True:
        held = condition()
        if held if isinstance(held, bool) else await held:
            return
        await asyncio.sleep(POLL)


async def http_get(plane: Plane, path: str) -> tuple[int, bytes]:
    """GET a path of the API server as its administrator; returns status and body, status 0 when there is no answer."""
    folder = plane.run.pki(plane.name)
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", plane.ports.api, ssl=context)
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
    except (OSError, ssl.SSLError):
        return 0, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split()
    return (int(words[1]) if len(words) > 1 else 0), body
