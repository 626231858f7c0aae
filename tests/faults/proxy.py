"""A proxy on loopback before a real API server: TLS passes through it untouched, connections do not always."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Self


@dataclass
class FaultProxy:
    """Forwards to ``host:port``. Each loss is used up by the next reply."""

    host: str
    port: int
    address: str = ""
    lost: int = 0
    _lose: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _pipes: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> Self:
        """Listen on a free port of loopback."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        self.cut()
        for pipe in self._pipes:
            pipe.cancel()
        if self._pipes:
            await asyncio.wait(self._pipes)

    def lose_replies(self, count: int = 1) -> None:
        """Let the server do what the next requests ask for, and cut the connection when it begins to answer."""
        self._lose = count

    def cut(self) -> None:
        """Cut every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self.host, self.port)
        for each in (writer, there_writer):
            self._writers.add(each)
        pipes = [
            asyncio.create_task(self._pipe(reader, there_writer, replies=False)),
            asyncio.create_task(self._pipe(there_reader, writer, replies=True)),
        ]
        self._pipes.update(pipes)
        await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        for each in (writer, there_writer):
            each.transport.abort()
            self._writers.discard(each)
        self._pipes.difference_update(pipes)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, replies: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(2**16):
                if replies and self._lose:
                    self._lose -= 1
                    self.lost += 1
                    return
                writer.write(data)
                await writer.drain()
