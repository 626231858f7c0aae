"""NSO and IPAM as programs, and the examples of the documentation applied as they stand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import resources as r
from netclaim.api.conditions import is_true
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, NotFound
from tests.api.claims.programs import Program
from tests.control_plane import ControlPlane
from tests.documentation import ROOT, Reader
from tests.waiting import until

PATIENCE = 90.0
ALONE = "--leader-elect=false"


@pytest.fixture(scope="package")
async def programs(control_plane: ControlPlane, cell: Client, ipam: Client) -> AsyncIterator[None]:
    """IPAM beside its control plane; networks, claims and compute in the cell."""
    for client in (cell, ipam):
        with contextlib.suppress(AlreadyExists):
            await client.create(r.NAMESPACES, {"metadata": {"name": "netclaim-system"}})
    at_ipam, at_cell = f"--kubeconfig={control_plane.ipam_kubeconfig}", f"--kubeconfig={control_plane.cell_kubeconfig}"
    started = [
        Program(control_plane.cluster, "docs-ipam", ("--controllers=ipam", at_ipam, "--pool-linger=1", ALONE)),
        Program(
            control_plane.cluster,
            "docs-nso",
            (
                "--controllers=networks,claims,compute",
                at_cell,
                f"--ipam-kubeconfig={control_plane.ipam_kubeconfig}",
                "--location=us-central-1",
                ALONE,
            ),
        ),
    ]
    await asyncio.gather(*(program.start() for program in started))
    yield
    for program in started:
        assert "Traceback" not in program.log(), program.log()[-4000:]
        program.end()


@pytest.fixture(scope="package")
async def quickstart(control_plane: ControlPlane, cell: Client, ipam: Client, programs: None) -> AsyncIterator[None]:
    """Both files of the first workload applied and the claims allocated; afterwards all of it is deleted again."""
    control_plane.ipam_kubectl("apply", "-f", str(ROOT / "examples" / "ipam-two-projects.yaml"))
    control_plane.kubectl("apply", "-f", str(ROOT / "examples" / "quickstart.yaml"))

    async def allocated() -> bool:
        claims = await cell.list(r.CLAIMS, "shop")
        assert len(claims) == 3, claims
        assert all(is_true(claim, "Allocated") for claim in claims), claims
        return True

    await until(allocated, timeout=PATIENCE, what="the quick start's claims allocated", interval=0.2)
    yield
    for resource in (r.WORKLOADS, r.CLAIMS, r.INTERFACES, r.NETWORKS):
        await _gone(cell, resource, "shop")
    for client, name in ((cell, "shop"), (ipam, "project-alpha"), (ipam, "project-beta")):
        with contextlib.suppress(NotFound):
            await client.delete(r.NAMESPACES, None, name)

    async def away() -> bool:
        left = [raw["metadata"]["name"] for raw in await ipam.list(r.NAMESPACES)]
        left += [raw["metadata"]["name"] for raw in await cell.list(r.NAMESPACES)]
        found = {"shop", "project-alpha", "project-beta"} & set(left)
        assert not found, found
        return True

    await until(away, timeout=PATIENCE, what="the quick start's namespaces gone", interval=0.5)


async def _gone(client: Client, resource: r.Resource, namespace: str) -> None:
    for raw in await client.list(resource, namespace):
        with contextlib.suppress(NotFound):
            await client.delete(resource, namespace, raw["metadata"]["name"], propagation="Foreground")

    async def none_left() -> bool:
        left = [raw["metadata"]["name"] for raw in await client.list(resource, namespace)]
        assert not left, left
        return True

    await until(none_left, timeout=PATIENCE, what=f"no {resource.kind} left in {namespace}", interval=0.2)


@pytest.fixture
def reader(control_plane: ControlPlane, tmp_path: Path) -> Reader:
    made = Reader(control_plane.cluster, tmp_path)
    made.prepare()
    return made
