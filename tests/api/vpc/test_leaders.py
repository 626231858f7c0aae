"""Who leads, and what becomes of work that is cut off anywhere (T03, R32): no identity twice, nothing half made."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from netclaim.api import resources
from netclaim.api.conditions import status_of
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError
from tests.api.dying import BORN
from tests.api.vpc.invariants import broken_promises, sound, violations
from tests.api.vpc.programs import Program, controller
from tests.api.vpc.world import CONTEXT, SYSTEM, World
from tests.control_plane import ControlPlane
from tests.waiting import until

Raw = dict[str, Any]
NAME = "web-0-eth0"
LEASE = 120.0
"""Seconds within which another one leads: the lease lasts 15 s, and the machine may be slow."""


async def test_a_controller_that_dies_after_each_single_write_brings_an_interface_up_and_takes_it_down(
    control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path
) -> None:
    """T03: kill -9 at every step of an interface's whole life; each life takes one step, and none is ever wrong."""
    world = World(cell, namespace)
    await world.context()
    await world.interface(NAME)

    async def prepared() -> bool:
        claim = await world.get(resources.CLAIMS, NAME)
        return status_of(claim, "Prepared") == "True"

    async def freed() -> bool:
        return await world._released() and await world._freed()

    async with _dying(control_plane, tmp_path / "log") as program:
        # Identifier, VPC, its status; finalizer, Identifier, attachment, its status, definition, interface, claim.
        # Two may be on their way in the same moment.
        assert await _lives(world, program, prepared) >= 7
        assert await violations(cell, namespace) == []
        await cell.delete(resources.INTERFACES, namespace, NAME)
        # The attachment's deletion, its finalizer, the interface's, the Identifier.
        assert await _lives(world, program, world._released) >= 3
        await cell.delete(resources.NETWORK_CONTEXTS, namespace, CONTEXT)
        await _lives(world, program, freed)
        assert program.tracebacks == []


def _dying(control_plane: ControlPlane, log: Path) -> Program:
    flags = ("--attachment-mode", "Netns", "--leader-elect", "false")
    kubeconfig = ("--kubeconfig", str(control_plane.cell_kubeconfig))
    return Program("tests.api.dying", log, "vpc_controller", *flags, *kubeconfig)


async def _lives(world: World, program: Program, reached: Callable[[], Awaitable[bool]]) -> int:
    """How many lives were needed until it is reached and the present one finds nothing more to do."""
    born = program.log.read_text().count(BORN)
    broken: list[str] = []

    async def is_over() -> bool:
        nonlocal broken
        broken += await broken_promises(world.cell, world.namespace)
        return bool(broken) or await reached()

    await until(is_over, timeout=180.0, what="all that is to be done, life by life")
    assert broken == []
    return program.log.read_text().count(BORN) - born


async def test_a_leader_that_pauses_and_one_that_is_killed_hand_over_under_load(
    control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path
) -> None:
    """T02, T03: the paused one wakes up after its lease has passed, and later leads again; interfaces come and go.

    Everything that was ever said is looked at: no value was given to two holders, no attachment changed its identity.
    """
    world = World(cell, namespace)
    await world.context()
    async with (
        told(cell, resources.IDENTIFIERS, SYSTEM) as drawn,
        told(cell, resources.ATTACHMENTS, namespace) as said,
        controller(control_plane, tmp_path / "first") as first,
    ):
        await first.says("working:", timeout=LEASE)
        async with controller(control_plane, tmp_path / "second") as second, coming_and_going(world) as prepared:
            await second.says("led by", timeout=LEASE)
            await prepared(2)
            first.pause()
            await second.says("working:", timeout=LEASE)
            first.resume()
            await prepared(2)
            await first.says("lost, the work is stopped", timeout=LEASE)
            second.kill()
            await until(lambda: first.log.read_text().count("working:") > 1, timeout=LEASE, what="the first leads")
            await prepared(2)
        await sound(cell, namespace, within=LEASE)
        await world.close()
        assert first.tracebacks == second.tracebacks == []
    holders: dict[str, set[str]] = {}
    for one in drawn:
        holders.setdefault(one["metadata"]["name"], set()).add(one["spec"]["holder"]["uid"])
    assert {name: uids for name, uids in holders.items() if len(uids) > 1} == {}
    identities: dict[str, set[tuple[str, str]]] = {}
    for one in said:
        if status := one.get("status", {}):
            identities.setdefault(one["metadata"]["uid"], set()).add((status["vpc"], status["vpcAttachment"]))
    assert len(identities) >= 6
    assert {uid: each for uid, each in identities.items() if len(each) > 1} == {}


@contextlib.asynccontextmanager
async def told(cell: Client, kind: Resource, namespace: str) -> AsyncIterator[list[Raw]]:
    """Every version of the objects of a kind, from now on."""
    seen: list[Raw] = []
    pages = [page async for page in cell.list_pages(kind, namespace)]

    async def follow() -> None:
        stream = cell.watch(kind, namespace, resource_version=pages[-1].resource_version, timeout_seconds=600)
        async with contextlib.aclosing(stream) as events:
            async for event in events:
                seen.extend([event.object] if event.type != "BOOKMARK" else [])

    task = asyncio.create_task(follow())
    try:
        yield seen
        assert not task.done(), "the watch ended too early to have seen everything"
    finally:
        task.cancel()
        await asyncio.wait({task})


@contextlib.asynccontextmanager
async def coming_and_going(world: World) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Interfaces come all the time, and every third goes again. Gives a wait for so many that come from then on."""
    names: list[str] = []

    async def load() -> None:
        while True:
            name = f"web-{len(names)}-eth0"
            await world.interface(name, number=len(names) % 200 + 2)
            names.append(name)
            if len(names) % 3 == 0:
                await world.cell.delete(resources.INTERFACES, world.namespace, names[-2])
            with contextlib.suppress(ApiError):
                await world._released()
            await asyncio.sleep(0.25)

    async def prepared(count: int) -> None:
        """Of those that come from now on, so many that stay."""
        first = len(names) + 1
        wanted = [f"web-{number}-eth0" for number in range(first, first + 3 * count) if number % 3 != 1][:count]
        for name in wanted:
            await until(lambda each=name: _is_prepared(each), timeout=LEASE, what=f"{name} is prepared")

    async def _is_prepared(name: str) -> bool:
        if task.done():
            raise RuntimeError("nothing comes any more") from task.exception()
        found = await world.find(resources.CLAIMS, name)
        return found is not None and status_of(found, "Prepared") == "True"

    task = asyncio.create_task(load())
    try:
        yield prepared
    finally:
        task.cancel()
        await asyncio.wait({task})
