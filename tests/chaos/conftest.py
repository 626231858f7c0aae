"""A house for each storm."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists
from tests.api.trials.house import House, built
from tests.control_plane import ControlPlane


@pytest.fixture
async def house(control_plane: ControlPlane, cell: Client, ipam: Client, tmp_path: Path) -> AsyncIterator[House]:
    """A namespace, its project, and gateways before both API servers."""
    for client in (cell, ipam):
        try:
            await client.create(resources.NAMESPACES, {"metadata": {"name": "netclaim-system"}})
        except AlreadyExists:
            continue
    async with built(control_plane, cell, ipam, tmp_path) as made:
        yield made
