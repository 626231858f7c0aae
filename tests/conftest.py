"""Fixtures that every tier shares: the control planes, clients of them, and fresh namespaces."""

import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, settings

from netclaim.api import networking
from netclaim.api.resources import NAMESPACES
from netclaim.kube.client import Client
from tests.control_plane import ControlPlane

ROOT = Path(__file__).resolve().parent.parent
TIERS = frozenset({"unit", "api", "net", "e2e", "helm", "vm", "chaos"})
# Time says nothing about pure code on a machine that does other things too.
settings.register_profile("netclaim", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("netclaim")
IPAM_FIXTURES = ROOT / "examples" / "ipam-two-projects.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--control-plane",
        choices=("process", "container"),
        default="process",
        help="how the api tier's control planes run (container: needs root, or an engine that answers)",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test's tier is the folder it lives in."""
    for item in items:
        tier = Path(item.path).relative_to(ROOT / "tests").parts[0]
        if tier in TIERS:
            item.add_marker(getattr(pytest.mark, tier))


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """Two real API servers (cell and IPAM) with every CRD installed; one pair a session.

    ``NETCLAIM_RUN_DIR`` names a running pair (``python -m dev up --nodes 0``) to use instead of starting one.
    """
    running = os.environ.get("NETCLAIM_RUN_DIR")
    run_dir = Path(running) if running else Path(tempfile.mkdtemp(prefix="netclaim-test-"))
    plane = (
        ControlPlane.attach(run_dir)
        if running
        else ControlPlane.start(run_dir, pytestconfig.getoption("--control-plane"))
    )
    try:
        plane.install_crds(ROOT / "crds")
        yield plane
    finally:
        if not running:
            plane.stop()
            shutil.rmtree(run_dir, ignore_errors=True)


@pytest.fixture(scope="session")
async def cell(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """The cell's API server, as its administrator."""
    client = await Client.connect(str(control_plane.cell_kubeconfig), user_agent="netclaim-tests")
    yield client
    await client.close()


@pytest.fixture(scope="session")
async def ipam(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """The IPAM control plane's API server, as its administrator."""
    client = await Client.connect(str(control_plane.ipam_kubeconfig), user_agent="netclaim-tests")
    yield client
    await client.close()


@pytest.fixture
async def project(ipam: Client) -> AsyncIterator[str]:
    """A fresh project in IPAM with the classes and pools of examples/ipam-two-projects.yaml."""
    name = f"project-{secrets.token_hex(3)}"
    await create_project(ipam, name)
    yield name
    await ipam.delete(NAMESPACES, None, name)


@pytest.fixture
async def namespace(cell: Client, project: str) -> AsyncIterator[str]:
    """A fresh namespace in the cell that belongs to ``project``."""
    name = f"shop-{secrets.token_hex(3)}"
    await cell.create(NAMESPACES, {"metadata": {"name": name, "labels": {networking.PROJECT_LABEL: project}}})
    yield name
    await cell.delete(NAMESPACES, None, name)


async def create_project(ipam: Client, name: str, *, like: str = "project-alpha") -> None:
    """Make the IPAM namespace ``name`` with the objects that the example gives to the project ``like``."""
    from netclaim.api import resources

    kinds = {r.kind: r for r in (resources.IP_CLASSES, resources.IP_POOLS)}
    await ipam.create(NAMESPACES, {"metadata": {"name": name}})
    for document in yaml.safe_load_all(IPAM_FIXTURES.read_text()):
        if document and document["metadata"].get("namespace") == like:
            document["metadata"]["namespace"] = name
            await ipam.create(kinds[document["kind"]], document)
