"""What the virtual machines of this tier are made of, and real node agents for them."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from dev import vm
from dev.errors import ClusterError
from dev.progress import PlainDisplay
from dev.vm import Kernel
from netclaim.kube.client import Client
from tests.control_plane import ControlPlane
from tests.net.agent.checker import Checker
from tests.net.agent.conftest import binary, checker  # noqa: F401 - fixtures
from tests.net.agent.world import World, a_world

Worlds = Callable[[Path], AbstractAsyncContextManager[World]]
"""Makes a world of nodes with agents, its files in a folder."""


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Debian's cloud kernel, which has VRF; QEMU is installed along with it. Skips where they cannot be had."""
    if reason := vm.obstacle():
        pytest.skip(reason)
    try:
        return vm.ensure(PlainDisplay())
    except ClusterError as error:
        pytest.skip(f"no virtual machine can be made here: {error}")


@pytest.fixture(scope="session")
def worlds(cell: Client, control_plane: ControlPlane, binary: Path, checker: Checker) -> Worlds:  # noqa: F811
    return lambda folder: a_world(cell, control_plane.cell_kubeconfig, binary, folder, checker)
