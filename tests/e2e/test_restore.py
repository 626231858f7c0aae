"""A control plane put back to an etcd snapshot while interfaces are live: no address of theirs is given to another.

The steps are those of docs/tasks.md. It takes four minutes: NETCLAIM_LONG=1 runs it.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dev import accounts, etcd
from dev.programs import LOCATION
from dev.progress import PlainDisplay
from netclaim.api.conditions import reason_of
from netclaim.api.resources import CLAIMS, IP_ALLOCATIONS, IP_CLAIMS, IP_POOLS, PODS
from nso.claims.sweep import FEW
from tests.api.claims.programs import Program
from tests.e2e.conftest import Tenant
from tests.e2e.stack import Raw, Stack, addresses_of, network, workload
from tests.waiting import until

pytestmark = pytest.mark.skipif("NETCLAIM_LONG" not in os.environ, reason="takes four minutes; set NETCLAIM_LONG=1")
ROOT = Path(__file__).resolve().parents[2]
NSO, IPAM = "netclaim-nso", "netclaim-ipam"
KEPT = 3
LATER = KEPT + FEW // 2 + 2
"""Replicas with so many more interfaces than the snapshot knows that two families of them are more than a few."""


def netclaimctl(stack: Stack, tenant: Tenant, *words: str) -> subprocess.CompletedProcess[str]:
    planes = ("--kubeconfig", stack.cluster.ipam_kubeconfig, "--cell-kubeconfig", stack.cluster.cell_kubeconfig)
    command = [sys.executable, "-m", "netclaimctl", "ipam", *words, *map(str, planes), "--project", tenant.project]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
async def running(stack: Stack, tenant: Tenant) -> AsyncIterator[dict[str, Raw]]:
    """Three instances that every snapshot knows; the programs run again afterwards, whatever happened."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=KEPT))
    yield await stack.ready(tenant.namespace, "web", KEPT)
    down = [one["name"] for one in stack.cluster.processes() if one["name"] in {NSO, IPAM} and not one["pid"]]
    for name in down:
        stack.cluster.restart(name)


async def test_a_cell_that_forgot_its_newest_interfaces_gives_back_none_of_them_by_itself(
    stack: Stack, tenant: Tenant, running: dict[str, Raw], tmp_path: Path
) -> None:
    """T29: to IPAM's holdings a restored cell looks like a cell with many orphans: the sweep stops and says so."""
    etcd.save(stack.cluster, "cell", tmp_path / "cell.db", PlainDisplay())
    stack.apply(workload("web", tenant.namespace, replicas=LATER))
    await stack.ready(tenant.namespace, "web", LATER, timeout=180)
    held = {raw["metadata"]["uid"] for raw in await stack.ipam.list(IP_CLAIMS, tenant.project)}

    stack.cluster.stop(NSO)
    await asyncio.to_thread(etcd.restore, stack.cluster, "cell", tmp_path / "cell.db", PlainDisplay())
    found = netclaimctl(stack, tenant, "check")
    orphans = found.stdout.count("NoOwner")
    assert orphans == 2 * (LATER - KEPT), found.stdout

    hasty = Program(stack.cluster, "netclaim-nso-hasty", (*words_of_nso(stack), "--orphan-grace=3"))
    await hasty.start()
    await until(lambda: "netclaim_sweep_stopped 1.0" in hasty.metrics(), timeout=60, what="the sweep stopped")
    hasty.end()
    assert held == {raw["metadata"]["uid"] for raw in await stack.ipam.list(IP_CLAIMS, tenant.project)}

    await until(lambda: only_pods(stack, tenant, set(running)), timeout=120, what="Pods that the cell forgot are gone")
    await still_the_same(stack, tenant, running)
    refused = netclaimctl(stack, tenant, "repair", "--grace", "2")
    assert "so many at once look like a restored backup" in refused.stdout, refused
    mended = netclaimctl(stack, tenant, "repair", "--grace", "2", "--limit", str(orphans))
    assert f"{orphans} done, 0 failed, 0 left" in mended.stderr, mended

    stack.cluster.restart(NSO)
    stack.apply(workload("web", tenant.namespace, replicas=LATER))
    await stack.ready(tenant.namespace, "web", LATER, timeout=180)
    await stack.assert_published_is_held(tenant.namespace, tenant.project)
    await still_the_same(stack, tenant, running)


async def test_an_ipam_that_forgot_the_newest_addresses_gives_none_of_them_to_another(
    stack: Stack, tenant: Tenant, running: dict[str, Raw], tmp_path: Path
) -> None:
    """T29: what is live and forgotten is reserved before IPAM's controllers start; the claims are replaced in peace."""
    etcd.save(stack.cluster, "ipam", tmp_path / "ipam.db", PlainDisplay())
    stack.apply(workload("web", tenant.namespace, replicas=KEPT + 2))
    live = await stack.ready(tenant.namespace, "web", KEPT + 2)
    newest = {name: one for name, one in live.items() if name not in running}
    blocks = [block for name in newest for block in (await stack.published(tenant.namespace))[f"{name}-eth0"].values()]

    for name in (NSO, IPAM):
        stack.cluster.stop(name)
    await asyncio.to_thread(etcd.restore, stack.cluster, "ipam", tmp_path / "ipam.db", PlainDisplay())
    found = netclaimctl(stack, tenant, "check")
    assert found.stdout.count("NotHeld") == len(blocks) == 4, found.stdout
    for block in blocks:
        await reserve(stack, tenant, block)
    for name in (IPAM, NSO):
        stack.cluster.restart(name)

    stack.apply(workload("web", tenant.namespace, replicas=KEPT + 4))
    await until(lambda: says_missing(stack, tenant, set(newest)), timeout=60, what="claims say what IPAM has lost")
    await until(lambda: are_bound(stack, tenant, 4), timeout=60, what="claims of new instances bound")
    everyone = [block for one in (await stack.published(tenant.namespace)).values() for block in one.values()]
    assert len(everyone) == len(set(everyone)) == 2 * (KEPT + 4)
    await still_the_same(stack, tenant, live)

    for name in newest:
        stack.kubectl("delete", "networkinterfaceclaim", f"{name}-eth0", "-n", tenant.namespace, "--wait=false")
    replaced = await stack.ready(tenant.namespace, "web", KEPT + 4, timeout=180)
    for name, instance in newest.items():
        assert not set(addresses_of(replaced[name]).values()) & set(addresses_of(instance).values())
    for raw in await stack.ipam.list(IP_ALLOCATIONS, tenant.project):
        if raw["spec"]["purpose"] == "Reservation":
            await stack.ipam.delete(IP_ALLOCATIONS, tenant.project, raw["metadata"]["name"])
    await stack.assert_published_is_held(tenant.namespace, tenant.project)
    await still_the_same(stack, tenant, running)
    sound = netclaimctl(stack, tenant, "check")
    assert sound.returncode == 0, sound.stdout


def words_of_nso(stack: Stack) -> tuple[str, ...]:
    """What the cell's controllers are told on the local cluster."""
    here, there = accounts.kubeconfig(stack.cluster, "nso"), accounts.kubeconfig(stack.cluster, "nso-cell")
    planes = (f"--kubeconfig={here}", f"--ipam-kubeconfig={there}")
    return ("--controllers=networks,claims,compute", f"--location={LOCATION}", *planes)


async def still_the_same(stack: Stack, tenant: Tenant, instances: dict[str, Raw]) -> None:
    """Nobody touched these: their Pods are the same, have their addresses, and answer each other."""
    now = await stack.instances(tenant.namespace, "web")
    for name, instance in instances.items():
        assert now[name]["metadata"]["uid"] == instance["metadata"]["uid"]
        assert addresses_of(now[name]) == addresses_of(instance)
    first, *others = (addresses_of(one).values() for one in instances.values())
    assert stack.unanswered(tenant.namespace, "web-0", [address for pair in others for address in pair]) == []
    assert stack.unanswered(tenant.namespace, "web-1", first) == []


async def only_pods(stack: Stack, tenant: Tenant, names: set[str]) -> bool:
    """No other Pods are there, also not on the nodes: what ran there was ended by its kubelet."""
    there = {pod["metadata"]["name"] for pod in await stack.cell.list(PODS, tenant.namespace)}
    for node in stack.cluster.node_names:
        folders = (stack.cluster.node(node).folder / "log" / "pods").glob(f"{tenant.namespace}_*")
        there |= {folder.name.split("_")[1] for folder in folders}
    assert there == names, there
    return True


async def says_missing(stack: Stack, tenant: Tenant, instances: set[str]) -> bool:
    for name in instances:
        claim = await stack.cell.get(CLAIMS, tenant.namespace, f"{name}-eth0")
        assert reason_of(claim, "Allocated") == "AddressAllocationMissing", claim["status"]
    return True


async def are_bound(stack: Stack, tenant: Tenant, count: int) -> bool:
    """As many claims as before the restore and `count` - 2 more have all of their addresses."""
    published = await stack.published(tenant.namespace)
    assert len(published) == KEPT + count, published
    assert all(len(one) == 2 for one in published.values()), published
    return True


async def reserve(stack: Stack, tenant: Tenant, block: str) -> None:
    """Keep a block from everybody, in the pool that would give it out, as examples/reserve-address.yaml does."""
    family = "IPv6" if ":" in block else "IPv4"
    pool = next(
        raw["metadata"]["name"]
        for raw in await stack.ipam.list(IP_POOLS, tenant.project)
        if f"endpoint-{family.lower()}" in raw["spec"]["classNames"]
    )
    name = f"reserved-{block.translate(str.maketrans(':./', '---')).strip('-')}"
    spec = {"poolRef": {"name": pool}, "cidr": block, "purpose": "Reservation"}
    await stack.ipam.create(IP_ALLOCATIONS, {"metadata": {"name": name, "namespace": tenant.project}, "spec": spec})
