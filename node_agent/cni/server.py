"""The unix socket that netclaim-cni speaks to: bounded, and never leaving a call in the middle.

At most ``at_work`` calls are worked on, at most ``queue`` wait; more are told to come back at once, and so is an ADD
that would not be answered within ``prompt`` seconds. A call's deadline counts from its turn. An ADD whose client went
away is cancelled, and so undone; any other call is finished.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog

from node_agent import metrics
from node_agent.cni import protocol, refusals
from node_agent.cni.protocol import Call
from node_agent.cni.refusals import Refusal
from node_agent.cni.turns import LateError, Turns

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.cni")

AT_WORK: Final = 32
QUEUE: Final = 512
DEADLINE: Final = 20.0
PROMPT: Final = 2.5
"""Seconds: with the start and the end of as many processes as call at once, a runtime has its answer within 3."""
READ_WITHIN: Final = 5.0
"""Seconds for a client to send its one line."""

Run = Callable[[Call], Awaitable[dict[str, Any] | None]]


class SocketTakenError(Exception):
    """Another agent answers on the socket."""


class CniServer:
    """Serves CNI calls on a unix socket that root alone may use."""

    def __init__(
        self,
        run: Run,
        path: Path,
        *,
        at_work: int = AT_WORK,
        queue: int = QUEUE,
        deadline: float = DEADLINE,
        prompt: float = PROMPT,
    ) -> None:
        self._run = run
        self._path = path
        self._turns = Turns(at_work, prompt)
        self._queue = queue
        self._deadline = deadline
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()

    @property
    def crowded(self) -> float:
        """Seconds since when there always was a call that waited for its turn; 0 when none does."""
        return self._turns.crowded

    async def start(self) -> None:
        """Listen. Raises SocketTakenError when another process answers there."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        if await _answers(self._path):
            raise SocketTakenError(f"another node agent listens on {self._path}: stop it, or choose another --socket")
        self._server = await asyncio.start_unix_server(
            self._accept, path=self._path, limit=protocol.LINE_LIMIT, backlog=self._queue + 128
        )
        self._path.chmod(0o600)

    async def stop(self) -> None:
        """Take no more calls and wait for those that were taken."""
        if self._server is None:
            return
        self._server.close()
        if self._calls:
            await asyncio.wait(self._calls)
        self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio runs a connection's handler as a task
        self._calls.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.IncompleteReadError):
            log.debug("a client went away before its call was read")
        finally:
            self._calls.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started = time.monotonic()
        verb = "unknown"
        try:
            call = await _receive(reader)
            verb = call.verb
            self._admit()
            writer.write(protocol.accepted())
            result = await self._finish(call, reader)
        except Refusal as refusal:
            code, line = refusal.reason.code, protocol.refused(refusal)
            if refusal.reason is not refusals.NOT_READY:
                log.info("call refused", verb=verb, reason=refusal.reason.word, text=refusal.message)
        else:
            code, line = 0, protocol.answered(result)
        metrics.REQUESTS.labels(verb, str(code)).inc()
        metrics.DURATION.labels(verb).observe(time.monotonic() - started)
        writer.write(line)
        await writer.drain()

    def _admit(self) -> None:
        if self._turns.waiting >= self._queue:
            raise Refusal(refusals.BUSY, waiting=self._turns.waiting)

    async def _finish(self, call: Call, reader: asyncio.StreamReader) -> dict[str, Any] | None:
        """Work on the call while watching whether its client is still there."""
        work = asyncio.create_task(self._work(call))
        gone = asyncio.create_task(_closed(reader))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and call.verb in ("ADD", "CHECK", "STATUS"):
                log.info("the client of a call went away", verb=call.verb, container=call.container)
                work.cancel()
            return await work
        except asyncio.CancelledError:
            if work.cancelled():
                raise ConnectionResetError from None
            work.cancel()
            raise
        finally:
            gone.cancel()

    async def _work(self, call: Call) -> dict[str, Any] | None:
        try:
            await self._turns.take(hurried=call.verb == "ADD")
        except LateError as error:
            raise Refusal(refusals.BUSY, waiting=self._turns.waiting) from error
        metrics.AT_WORK.inc()
        started = time.monotonic()
        took: float | None = None
        try:
            async with asyncio.timeout(self._deadline):
                result = await self._run(call)
        except TimeoutError as error:
            raise Refusal(refusals.TOO_SLOW, seconds=self._deadline) from error
        except (Refusal, asyncio.CancelledError):
            raise
        except Exception as error:
            log.exception("call failed", verb=call.verb, container=call.container, ifname=call.ifname)
            raise Refusal(refusals.INTERNAL, why=f"{type(error).__name__}: {error}") from error
        else:
            took = time.monotonic() - started
            milliseconds = round(took * 1000, 1)
            log.info(
                "call done", verb=call.verb, container=call.container, ifname=call.ifname, milliseconds=milliseconds
            )
            return result
        finally:
            metrics.AT_WORK.dec()
            self._turns.give_back(took=took if call.verb == "ADD" else None)


async def _receive(reader: asyncio.StreamReader) -> Call:
    try:
        async with asyncio.timeout(READ_WITHIN):
            line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError as error:
        raise Refusal(refusals.UNREADABLE, why=f"it is longer than {protocol.LINE_LIMIT} bytes") from error
    return protocol.read_call(line)


async def _closed(reader: asyncio.StreamReader) -> None:
    """Return when the client has closed its end. It has nothing more to send."""
    try:
        while await reader.read(4096):
            pass
    except ConnectionError:
        return


async def _answers(path: Path) -> bool:
    """Whether somebody listens on the socket; a left-over file is nobody."""
    try:
        _, writer = await asyncio.open_unix_connection(path)
    except OSError:
        return False
    writer.close()
    return True
