"""A webhook that the real API server calls, and a namespace with instances to make Pods for."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, NotFound
from tests.api.vpc.programs import Program
from tests.api.vpc.world import SYSTEM
from tests.api.webhook.site import SECRET, Site, a_site, free_port
from tests.api.webhook.yard import Yard, install, uninstall
from tests.control_plane import ControlPlane


@pytest.fixture(scope="module")
async def webhook(
    control_plane: ControlPlane, cell: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Program]:
    """The program, with its configuration and policy in force."""
    with contextlib.suppress(AlreadyExists):
        await cell.create(resources.NAMESPACES, {"metadata": {"name": SYSTEM}})
    with contextlib.suppress(NotFound):
        await cell.delete(resources.SECRETS, SYSTEM, SECRET)
    port = free_port()
    log: Path = tmp_path_factory.mktemp("webhook") / "log"
    flags = ("--kubeconfig", str(control_plane.cell_kubeconfig), "--listen", f"127.0.0.1:{port}")
    async with Program("webhook", log, *flags) as program:
        await install(cell, f"https://127.0.0.1:{port}/mutate-v1-pod")
        await program.says("serving /mutate-v1-pod", timeout=60.0)
        yield program
        await uninstall(cell)
        assert await program.stop() == 0
    assert program.tracebacks == []


@pytest.fixture
async def yard(webhook: Program, cell: Client, namespace: str) -> Yard:
    """A namespace whose Pods are reviewed."""
    made = Yard(cell, namespace)
    await made.service_account()
    return made


@pytest.fixture
async def site(control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path) -> AsyncIterator[Site]:
    """Admission objects in force, an instance to make Pods for, and no certificate yet."""
    async with a_site(control_plane, cell, namespace, tmp_path) as made:
        yield made
