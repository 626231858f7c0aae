"""The socket: bounded, quick to say that it lives, and never leaving a call in the middle."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from node_agent.cni.protocol import Call
from node_agent.cni.server import CniServer, SocketTakenError
from tests.waiting import until


class Work:
    """Calls that end when the test says so."""

    def __init__(self) -> None:
        self.running: list[Call] = []
        self.cancelled: list[Call] = []
        self.finish = asyncio.Event()
        self.most = 0

    async def __call__(self, call: Call) -> dict[str, Any] | None:
        self.running.append(call)
        self.most = max(self.most, len(self.running))
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.cancelled.append(call)
            raise
        finally:
            self.running.remove(call)
        return {"for": call.container}


@asynccontextmanager
async def serving(run: Callable[[Call], Any], path: Path, **bounds: Any) -> AsyncIterator[CniServer]:
    server = CniServer(run, path, **bounds)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class Client:
    """One connection of a netclaim-cni."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def call(cls, path: Path, verb: str = "ADD", container: str = "sandbox-1") -> "Client":
        reader, writer = await asyncio.open_unix_connection(path)
        line = {"protocol": 1, "verb": verb, "containerID": container, "ifName": "eth0", "config": {}}
        writer.write(json.dumps(line).encode() + b"\n")
        return cls(reader, writer)

    async def line(self) -> Any:
        async with asyncio.timeout(5):
            return json.loads(await self.reader.readline())


async def test_a_call_is_accepted_at_once_and_answered_when_done(tmp_path: Path) -> None:
    """node-agent.md: a caller can tell a busy agent from a dead one within a second."""
    work = Work()
    async with serving(work, tmp_path / "s"):
        client = await Client.call(tmp_path / "s")
        assert await client.line() == {"accepted": True}
        await until(lambda: work.running)
        work.finish.set()
        assert await client.line() == {"result": {"for": "sandbox-1"}}


async def test_only_root_may_use_the_socket(tmp_path: Path) -> None:
    async with serving(Work(), tmp_path / "s"):
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


async def test_calls_beyond_the_bounds_wait_and_beyond_the_queue_are_told_to_come_back(tmp_path: Path) -> None:
    """T11: at most N calls at work, a bounded queue, code 11 at once beyond it."""
    work = Work()
    async with serving(work, tmp_path / "s", at_work=2, queue=3):
        clients = [await Client.call(tmp_path / "s", container=f"sandbox-{n}") for n in range(5)]
        assert [await client.line() for client in clients] == [{"accepted": True}] * 5
        late = await Client.call(tmp_path / "s")
        assert (await late.line())["error"]["code"] == 11
        assert len(work.running) == 2
        work.finish.set()
        assert {(await client.line())["result"]["for"] for client in clients} == {f"sandbox-{n}" for n in range(5)}
    assert work.most == 2


async def test_an_add_that_waits_too_long_is_told_to_come_back_and_a_delete_waits_on(
    tmp_path: Path,
) -> None:
    """T11: a burst beyond what can be answered soon is refused with code 11; nothing that takes away ever is."""
    work = Work()
    async with serving(work, tmp_path / "s", at_work=1, prompt=0.2):
        first = await Client.call(tmp_path / "s", container="sandbox-1")
        await first.line()
        await until(lambda: work.running)
        add, delete = await Client.call(tmp_path / "s"), await Client.call(tmp_path / "s", "DEL", "sandbox-2")
        for client in (add, delete):
            assert await client.line() == {"accepted": True}
        assert (await add.line())["error"]["code"] == 11
        work.finish.set()
        assert [(await client.line())["result"]["for"] for client in (first, delete)] == ["sandbox-1", "sandbox-2"]


async def test_an_add_whose_client_went_away_is_cancelled_and_a_delete_is_finished(tmp_path: Path) -> None:
    """node-agent.md: a call whose client went away is finished or undone, never left in the middle."""
    work = Work()
    async with serving(work, tmp_path / "s"):
        for verb in ("ADD", "DEL"):
            client = await Client.call(tmp_path / "s", verb)
            assert await client.line() == {"accepted": True}
            client.writer.close()
        await until(lambda: [call.verb for call in work.cancelled] == ["ADD"])
        assert [call.verb for call in work.running] == ["DEL"]
        work.finish.set()
        await until(lambda: not work.running)
    assert [call.verb for call in work.cancelled] == ["ADD"]


async def test_the_deadline_counts_from_the_turn_and_not_from_the_queue(tmp_path: Path) -> None:
    work = Work()
    async with serving(work, tmp_path / "s", at_work=1, deadline=0.3):
        first, second = await Client.call(tmp_path / "s"), await Client.call(tmp_path / "s")
        for client in (first, second):
            await client.line()
        refusal = (await first.line())["error"]
        assert (refusal["code"], "0.3 s" in refusal["msg"]) == (11, True)
        await until(lambda: work.running)
        work.finish.set()
        assert "result" in await second.line()


async def test_a_fault_of_the_agent_is_answered_and_the_next_call_served(tmp_path: Path) -> None:
    async def broken(call: Call) -> None:
        raise KeyError(call.container)

    async with serving(broken, tmp_path / "s"):
        for _ in range(2):
            client = await Client.call(tmp_path / "s")
            await client.line()
            assert (await client.line())["error"]["code"] == 999


@pytest.mark.parametrize("sent", [b"\n", b"{}\n", b"\x00\xff\n", b"x" * (1 << 21) + b"\n"])
async def test_what_is_no_call_is_answered_with_an_error(tmp_path: Path, sent: bytes) -> None:
    async with serving(Work(), tmp_path / "s"):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(sent)
        async with asyncio.timeout(5):
            assert json.loads(await reader.readline())["error"]["code"] == 6


async def test_a_second_agent_does_not_take_a_socket_that_is_served_but_a_left_over_file_is_no_hindrance(
    tmp_path: Path,
) -> None:
    """T09: a socket file of an earlier life does not keep the agent from starting."""
    path = tmp_path / "s"
    async with serving(Work(), path):
        with pytest.raises(SocketTakenError, match=str(path)):
            await CniServer(Work(), path).start()
    left_over = await asyncio.start_unix_server(lambda _r, _w: None, path=path)
    left_over.close()
    assert path.exists()
    async with serving(Work(), path):
        await Client.call(path)
