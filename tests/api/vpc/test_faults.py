"""An API server that fails under the VPC controller (T02): what is there in the end is whole, and nothing else."""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import resources
from netclaim.kube.client import Client
from tests.api.vpc.invariants import sound
from tests.api.vpc.programs import Program
from tests.api.vpc.world import World
from tests.control_plane import ControlPlane
from tests.faults.gateway import Gateway

NAMES = [f"web-{number}-eth0" for number in range(12)]
SEEDS = range(1, 1 + int(os.environ.get("NETCLAIM_FAULT_RUNS", "1")))
RATE = 0.25
SETTLED = 90.0
"""Seconds until all is in order again: a key that failed often is tried again after up to a minute."""


@contextlib.asynccontextmanager
async def faults(gateway: Gateway, seed: int) -> AsyncIterator[None]:
    """A share of all requests goes wrong, and twice every watch breaks: plans are made from what was known before."""
    chance = random.Random(seed)

    async def break_watches() -> None:
        for _ in range(2):
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            gateway.cut()

    gateway.rate = RATE
    task = asyncio.create_task(break_watches())
    try:
        yield
        await task
    finally:
        gateway.rate = 0.0
        task.cancel()
        await asyncio.wait({task})


@pytest.mark.parametrize("seed", SEEDS)
async def test_an_api_server_that_fails_in_every_way_leaves_no_half_attachment_and_no_identity_twice(
    control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path, seed: int
) -> None:
    """T02: replies lost before and after the write, 409, 429, 5xx and broken watches, on the way up and down."""
    world = World(cell, namespace)
    node = f"n-{namespace}"
    await world.node(node)
    async with Gateway(control_plane.cell_kubeconfig, seed=seed) as gateway:
        kubeconfig = str(gateway.write_kubeconfig(tmp_path / "kubeconfig"))
        flags = ("--attachment-mode", "Netns", "--kubeconfig", kubeconfig, "--leader-elect", "false")
        async with Program("vpc_controller", tmp_path / "log", *flags) as program:
            await program.says("working:", timeout=60.0)
            async with faults(gateway, seed):
                await world.context()
                for number, name in enumerate(NAMES):
                    await world.interface(name, number=number + 2)
                for name in NAMES:
                    await world.says(resources.CLAIMS, name, "Prepared", "True", timeout=SETTLED)
            await sound(cell, namespace, within=SETTLED)
            async with faults(gateway, seed):
                for name in NAMES[:4]:
                    await world.attach(name, node)
                    await world.advertise(await world.get(resources.ATTACHMENTS, name), node)
                for name in NAMES[:4]:
                    await world.says(resources.CLAIMS, name, "Programmed", "True", timeout=SETTLED)
                await world.close(within=SETTLED)
            await sound(cell, namespace)
            assert program.tracebacks == []
        assert len(gateway.happened) >= 4
