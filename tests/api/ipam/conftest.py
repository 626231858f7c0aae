"""A project for each test of IPAM; afterwards nothing of it may be left."""

import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest

from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from tests.api.ipam.stack import Settings, allocations, consistent, release, running
from tests.conftest import create_project
from tests.control_plane import ControlPlane
from tests.waiting import until


@pytest.fixture
async def kubeconfig(control_plane: ControlPlane) -> str:
    return str(control_plane.ipam_kubeconfig)


@pytest.fixture
async def home(ipam: Client, kubeconfig: str) -> AsyncIterator[str]:
    """A project like the example's; when the test is over all is released and checked, and the project goes."""
    project = f"ipam-{secrets.token_hex(3)}"
    await create_project(ipam, project)
    yield project
    async with running(kubeconfig, Settings(pool_linger=0.5)):
        await consistent(ipam, project)
        await release(ipam, project)

        async def nothing_left() -> bool:
            left = [raw["metadata"]["name"] for raw in await allocations(ipam, project)]
            assert not left, left
            return True

        await until(nothing_left, timeout=90, what="nothing is held after everything was released", interval=0.3)
        # Before the project, whose own deletion the API server takes its time for.
        for raw in await ipam.list(resources.IP_POOLS, project):
            with contextlib.suppress(NotFound):
                await ipam.delete(resources.IP_POOLS, project, raw["metadata"]["name"])

        async def pools_gone() -> bool:
            return not await ipam.list(resources.IP_POOLS, project)

        await until(pools_gone, timeout=90, what="pools gone", interval=0.3)
        await ipam.delete(resources.NAMESPACES, None, project)
