"""A house for each trial."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists
from tests.api.trials.house import House, built
from tests.control_plane import ControlPlane


@pytest.fixture(scope="session")
async def system_namespaces(cell: Client, ipam: Client) -> None:
    """Where the programs keep their Leases."""
    for client in (cell, ipam):
        try:
            await client.create(resources.NAMESPACES, {"metadata": {"name": "netclaim-system"}})
        except AlreadyExists:
            continue


@pytest.fixture
async def house(
    control_plane: ControlPlane, cell: Client, ipam: Client, system_namespaces: None, tmp_path: Path
) -> AsyncIterator[House]:
    """A namespace, its project, and gateways before both API servers."""
    async with built(control_plane, cell, ipam, tmp_path) as made:
        yield made
