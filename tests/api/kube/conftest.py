"""A namespace where no controller works, and a client behind a proxy that loses replies."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from yarl import URL

from netclaim.api.resources import NAMESPACES
from netclaim.kube.client import Client
from tests.control_plane import ControlPlane
from tests.faults.proxy import FaultProxy


@pytest.fixture
async def shop(cell: Client) -> AsyncIterator[str]:
    """A namespace of its own, without a project: no controller does anything there."""
    name = f"runtime-{secrets.token_hex(3)}"
    await cell.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await cell.delete(NAMESPACES, None, name)


@pytest.fixture
async def proxied(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[FaultProxy, Client]]:
    """A proxy before the cell's API server, and a client that goes through it."""
    document = yaml.safe_load(control_plane.cell_kubeconfig.read_text())
    url = URL(document["clusters"][0]["cluster"]["server"])
    assert url.host
    assert url.port
    proxy = await FaultProxy(url.host, url.port).start()
    document["clusters"][0]["cluster"]["server"] = proxy.address
    path = tmp_path / "proxied.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    client = await Client.connect(str(path), user_agent="netclaim-tests")
    yield proxy, client
    await client.close()
    await proxy.stop()
