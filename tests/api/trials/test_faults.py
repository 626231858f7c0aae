"""API servers that fail under NSO and IPAM, at every write and at random: in the end all is whole, or gone."""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator

import pytest

from netclaim.api import resources
from tests.api.trials.house import House
from tests.faults.gateway import Fault
from tests.waiting import until

PUBLIC = [{"class": "public-unicast-ipv4"}]
SEEDS = range(1, 1 + int(os.environ.get("NETCLAIM_FAULT_RUNS", "1")))
SETTLED = 120.0
"""Seconds until all is in order again: a key that failed often is tried again after a while."""


async def up(house: House, *families: str) -> None:
    """A network and a claim of everything, bound, and as IPAM holds it."""
    await house.shop.network(families=families or ("IPv6", "IPv4"))
    await house.shop.claim(addresses=PUBLIC)
    await house.shop.held_by_ipam(await house.shop.allocated(timeout=SETTLED))


async def down(house: House) -> None:
    """All of it deleted, and nothing left but empty pools."""
    await house.shop.delete_claim()
    await house.shop.gone(resources.CLAIMS, "web-0-eth0", timeout=SETTLED)
    await house.shop.cell.delete(resources.NETWORKS, house.shop.namespace, "default")
    await house.shop.gone(resources.NETWORKS, "default", timeout=SETTLED)
    await house.shop.nothing_allocated(timeout=SETTLED)


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.REFUSED])
async def test_every_write_fails_when_it_is_tried_first_and_all_is_made_and_released_whole(
    house: House, fault: Fault
) -> None:
    """T02: between any two writes the reply is lost after the commit, or the request before it."""
    life = house.life()
    await life.begin()
    house.cell_gate.each_first = house.ipam_gate.each_first = fault
    await up(house)
    await house.shop.sound(timeout=SETTLED)
    await down(house)
    failed = house.cell_gate.happened[fault] + house.ipam_gate.happened[fault]
    # Finalizers, ranges, pools and carves of three levels, allocations, statuses, and all of it back again.
    assert failed >= 30, (failed, house.cell_gate.writes, house.ipam_gate.writes)


async def test_a_kill_at_every_write_leaves_nothing_half_done(house: House) -> None:
    """T03: SIGKILL when a write has taken effect and before its reply, at each write of a life in turn.

    A cascade of two levels; of all three, and both families, with `NETCLAIM_FAULT_RUNS` above 1.
    """
    life = house.life()
    killed: list[str] = []

    def die(what: str) -> None:
        killed.append(what)
        life.kill()

    async def goes_on() -> None:
        while True:
            if life.has_ended:
                await life.begin(working=False)
            await asyncio.sleep(0.02)

    house.cell_gate.on_first = house.ipam_gate.on_first = die
    runs = asyncio.create_task(goes_on())
    try:
        await up(house, *(() if len(SEEDS) > 1 else ("IPv4",)))
        await house.shop.sound(timeout=SETTLED)
        await down(house)
    finally:
        runs.cancel()
        await asyncio.wait({runs})
    assert len(killed) >= 20, killed


@contextlib.asynccontextmanager
async def faults(house: House, chance: random.Random) -> AsyncIterator[None]:
    """A share of all requests goes wrong, and twice every watch breaks: plans are made from what was known before."""
    gates = (house.cell_gate, house.ipam_gate)

    async def break_watches() -> None:
        for _ in range(2):
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            for gate in gates:
                gate.cut()

    for gate in gates:
        gate.rate = 0.25
    task = asyncio.create_task(break_watches())
    try:
        yield
        await task
    finally:
        for gate in gates:
            gate.rate = 0.0
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("seed", SEEDS)
async def test_api_servers_that_fail_in_every_way_leave_no_address_twice_and_none_behind(
    house: House, seed: int
) -> None:
    """T02, T26: 409, 429, 5xx, replies lost before and after the commit, broken watches; the status is true again."""
    shop = house.shop
    life = house.life()
    await life.begin()
    names = [f"web-{number}-eth0" for number in range(8)]
    async with faults(house, random.Random(seed)):
        await shop.network()
        for number, name in enumerate(names):
            await shop.claim(name, reclaimPolicy="Retain" if number % 2 else "Delete", addresses=PUBLIC[: number % 3])
    for name in names:
        await shop.held_by_ipam(await shop.allocated(name, timeout=SETTLED))
    await house.shop.sound(timeout=SETTLED)
    async with faults(house, random.Random(seed + 1000)):
        for name in names:
            await shop.delete_claim(name)
    for name in names:
        await shop.gone(resources.CLAIMS, name, timeout=SETTLED)

    async def only_kept() -> bool:
        kept = {raw["metadata"]["name"] for raw in await shop.cell.list(resources.INTERFACES, shop.namespace)}
        assert kept == set(names[1::2]), kept
        return True

    await until(only_kept, timeout=SETTLED, what="the interfaces of Retain alone")
    await house.shop.sound(timeout=SETTLED)
