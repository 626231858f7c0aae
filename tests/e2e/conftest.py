"""The e2e tier's fixtures: one two-node cluster with all programs a session, a fresh project and namespace a test."""

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from dev import programs
from dev.cluster import Cluster
from netclaim.api import networking
from netclaim.api.resources import (
    ATTACHMENTS,
    CLAIMS,
    INSTANCES,
    INTERFACES,
    IP_ALLOCATIONS,
    IP_CLAIMS,
    IP_CLASSES,
    IP_POOLS,
    NAMESPACES,
    NETWORKS,
    WORKLOADS,
    Resource,
)
from netclaim.kube.errors import NotFound
from nso.ipam import invariants
from tests.conftest import create_project
from tests.e2e.nodes import nodes_are_sound
from tests.e2e.stack import Stack, connected, two_nodes
from tests.waiting import until


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two real nodes and the programs. ``NETCLAIM_E2E_RUN_DIR`` names a running one (``make up``) to use instead."""
    with two_nodes("NETCLAIM_E2E_RUN_DIR", programs.start) as cluster:
        yield cluster


@pytest.fixture(scope="session")
async def stack(cluster: Cluster) -> AsyncIterator[Stack]:
    async with connected(cluster) as stack:
        yield stack


@dataclass
class Tenant:
    """A project in IPAM and a namespace of the cell that belongs to it."""

    project: str
    namespace: str


@pytest.fixture
async def tenant(stack: Stack) -> AsyncIterator[Tenant]:
    async for made in _tenant(stack, "project-alpha"):
        yield made


@pytest.fixture
async def other_tenant(stack: Stack) -> AsyncIterator[Tenant]:
    """A second project with the same class names and pools of its own."""
    async for made in _tenant(stack, "project-beta"):
        yield made


async def _tenant(stack: Stack, like: str) -> AsyncIterator[Tenant]:
    suffix = secrets.token_hex(3)
    made = Tenant(f"{like}-{suffix}", f"shop-{suffix}")
    await create_project(stack.ipam, made.project, like=like)
    labels = {networking.PROJECT_LABEL: made.project}
    await stack.cell.create(NAMESPACES, {"metadata": {"name": made.namespace, "labels": labels}})
    yield made
    await empty(stack, made)
    with contextlib.suppress(NotFound):  # a test may have deleted it
        await stack.cell.delete(NAMESPACES, None, made.namespace)
    await stack.ipam.delete(NAMESPACES, None, made.project)


async def empty(stack: Stack, tenant: Tenant) -> None:
    """Delete what the tenant has, in the order of a careful user, and wait until IPAM holds nothing for it.

    Faster than deleting the namespace with all that is in it, which the namespace controller looks at every 15 s or so;
    that path has a test of its own.
    """
    for resource, left in (
        (WORKLOADS, (WORKLOADS, INSTANCES, CLAIMS)),
        (INTERFACES, (INTERFACES, ATTACHMENTS)),
        (NETWORKS, (NETWORKS,)),
    ):
        for found in await stack.cell.list(resource, tenant.namespace):
            if "deletionTimestamp" not in found["metadata"]:
                await stack.cell.delete(resource, tenant.namespace, found["metadata"]["name"], propagation="Foreground")

        async def gone(left: tuple[Resource, ...] = left) -> bool:
            there = [
                f"{one.kind} {o['metadata']['name']}"
                for one in left
                for o in await stack.cell.list(one, tenant.namespace)
            ]
            assert not there, f"still there: {there}"
            return True

        await until(gone, timeout=60, what=f"{', '.join(r.plural for r in left)} of {tenant.namespace} gone")

    async def nothing_is_held() -> bool:
        held = await stack.ipam.list(IP_ALLOCATIONS, tenant.project)
        left = [a["metadata"]["name"] for a in held if a["spec"]["purpose"] != "Carve"]  # pools linger a moment
        left += [c["metadata"]["name"] for c in await stack.ipam.list(IP_CLAIMS, tenant.project)]
        assert not left, f"left in IPAM: {left}"
        return True

    await until(nothing_is_held, timeout=30, what=f"nothing held in project {tenant.project}")


@pytest.fixture(autouse=True)
async def invariants_hold(stack: Stack) -> AsyncIterator[None]:
    """After every test: no block twice, counters equal sums, interfaces and claims one to one, no traceback logged."""
    yield

    async def nothing_violated() -> bool:
        found = [
            str(violation)
            for violation in invariants.check(
                classes=await stack.ipam.list(IP_CLASSES),
                pools=await stack.ipam.list(IP_POOLS),
                claims=await stack.ipam.list(IP_CLAIMS),
                allocations=await stack.ipam.list(IP_ALLOCATIONS),
            )
        ]
        claims = {(c["metadata"]["namespace"], c["metadata"]["uid"]) for c in await stack.cell.list(CLAIMS)}
        holders = [
            (i["metadata"]["namespace"], i["spec"]["claimRef"]["uid"])
            for i in await stack.cell.list(INTERFACES)
            if i["spec"].get("claimRef") and "deletionTimestamp" not in i["metadata"]
        ]
        found += [f"two interfaces held by one claim: {h}" for h in holders if holders.count(h) > 1]
        found += [f"interface held by a claim that is gone: {h}" for h in holders if h not in claims]
        assert not found, found
        return True

    await until(nothing_violated, timeout=60, what="no invariant violated", interval=0.3)
    await nodes_are_sound(stack.cluster)
    for program, log in stack.program_logs().items():
        assert "Traceback" not in log, f"{program} logged a traceback: {log[log.index('Traceback') - 500 :][:3000]}"
