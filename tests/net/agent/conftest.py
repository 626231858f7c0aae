"""The real CNI binary and real agents, in namespaces of the test."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dev.builds import build_cni_binary
from netclaim.kube.client import Client
from tests.control_plane import ControlPlane
from tests.net.agent.world import World, a_world


@pytest.fixture(scope="session")
def binary() -> Path:
    """netclaim-cni, built from this checkout."""
    return build_cni_binary()


@pytest.fixture
async def world(cell: Client, control_plane: ControlPlane, binary: Path, tmp_path: Path) -> AsyncIterator[World]:
    """An empty world: nodes, attachments and guests are the test's to add."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    async with a_world(cell, control_plane.cell_kubeconfig, binary, tmp_path) as made:
        yield made
