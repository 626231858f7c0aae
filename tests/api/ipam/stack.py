"""The IPAM controllers running against a real API server inside the test's process, and claims to try them with."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from netclaim.api import ipam, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster, run_reflectors
from netclaim.kube.errors import AlreadyExists, Lost, NotFound
from nso.ipam import invariants
from nso.ipam.registration import CLAIM_WORKERS, Controllers, build
from tests.control_plane import ControlPlane
from tests.waiting import until

CRDS = Path(__file__).resolve().parents[3] / "crds"


@dataclass(frozen=True)
class Settings:
    """What the controllers are told; short times, so that a test need not wait."""

    pool_linger: float = 600.0
    orphan_grace: float = 1.0
    removal_grace: float = 0.5
    claim_workers: int = CLAIM_WORKERS


@asynccontextmanager
async def running(kubeconfig: str, settings: Settings | None = None) -> AsyncIterator[Controllers]:
    """The four controllers at work, as one process without leader election would run them."""
    client = await Client.connect(kubeconfig, user_agent="netclaim-tests-ipam")
    cluster = Cluster(client)
    chosen = settings or Settings()
    controllers = build(cluster, chosen, removal_grace=chosen.removal_grace, claim_workers=chosen.claim_workers)
    reflectors = asyncio.create_task(run_reflectors(cluster))
    async with asyncio.timeout(60):
        for reflector in cluster.reflectors:
            await reflector.synced.wait()
    tasks = [asyncio.create_task(controller.run()) for controller in controllers.all]
    try:
        yield controllers
    finally:
        for task in (*tasks, reflectors):
            task.cancel()
        await asyncio.gather(*tasks, reflectors, return_exceptions=True)
        await client.close()


def network_scope(name: str = "default", *, namespace: str = "shop", location: str = "us-central-1") -> Raw:
    """What a cell sends: the network and the location."""
    return {
        "network": {"kind": "Network", "namespace": namespace, "name": name},
        "location": {"kind": "Location", "name": location},
    }


def claim(
    project: str,
    name: str,
    *,
    class_name: str | None = None,
    family: str | None = None,
    scope: Raw | None = None,
    target: str = "Block",
    address: str | None = None,
) -> Raw:
    """An IPClaim as a client creates it, finalizer included."""
    spec: Raw = {"target": target, "scope": network_scope() if scope is None else scope}
    if class_name:
        spec["className"] = class_name
    else:
        spec["ipFamily"] = family or "IPv4"
    if address:
        spec["address"] = address
    spec["ownerRef"] = {"controlPlane": "test", "kind": "Test", "namespace": "shop", "name": name, "uid": f"uid-{name}"}
    return {
        "metadata": {"name": name, "namespace": project, "finalizers": [ipam.CLAIM_FINALIZER]},
        "spec": spec,
    }


async def make(client: Client, *claims: Raw, writers: int = 32) -> None:
    """Create claims, many at once. A writer that the machine is too slow for asks again."""
    gate = asyncio.Semaphore(writers)

    async def one(raw: Raw) -> None:
        async with gate:
            for _ in range(5):
                try:
                    await client.create(resources.IP_CLAIMS, raw)
                except Lost:
                    continue
                except AlreadyExists:
                    pass
                return
            raise AssertionError(f"no answer to the create of {raw['metadata']['name']}")

    async with asyncio.TaskGroup() as group:
        for raw in claims:
            group.create_task(one(raw))


async def get(client: Client, project: str, name: str) -> Raw:
    """One claim."""
    return await client.get(resources.IP_CLAIMS, project, name)


async def bound(client: Client, project: str, name: str, *, timeout: float = 30.0) -> Raw:
    """The status of a claim once it is bound."""

    async def look() -> Raw | None:
        raw = await get(client, project, name)
        status = raw.get("status") or {}
        if status.get("phase") == ipam.PHASE_BOUND:
            return status
        raise AssertionError(f"{name}: {status}")

    return await until(look, timeout=timeout, what=f"IPClaim {name} bound")


async def all_bound(client: Client, project: str, count: int, *, timeout: float = 120.0) -> dict[str, str]:
    """CIDRs by name once `count` claims of the project are bound."""

    async def look() -> dict[str, str] | None:
        found = await cidrs(client, project)
        if len(found) != count:
            raise AssertionError(f"{len(found)} of {count} bound")
        return found

    return await until(look, timeout=timeout, what=f"{count} claims bound", interval=0.25)


async def cidrs(client: Client, project: str) -> dict[str, str]:
    """CIDRs of the bound claims by name."""
    listed = await client.list(resources.IP_CLAIMS, project)
    return {raw["metadata"]["name"]: raw["status"]["cidr"] for raw in listed if (raw.get("status") or {}).get("cidr")}


async def refused(client: Client, project: str, name: str, reason: str, *, timeout: float = 30.0) -> str:
    """The message of a claim once it is refused for `reason`."""

    async def look() -> str | None:
        status = (await get(client, project, name)).get("status") or {}
        for condition in status.get("conditions") or ():
            if condition["type"] == ipam.BOUND and condition.get("reason") == reason:
                return str(condition["message"])
        raise AssertionError(f"{name}: {status}")

    return await until(look, timeout=timeout, what=f"IPClaim {name} refused for {reason}")


async def release(client: Client, project: str, names: Iterable[str] | None = None, *, timeout: float = 120.0) -> None:
    """Delete claims (all of the project by default) and wait until they are gone."""
    chosen = (
        set(names)
        if names is not None
        else {raw["metadata"]["name"] for raw in await client.list(resources.IP_CLAIMS, project)}
    )
    gate = asyncio.Semaphore(32)

    async def one(name: str) -> None:
        async with gate:
            with contextlib.suppress(NotFound):
                await client.delete(resources.IP_CLAIMS, project, name)

    async with asyncio.TaskGroup() as group:
        for name in chosen:
            group.create_task(one(name))

    async def gone() -> bool:
        left = {raw["metadata"]["name"] for raw in await client.list(resources.IP_CLAIMS, project)} & chosen
        if left:
            raise AssertionError(f"{len(left)} left: {sorted(left)[:3]}")
        return True

    await until(gone, timeout=timeout, what="claims gone", interval=0.25)


async def allocations(client: Client, project: str, purpose: str | None = None) -> list[Raw]:
    """IPAllocations of the project."""
    listed = await client.list(resources.IP_ALLOCATIONS, project)
    return [raw for raw in listed if purpose in {None, raw["spec"]["purpose"]}]


@asynccontextmanager
async def ipam_control_plane() -> AsyncIterator[str]:
    """Its kubeconfig. ``NETCLAIM_RUN_DIR`` names a running pair of control planes to use instead of starting one."""
    running = os.environ.get("NETCLAIM_RUN_DIR")
    run_dir = Path(running) if running else Path(tempfile.mkdtemp(prefix="netclaim-ipam-"))
    plane = ControlPlane.attach(run_dir) if running else ControlPlane.start(run_dir)
    try:
        plane.install_crds(CRDS)
        yield str(plane.ipam_kubeconfig)
    finally:
        if not running:
            plane.stop()
            shutil.rmtree(run_dir, ignore_errors=True)


async def make_pool(client: Client, project: str, cidr: str, *, name: str = "few", **spec: object) -> None:
    """A class and a root pool of single addresses."""
    class_spec = {"ipFamily": "IPv4", "prefixLength": 32, **(spec.pop("of_class", None) or {})}  # type: ignore[dict-item]
    await client.create(resources.IP_CLASSES, {"metadata": {"name": name, "namespace": project}, "spec": class_spec})
    pool = {"cidr": cidr, "classNames": [name], **spec}
    await client.create(resources.IP_POOLS, {"metadata": {"name": name, "namespace": project}, "spec": pool})


async def pool_ready(client: Client, project: str, pool: str, status: str, reason: str | None = None) -> str:
    """The message of Ready once it has this status (and reason)."""

    async def look() -> str | None:
        found = (await client.get(resources.IP_POOLS, project, pool)).get("status") or {}
        for condition in found.get("conditions") or ():
            if (
                condition["type"] == ipam.READY
                and condition["status"] == status
                and reason in {None, condition["reason"]}
            ):
                return str(condition["message"])
        raise AssertionError(f"{pool}: {found}")

    return await until(look, timeout=30, what=f"IPPool {pool} Ready={status}")


async def violations(client: Client, project: str) -> list[invariants.Violation]:
    """What the checker finds in one project; allocations are read first."""
    held = await client.list(resources.IP_ALLOCATIONS, project)
    claims = await client.list(resources.IP_CLAIMS, project)
    pools = await client.list(resources.IP_POOLS, project)
    classes = await client.list(resources.IP_CLASSES, project)
    return invariants.check(classes=classes, pools=pools, claims=claims, allocations=held)


async def consistent(client: Client, project: str) -> None:
    """Wait until the checker finds nothing: counters follow within a second or so."""

    async def look() -> bool:
        found = await violations(client, project)
        assert not found, [str(each) for each in found]
        return True

    await until(look, timeout=60, what=f"no violation in {project}", interval=0.3)
