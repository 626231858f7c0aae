"""A VPC controller against the real API server, and a namespace to play in."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api.resources import NAMESPACES
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists
from tests.api.vpc.invariants import sound
from tests.api.vpc.programs import Program, controller
from tests.api.vpc.world import SYSTEM, World
from tests.control_plane import ControlPlane


@pytest.fixture(scope="package", autouse=True)
async def system_namespace(cell: Client) -> None:
    """Where identifiers, advertisements and the Lease are."""
    with contextlib.suppress(AlreadyExists):
        await cell.create(NAMESPACES, {"metadata": {"name": SYSTEM}})


@pytest.fixture(scope="module")
async def vpc_controller(
    control_plane: ControlPlane, system_namespace: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Program]:
    """The program in Netns mode; its log holds no traceback when it ends."""
    log: Path = tmp_path_factory.mktemp("vpc-controller") / "log"
    async with controller(control_plane, log) as program:
        await program.says("working:", timeout=60.0)
        yield program
        assert await program.stop() == 0
    assert program.tracebacks == []


@pytest.fixture
async def world(vpc_controller: Program, cell: Client, namespace: str) -> AsyncIterator[World]:
    """A namespace; what a test leaves in it comes to an order without a violation (T04), and then all of it goes."""
    made = World(cell, namespace)
    yield made
    try:
        await sound(cell, namespace)
    finally:
        await made.close()
