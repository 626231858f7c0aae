"""A webhook that the real API server calls, and a namespace with instances to make Pods for."""

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, NotFound
from tests.api.vpc.world import SYSTEM, Program
from tests.api.webhook.yard import Yard, install, uninstall
from tests.control_plane import ControlPlane


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
async def webhook(
    control_plane: ControlPlane, cell: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Program]:
    """The program, with its configuration and policy in force."""
    with contextlib.suppress(AlreadyExists):
        await cell.create(resources.NAMESPACES, {"metadata": {"name": SYSTEM}})
    with contextlib.suppress(NotFound):
        await cell.delete(resources.SECRETS, SYSTEM, "netclaim-webhook-certificates")
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
