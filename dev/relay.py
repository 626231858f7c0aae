"""Connections between the host and the nodes without a link between them: every end is a socket of its own namespace.

`python -m dev.relay api NETNS PORT...` listens inside a node on the API servers' ports and connects to 127.0.0.1 of the
host. `python -m dev.relay egress SOCKET ROUTES` is the HTTP CONNECT proxy that the cell's API server reaches kubelets,
Pods and Services through; ROUTES is a JSON object from address range to the namespace that serves it.
A socket stays in the namespace it was made in, so this process only steps into a namespace to make one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

CLONE_NEWNET = 0x40000000
CHUNK = 1 << 16
CONNECT_TIMEOUT = 5.0

Range = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_libc = ctypes.CDLL(None, use_errno=True)


def socket_in(netns: Path | None) -> socket.socket:
    """Make a TCP socket in a network namespace (None: the process's own); nothing else runs while it steps aside."""
    if netns is None:
        made = socket.socket()
    else:
        with Path("/proc/self/ns/net").open("rb") as home, netns.open("rb") as there:
            _enter(there.fileno())
            try:
                made = socket.socket()
            finally:
                _enter(home.fileno())
    made.setblocking(False)  # noqa: FBT003 - the name of the flag is the method's
    return made


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


async def connect(netns: Path | None, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a TCP connection from inside a network namespace."""
    made = socket_in(netns)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await asyncio.get_running_loop().sock_connect(made, (host, port))
    except BaseException:
        made.close()
        raise
    return await asyncio.open_connection(sock=made, limit=CHUNK)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def join(
    first: tuple[asyncio.StreamReader, asyncio.StreamWriter], second: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Carry bytes both ways until both directions have ended."""
    try:
        await asyncio.gather(_copy(first[0], second[1]), _copy(second[0], first[1]))
    finally:
        first[1].close()
        second[1].close()


async def serve_api(netns: Path, ports: list[int]) -> None:
    """Listen on every address of a node, on each port, for the API server with this port on the host."""

    def forward(port: int) -> asyncio.Task[None]:
        listening = socket_in(netns)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("0.0.0.0", port))

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                there = await connect(None, "127.0.0.1", port)
            except OSError:
                writer.transport.abort()
                return
            await join((reader, writer), there)

        async def serve() -> None:
            server = await asyncio.start_server(accepted, sock=listening, limit=CHUNK)
            await server.serve_forever()

        return asyncio.create_task(serve())

    await asyncio.gather(*map(forward, ports))


def serving(ranges: Sequence[tuple[Range, Path]], address: Address) -> Path:
    """Return the namespace that serves an address; raises OSError when none does."""
    for network, netns in ranges:
        if address in network:
            return netns
    raise OSError(f"{address} is in none of {', '.join(str(network) for network, _ in ranges)}")


async def serve_egress(path: Path, routes: Mapping[str, str]) -> None:
    """Answer CONNECT requests on a unix socket by a connection from inside the namespace that serves the address."""
    ranges = [(ipaddress.ip_network(cidr), Path(netns)) for cidr, netns in routes.items()]

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            host, _, port = request.split(b" ", 2)[1].decode().rpartition(":")
            address = ipaddress.ip_address(host.strip("[]"))
            netns = serving(ranges, address)
            there = await connect(netns, str(address), int(port))
        except (OSError, ValueError, IndexError, asyncio.IncompleteReadError) as error:
            with contextlib.suppress(OSError):
                writer.write(f"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nX-Reason: {error}\r\n\r\n".encode())
                await writer.drain()
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await join((reader, writer), there)

    server = await asyncio.start_unix_server(accepted, path, limit=CHUNK)
    await server.serve_forever()


def main() -> None:
    """Run one of the two services until killed."""
    service, place, *rest = sys.argv[1:]
    if service == "api":
        asyncio.run(serve_api(Path(place), [int(port) for port in rest]))
    else:
        asyncio.run(serve_egress(Path(place), json.loads(rest[0])))


if __name__ == "__main__":
    main()
