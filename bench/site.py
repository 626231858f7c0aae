"""Where the benchmarks of claims run: two real API servers, NSO and IPAM as programs, one project and its network.

``NETCLAIM_RUN_DIR`` names a running pair of control planes (``python -m dev up --nodes 0``) to use instead of starting
one.
"""

import asyncio
import contextlib
import os
import re
import secrets
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from netclaim.api import conditions, networking, resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists
from tests.api.claims.programs import Program
from tests.api.claims.shop import LOCATION, Shop
from tests.conftest import IPAM_FIXTURES
from tests.control_plane import ControlPlane
from tests.e2e.audit import AuditLog, writes_by_kind
from tests.waiting import until

CRDS = Path(__file__).resolve().parent.parent / "crds"
SYSTEM = "netclaim-system"
AT_ONCE = 32
"""Requests of the benchmark's own client in flight; the programs have as many workers between them."""

_FIRST_PASS = re.compile(r"(\w+): first pass done after ([0-9.]+) s")
_HELD = re.compile(r"^reflector_objects\{.*\} ([0-9.e+]+)$", re.MULTILINE)

Written = Counter[tuple[str, str, str]]
"""(program, verb, kind) -> writes."""


@dataclass
class Site:
    """The programs under measurement and what their API servers saw of them."""

    plane: ControlPlane
    shop: Shop
    nso: Program
    ipam: Program
    logs: tuple[Path, Path]

    def counting(self) -> "Counting":
        """Counts what is written from now on."""
        return Counting(tuple(AuditLog(path) for path in self.logs))

    async def told(self, names: Iterable[str], condition: str, *, timeout: float = 1800.0) -> None:
        """Wait until the condition of every one of these claims is True.

        The more they are, the dearer a list is to the API server that is measured, and the more seldom it is asked for.
        """
        wanted = set(names)

        async def look() -> bool:
            listed = await self.shop.cell.list(resources.CLAIMS, self.shop.namespace)
            done = {raw["metadata"]["name"] for raw in listed if conditions.is_true(raw, condition)}
            missing = wanted - done
            assert not missing, f"{len(missing)} of {len(wanted)} claims are not {condition}"
            return True

        await until(look, timeout=timeout, what=f"all claims {condition}", interval=len(wanted) / 2000)

    async def allocated(self, names: Iterable[str]) -> None:
        """Wait until every one of these claims is Allocated."""
        await self.told(names, networking.ALLOCATED)

    async def settled(self, seconds: float = 4.0) -> None:
        """Wait until the programs wrote nothing for `seconds`."""

        async def look() -> bool:
            counting = self.counting()
            await asyncio.sleep(seconds)
            written = counting.written()
            assert not written, written
            return True

        await until(look, timeout=600.0, what="programs at rest")


@dataclass
class Counting:
    """Writes since it was made."""

    _logs: tuple[AuditLog, ...]

    def written(self) -> Written:
        total: Written = Counter()
        for log in self._logs:
            total += writes_by_kind(log.calls())
        return total


def first_passes(log: str) -> dict[str, list[float]]:
    """Controller -> seconds from leadership to the end of its first pass, of each life that a log tells of."""
    passes: dict[str, list[float]] = {}
    for name, seconds in _FIRST_PASS.findall(log):
        passes.setdefault(name, []).append(float(seconds))
    return passes


def objects_held(metrics: str) -> int:
    """Objects in all caches of a program."""
    return int(sum(float(count) for count in _HELD.findall(metrics)))


async def at_once(calls: Iterable[Awaitable[object]], limit: int = AT_ONCE) -> None:
    """Await all coroutines, at most `limit` at a time."""
    gate = asyncio.Semaphore(limit)

    async def one(call: Awaitable[object]) -> None:
        async with gate:
            await call

    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(one(call))


async def make_claims(shop: Shop, names: Iterable[str]) -> None:
    """Dual-stack claims on the network `default`."""
    await at_once(shop.claim(name, ipFamilies=["IPv6", "IPv4"]) for name in names)


@contextlib.asynccontextmanager
async def site() -> AsyncIterator[Site]:
    """Control planes, programs, a project with the example's classes, and a Ready dual-stack network in it."""
    with tempfile.TemporaryDirectory() as folder:
        running = os.environ.get("NETCLAIM_RUN_DIR")
        plane = ControlPlane.attach(Path(running)) if running else ControlPlane.start(Path(folder, "run"))
        try:
            plane.install_crds(CRDS)
            async with _clients(plane) as (cell, ipam):
                yield await _site(plane, cell, ipam)
        finally:
            for name in ("bench-nso", "bench-ipam"):
                with contextlib.suppress(Exception):
                    plane.cluster.stop(name)
            if not running:
                plane.stop()


@contextlib.asynccontextmanager
async def _clients(plane: ControlPlane) -> AsyncIterator[tuple[Client, Client]]:
    cell = await Client.connect(str(plane.cell_kubeconfig), user_agent="netclaim-bench")
    ipam = await Client.connect(str(plane.ipam_kubeconfig), user_agent="netclaim-bench")
    try:
        yield cell, ipam
    finally:
        await cell.close()
        await ipam.close()


async def _site(plane: ControlPlane, cell: Client, ipam: Client) -> Site:
    suffix = secrets.token_hex(3)
    shop = Shop(cell, ipam, f"bench-{suffix}", f"bench-{suffix}")
    for client in (cell, ipam):
        with contextlib.suppress(AlreadyExists):
            await client.create(resources.NAMESPACES, {"metadata": {"name": SYSTEM}})
    await _roomy_project(ipam, shop.project)
    labels = {networking.PROJECT_LABEL: shop.project}
    await cell.create(resources.NAMESPACES, {"metadata": {"name": shop.namespace, "labels": labels}})
    alone = "--leader-elect=false"
    ipam_flags = ("--controllers=ipam", f"--kubeconfig={plane.ipam_kubeconfig}", alone)
    nso_flags = (
        "--controllers=networks,claims",
        f"--kubeconfig={plane.cell_kubeconfig}",
        f"--ipam-kubeconfig={plane.ipam_kubeconfig}",
        f"--location={LOCATION}",
        alone,
    )
    programs = (
        Program(plane.cluster, "bench-nso", nso_flags),
        Program(plane.cluster, "bench-ipam", ipam_flags),
    )
    for program in programs:
        await program.start()
    await shop.network()
    await shop.network_ready(timeout=120.0)
    logs = tuple(Path(plane.cluster.env[name]) for name in ("CELL_AUDIT_LOG", "IPAM_AUDIT_LOG"))
    return Site(plane, shop, *programs, logs=(logs[0], logs[1]))


async def _roomy_project(ipam: Client, project: str) -> None:
    """The example's classes and pools, but for IPv4 subnets of 16,379 addresses instead of 4,091."""
    await ipam.create(resources.NAMESPACES, {"metadata": {"name": project}})
    kinds = {each.kind: each for each in (resources.IP_CLASSES, resources.IP_POOLS)}
    for document in yaml.safe_load_all(IPAM_FIXTURES.read_text()):
        if not document or document["metadata"].get("namespace") != "project-alpha":
            continue
        document["metadata"]["namespace"] = project
        if document["metadata"]["name"] == "subnet-ipv4":
            document["spec"]["prefixLength"] = 18
        await ipam.create(kinds[document["kind"]], document)
