"""The real program once for all tests of this folder, and a fresh namespace for each."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import resources as r
from netclaim.kube.client import Client
from tests.api.compute.world import PATIENCE, Program, World
from tests.control_plane import ControlPlane
from tests.waiting import until


@pytest.fixture(scope="package")
async def program(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Program]:
    """`nso --controllers=compute` on the cell; its log must hold no traceback in the end."""
    log: Path = tmp_path_factory.mktemp("compute") / "nso.log"
    running = Program(control_plane.cell_kubeconfig, log)
    await running.start()
    yield running
    running.stop()
    assert running.traceback() == ""


@pytest.fixture
async def world(cell: Client, control_plane: ControlPlane, program: Program) -> AsyncIterator[World]:
    """A namespace that Pods can be made in."""
    name = f"shop-{secrets.token_hex(3)}"
    await cell.create(r.NAMESPACES, {"metadata": {"name": name}})
    made = World(cell, control_plane, name)
    await until(lambda: made.get(r.SERVICE_ACCOUNTS, "default"), timeout=PATIENCE, what="the default service account")
    yield made
    for resource in (r.PODS, r.CLAIMS, r.INSTANCES):
        for one, raw in (await made.all(resource)).items():
            if raw["metadata"].get("finalizers") == ["tests.netclaim.dev/hold"]:
                await made.let_go(resource, one)
    await cell.delete(r.NAMESPACES, None, name)
