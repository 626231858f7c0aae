"""Leader election: three candidates, a server that fails in every way, and never two leaders."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import pytest

from netclaim.kube.client import Client
from netclaim.kube.leader import Elector, Timings
from tests.faults.server import MANY, Fault, FaultServer
from tests.unit.kube.conftest import Connect
from tests.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/leases"
FAST = Timings(lease=1.0, deadline=0.6, retry=0.1)
"""The real proportions, 15 times as fast."""


class Candidate:
    """One process: an elector, and work that notes when it runs."""

    def __init__(self, name: str, client: Client, *, stubborn: bool = False) -> None:
        self.died: list[int] = []
        self.elector = Elector(client, "system", "test", identity=name, timings=FAST, die=self.died.append)
        self.working = False
        self.terms = 0
        self._stubborn = stubborn
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.tasks = [
            asyncio.create_task(self.elector.run()),
            asyncio.create_task(self.elector.lead(self._work)),
        ]

    async def _work(self) -> None:
        self.working = True
        self.terms += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._stubborn:
                await asyncio.Event().wait()
            raise
        finally:
            self.working = False

    async def stop(self, *, release: bool = False) -> None:
        for task in reversed(self.tasks):
            task.cancel()
        await asyncio.wait(self.tasks)
        if release:
            await self.elector.release()


class Watcher:
    """Looks at all candidates on every turn of the loop."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates = candidates
        self.most = 0
        self.looks = 0

    async def run(self) -> None:
        while True:
            leaders = sum(each.elector.is_leader() or each.working for each in self.candidates)
            self.most = max(self.most, leaders)
            self.looks += 1
            await asyncio.sleep(0.001)

    @property
    def leader(self) -> Candidate | None:
        return next((each for each in self.candidates if each.working and each.elector.is_leader()), None)


@pytest.fixture
async def three(server: FaultServer, connect: Connect) -> AsyncIterator[Watcher]:
    """Three candidates for one lease, watched all the time."""
    candidates = [Candidate(name, await connect(server)) for name in ("a", "b", "c")]
    watcher = Watcher(candidates)
    task = asyncio.create_task(watcher.run())
    for candidate in candidates:
        candidate.start()
    yield watcher
    task.cancel()
    for candidate in candidates:
        await candidate.stop()
    assert watcher.most == 1, "two candidates led at once"
    assert watcher.looks > 10


async def _leader(watcher: Watcher, *, other_than: Candidate | None = None) -> Candidate:
    found = await until(
        lambda: watcher.leader if watcher.leader is not other_than else None, timeout=30, what="a leader"
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    "fault", [Fault.SILENT, Fault.RESET, Fault.HTML_200, Fault.HTML_503, Fault.RESET_AFTER, Fault.SILENT_AFTER]
)
async def test_a_leader_whose_server_fails_stops_in_time_and_leads_again(
    server: FaultServer, three: Watcher, fault: Fault
) -> None:
    """T02: hang, reset, HTML, and "applied but the reply was lost": its work has ended before another may begin."""
    first = await _leader(three)
    server.inject(fault, times=MANY)
    await until(lambda: not first.working, timeout=4, what="the work stopped")
    assert not any(each.elector.is_leader() for each in three.candidates)
    server.heal()
    await _leader(three)


async def test_replies_that_are_lost_now_and_then_do_not_cost_the_lead(server: FaultServer, three: Watcher) -> None:
    """T02: the deadline is longer than a few failed renewals."""
    leader = await _leader(three)
    for _ in range(5):
        server.inject(Fault.RESET_AFTER, when=lambda request: request.verb == "update")
        renewals = server.count("update")
        await until(lambda: server.count("update") >= renewals + 3, what="renewed after a lost reply")  # noqa: B023
    assert three.leader is leader
    assert leader.terms == 1


async def test_a_leader_that_vanishes_is_replaced_after_the_lease_and_not_before(
    server: FaultServer, three: Watcher
) -> None:
    """T03: kill -9."""
    first = await _leader(three)
    loop = asyncio.get_running_loop()
    await first.stop()
    vanished = loop.time()
    first.elector._valid_until = float("-inf")
    await _leader(three, other_than=first)
    assert loop.time() - vanished >= FAST.lease - 2 * FAST.retry


async def test_a_released_lease_is_taken_at_once(server: FaultServer, three: Watcher) -> None:
    """A clean exit does not cost the next leader a lease's time."""
    first = await _leader(three)
    loop = asyncio.get_running_loop()
    await first.stop(release=True)
    released = loop.time()
    await _leader(three, other_than=first)
    assert loop.time() - released < FAST.lease * 0.9


async def test_a_paused_leader_that_wakes_up_knows_that_it_no_longer_leads(
    server: FaultServer, connect: Connect
) -> None:
    """T01: the check right before a write needs no event to have been handled."""
    now = 1000.0
    client = await connect(server)
    elector = Elector(client, "system", "paused", timings=FAST, clock=lambda: now)
    task = asyncio.create_task(elector.run())
    await until(elector.is_leader)
    task.cancel()
    now += FAST.deadline + 0.01
    assert not elector.is_leader()


async def test_work_that_does_not_stop_ends_the_process(server: FaultServer, connect: Connect) -> None:
    """T01: cancelled work that goes on would go on beside the next leader's."""
    stubborn = Candidate("stubborn", await connect(server), stubborn=True)
    stubborn.start()
    await until(lambda: stubborn.working)
    server.inject(Fault.RESET, times=MANY)
    await until(lambda: stubborn.died == [1], timeout=30, what="the end of the process")
    for task in asyncio.all_tasks():
        if task.get_coro().__qualname__ == "Candidate._work":  # type: ignore[union-attr]
            task.cancel()
    await stubborn.stop()


@pytest.mark.parametrize("seed", range(2))
async def test_never_two_leaders_under_random_faults(server: FaultServer, three: Watcher, seed: int) -> None:
    """T02: eight seconds (two minutes at the real pace) of random faults, restarts of the server and pauses."""
    chance = random.Random(seed)
    faults = [Fault.SILENT, Fault.RESET, Fault.RESET_AFTER, Fault.SILENT_AFTER, Fault.HTML_200, Fault.EMPTY]
    for _ in range(40):
        share = chance.choice([0.2, 0.6, 1.0])
        server.inject(
            chance.choice(faults), times=chance.randrange(1, 8), when=lambda _, share=share: chance.random() < share
        )
        if chance.random() < 0.05:
            await server.stop()
            await asyncio.sleep(0.3)
            await server.start()
        await asyncio.sleep(0.2)
    server.heal()
    await _leader(three)


async def test_two_candidates_that_create_the_lease_at_once_agree(server: FaultServer, connect: Connect) -> None:
    """T02: the very first election, with replies lost."""
    server.inject(Fault.RESET_AFTER, times=2, when=lambda request: request.verb == "create")
    candidates = [Candidate(name, await connect(server)) for name in ("a", "b")]
    watcher = Watcher(candidates)
    look = asyncio.create_task(watcher.run())
    for candidate in candidates:
        candidate.start()
    await _leader(watcher)
    look.cancel()
    for candidate in candidates:
        await candidate.stop()
    assert watcher.most == 1


async def test_a_missing_namespace_is_named(
    server: FaultServer, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """The message says what to check."""
    server.unserved.add(LEASES)
    elector = Elector(await connect(server), "nowhere", "test", timings=FAST)
    task = asyncio.create_task(elector.run())
    await until(lambda: "does the namespace nowhere exist?" in caplog.text)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def test_proportions_leave_time_to_stop() -> None:
    """Others may begin `lease - deadline` after we stopped by ourselves; renewals fit into the deadline."""
    standard = Timings()
    assert standard.lease - standard.deadline >= standard.deadline / 2
    assert standard.retry * 3 < standard.deadline
