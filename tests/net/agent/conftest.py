"""The real CNI binary and real agents, in namespaces of the test."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dev.builds import build_cni_binary
from netclaim.kube.client import Client
from tests.control_plane import ControlPlane
from tests.net.agent.checker import Checker, a_checker
from tests.net.agent.world import World, a_world


@pytest.fixture(scope="session")
def binary() -> Path:
    """netclaim-cni, built from this checkout."""
    return build_cni_binary()


@pytest.fixture(scope="session")
async def checker() -> AsyncIterator[Checker]:
    """The node check."""
    async with a_checker() as made:
        yield made


@pytest.fixture
async def world(
    cell: Client, control_plane: ControlPlane, binary: Path, tmp_path: Path, checker: Checker
) -> AsyncIterator[World]:
    """An empty world: nodes, attachments and guests are the test's to add. Afterwards every node is sound (T04)."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    async with a_world(cell, control_plane.cell_kubeconfig, binary, tmp_path, checker) as made:
        yield made
        await made.sound()
