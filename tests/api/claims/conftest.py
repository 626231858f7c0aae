"""NSO and IPAM as programs at two real API servers, and a fresh shop for each test.

The programs look at every namespace, so they live as long as this package's tests: those of others play their part.
"""

import contextlib
import json
import secrets
from collections.abc import AsyncIterator

import pytest

from netclaim.api import networking, resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, NotFound
from nso.ipam import invariants
from tests.api.claims.programs import Program
from tests.api.claims.shop import LOCATION, Shop
from tests.conftest import create_project
from tests.control_plane import ControlPlane
from tests.waiting import until

SYSTEM = "netclaim-system"
ALONE = "--leader-elect=false"
"""The tests kill these programs; the next life need not wait until the Lease of the last one has run out."""


@pytest.fixture(scope="package")
async def system_namespaces(cell: Client, ipam: Client) -> None:
    """Where the programs keep their Leases."""
    for client in (cell, ipam):
        try:
            await client.create(resources.NAMESPACES, {"metadata": {"name": SYSTEM}})
        except AlreadyExists:
            continue


@pytest.fixture(scope="package")
async def ipam_program(control_plane: ControlPlane, system_namespaces: None) -> AsyncIterator[Program]:
    """The IPAM controllers beside their control plane."""
    program = Program(
        control_plane.cluster,
        "claims-ipam",
        (
            "--controllers=ipam",
            f"--kubeconfig={control_plane.ipam_kubeconfig}",
            "--pool-linger=2",
            "--orphan-grace=5",
            ALONE,
        ),
    )
    await program.start()
    yield program
    program.end()


@pytest.fixture(scope="package")
async def nso(control_plane: ControlPlane, ipam_program: Program) -> AsyncIterator[Program]:
    """The cell's networks and claims."""
    program = Program(
        control_plane.cluster,
        "claims-nso",
        (
            "--controllers=networks,claims",
            f"--kubeconfig={control_plane.cell_kubeconfig}",
            f"--ipam-kubeconfig={control_plane.ipam_kubeconfig}",
            f"--location={LOCATION}",
            "--orphan-grace=5",
            ALONE,
        ),
    )
    await program.start()
    yield program
    program.end()


@pytest.fixture(scope="package")
async def projects(ipam: Client, ipam_program: Program) -> AsyncIterator[list[str]]:
    """The projects of the tests. In the end none has a pool that a claim or a network made, and all go.

    An empty pool stays for a while and so does the one above it: one wait for all projects instead of one a test.
    """
    used: list[str] = []
    yield used

    async def no_pool_left() -> bool:
        left = [
            f"{raw['spec']['purpose']} {project}/{raw['metadata']['name']}"
            for project in used
            for raw in await ipam.list(resources.IP_ALLOCATIONS, project)
        ]
        assert not left, left
        return True

    await until(no_pool_left, timeout=60, what="nothing is allocated in any project", interval=0.5)
    for project in used:
        await ipam.delete(resources.NAMESPACES, None, project)


@pytest.fixture
async def shop(cell: Client, ipam: Client, nso: Program, projects: list[str]) -> AsyncIterator[Shop]:
    """A namespace and its project; afterwards nothing may be left in either, but pools that are empty."""
    async for made in _shop(cell, ipam, nso, projects, "project-alpha"):
        yield made


@pytest.fixture
async def other_shop(cell: Client, ipam: Client, nso: Program, projects: list[str]) -> AsyncIterator[Shop]:
    """Another project with the same class names."""
    async for made in _shop(cell, ipam, nso, projects, "project-beta"):
        yield made


async def _shop(cell: Client, ipam: Client, nso: Program, projects: list[str], like: str) -> AsyncIterator[Shop]:
    suffix = secrets.token_hex(3)
    made = Shop(cell, ipam, f"shop-{suffix}", f"{like}-{suffix}")
    await create_project(ipam, made.project, like=like)
    labels = {networking.PROJECT_LABEL: made.project}
    await cell.create(resources.NAMESPACES, {"metadata": {"name": made.namespace, "labels": labels}})
    yield made
    projects.append(made.project)
    await made.sound()
    await everything_goes(made)
    assert "Traceback" not in nso.log(), nso.log()[-4000:]


async def everything_goes(shop: Shop) -> None:
    """Claims, interfaces and networks are deleted; nothing may be left of them: no object, finalizer or address.

    The order is that of a tidy consumer; the tests of releases try the others, and the deletion of the namespace.
    """
    for resource in (resources.CLAIMS, resources.INTERFACES, resources.SUBNET_CLAIMS, resources.NETWORKS):
        for raw in await shop.cell.list(resource, shop.namespace):
            with contextlib.suppress(NotFound):
                await shop.cell.delete(resource, shop.namespace, raw["metadata"]["name"])

        async def none_left(resource: resources.Resource = resource) -> bool:
            left = await shop.cell.list(resource, shop.namespace)
            assert not left, json.dumps([(raw["metadata"], raw.get("status")) for raw in left], default=str)
            return True

        await until(none_left, timeout=30, what=f"no {resource.kind} left", interval=0.1)
    with contextlib.suppress(NotFound):
        await shop.cell.delete(resources.NAMESPACES, None, shop.namespace)

    async def nothing_left() -> bool:
        left = [raw["metadata"]["name"] for raw in await shop.ipam.list(resources.IP_CLAIMS, shop.project)]
        assert not left, left
        assert not await shop.allocations()
        return True

    await until(nothing_left, timeout=30, what=f"nothing left in project {shop.project}", interval=0.2)

    async def nothing_violated() -> bool:
        found = invariants.check(
            classes=await shop.ipam.list(resources.IP_CLASSES, shop.project),
            pools=await shop.ipam.list(resources.IP_POOLS, shop.project),
            claims=await shop.ipam.list(resources.IP_CLAIMS, shop.project),
            allocations=await shop.ipam.list(resources.IP_ALLOCATIONS, shop.project),
        )
        assert not found, [str(each) for each in found]
        return True

    # A pool's counters follow within a second.
    await until(nothing_violated, timeout=60, what="no invariant violated", interval=0.2)
