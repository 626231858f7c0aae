"""Commands, namespaces, and a node's way to the API server."""

import asyncio
import contextlib
import ctypes
import json
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
CLONE_NEWNET = 0x40000000


async def run(*argv: str, check: bool = True, env: dict[str, str] | None = None, stdin: str = "") -> "Outcome":
    """Run a command to its end without stopping the event loop (which serves the API server to the nodes)."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=None if env is None else {**os.environ, **env},
    )
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate(stdin.encode())
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        raise
    outcome = Outcome(process.returncode or 0, out.decode(), err.decode())
    if check and outcome.code:
        raise AssertionError(f"{' '.join(argv)}: {outcome.err or outcome.out}")
    return outcome


@dataclass
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out) if self.out.strip() else None


@dataclass
class Guest:
    """A Pod's network namespace and the container id of its sandbox."""

    namespace: str
    container: str
    pod: str
    attachment: str
    kube_namespace: str

    @property
    def netns(self) -> str:
        return f"/run/netns/{self.namespace}"

    async def run(self, *argv: str, check: bool = True) -> Outcome:
        return await run("ip", "netns", "exec", self.namespace, *argv, check=check)

    async def pings(self, address: str, size: int = 56) -> bool:
        """Whether the very first packet to ``address`` is answered."""
        outcome = await self.run("ping", "-n", "-c1", "-W2", "-M", "do", "-s", str(size), address, check=False)
        return outcome.code == 0


def inside(namespace: str, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread that has entered a named network namespace, and only that thread."""
    outcome: list[T] = []

    def enter() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        with Path(f"/run/netns/{namespace}").open() as file:
            if libc.setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
        outcome.append(work())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return outcome[0]


class Door:
    """A node's way to the API server: the server's own address, listened on inside the node's namespace."""

    def __init__(self, namespace: str, server: str) -> None:
        self._namespace = namespace
        url = urlsplit(server)
        self._host, self._port = url.hostname or "127.0.0.1", url.port or 443
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.held = 0
        self._lose = 0
        self.lost = 0

    async def open(self) -> None:
        def listen() -> socket.socket:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
            return listener

        self._server = await asyncio.start_server(self._serve, sock=inside(self._namespace, listen))

    async def shut(self) -> None:
        """Refuse every connection and break those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for pipe in list(self._pipes):
            pipe.cancel()
        if self._pipes:
            await asyncio.wait(self._pipes)

    def lose_replies(self, count: int) -> None:
        """Let the server do what the next requests ask for, and break the connection when it begins to answer."""
        self._lose = count

    def cut(self) -> None:
        """Break every connection, watches included; new ones are taken."""
        for pipe in list(self._pipes):
            pipe.cancel()

    def freeze(self) -> None:
        """Take connections and requests but pass nothing on: a server that hangs."""
        self._flows.clear()

    def thaw(self) -> None:
        """Pass on what was held, and all that follows."""
        self._flows.set()
        self.held = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._pipes.add(task)
        try:
            up_reader, up_writer = await asyncio.open_connection(self._host, self._port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, up_writer, replies=False))
                    both.create_task(self._pump(up_reader, writer, replies=True))
            finally:
                up_writer.close()
        except (OSError, asyncio.CancelledError, ExceptionGroup):
            pass
        finally:
            self._pipes.discard(task)
            writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, replies: bool) -> None:
        while piece := await reader.read(65536):
            if replies and self._lose:
                self._lose -= 1
                self.lost += 1
                raise ConnectionResetError("this reply is lost")
            if not self._flows.is_set():
                self.held += 1
                await self._flows.wait()
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
