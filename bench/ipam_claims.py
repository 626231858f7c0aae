"""B2 and B4: durable allocations against the bare API writes that they consist of, and an exact fit made twice.

Needs the control planes' binaries; ``NETCLAIM_RUN_DIR`` names a running pair to use instead of starting one.
"""

import asyncio
import secrets
import time

from bench.report import Report
from netclaim.api import ipam, managers, resources
from netclaim.kube.client import Client
from nso.ipam.blocks import Block
from nso.ipam.names import allocation_name
from nso.ipam.registration import CLAIM_WORKERS, Controllers
from tests.api.ipam.stack import Settings, allocations, cidrs, claim, ipam_control_plane, make, release, running
from tests.waiting import until

FIRST = Block.parse("10.64.0.0/18")


async def _project(client: Client, cidr: str) -> str:
    name = f"bench-{secrets.token_hex(3)}"
    await client.create(resources.NAMESPACES, {"metadata": {"name": name}})
    spec = {"ipFamily": "IPv4", "prefixLength": 32}
    await client.create(resources.IP_CLASSES, {"metadata": {"name": "single", "namespace": name}, "spec": spec})
    pool = {"cidr": cidr, "classNames": ["single"]}
    await client.create(resources.IP_POOLS, {"metadata": {"name": "pool", "namespace": name}, "spec": pool})
    return name


async def bare(client: Client, project: str, count: int, *, at_once: int) -> float:
    """Seconds for the writes of `count` bindings, of a client that knows every answer: allocation, claim status."""
    names = [f"bare-{at_once}-{number}" for number in range(count)]
    await make(client, *(claim(project, name, class_name="none") for name in names))
    gate = asyncio.Semaphore(at_once)

    async def one(number: int, name: str) -> None:
        block = Block.numbered(FIRST.family, 32, FIRST.numbers(32)[0] + number)
        held = allocation_name("pool", "", block)
        holder = {"namespace": project, "name": name, "uid": "bare"}
        # A reservation is as large as a claim's allocation, and the controllers leave it alone.
        spec = {"poolRef": {"name": "pool"}, "cidr": str(block), "space": "", "purpose": ipam.PURPOSE_RESERVATION}
        status = {
            "phase": ipam.PHASE_BOUND,
            "cidr": str(block),
            "poolRef": {"name": "pool"},
            "allocationRef": {"name": held},
            "conditions": [{"type": ipam.BOUND, "status": "True", "reason": ipam.REASON_BOUND}],
        }
        async with gate:
            await client.create(
                resources.IP_ALLOCATIONS,
                {"metadata": {"name": held, "namespace": project}, "spec": {**spec, "claimRef": holder}},
            )
            await client.apply_status(
                resources.IP_CLAIMS,
                {"metadata": {"name": name, "namespace": project}, "status": status},
                manager=managers.IPAM,
            )

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number, name in enumerate(names):
            group.create_task(one(number, name))
    return time.perf_counter() - began


async def seen_bound(controllers: Controllers, project: str, count: int) -> set[str]:
    """CIDRs once the controllers' own store shows `count` bound claims: the question costs the API server nothing."""

    def look() -> set[str] | None:
        found = {
            raw["status"]["cidr"]
            for raw in controllers.project.claim_reflector.store.all()
            if raw["metadata"]["namespace"] == project and (raw.get("status") or {}).get("cidr")
        }
        return found if len(found) == count else None

    return await until(look, timeout=600, what=f"{count} claims bound", interval=0.05)


async def pool_ready(client: Client, project: str) -> None:
    """Wait until the pool can be used: the controllers have seen it."""

    async def look() -> bool:
        pool = await client.get(resources.IP_POOLS, project, "pool")
        return bool((pool.get("status") or {}).get("cidr"))

    await until(look, timeout=30, what=f"the pool of {project}")


async def bind(client: Client, kubeconfig: str, project: str, count: int, *, at_once: int) -> float:
    """Seconds in which the controllers bind `count` claims that were waiting for them."""
    await make(client, *(claim(project, f"fit-{number}", class_name="single") for number in range(count)))
    async with running(kubeconfig, Settings(claim_workers=at_once)) as controllers:
        began = time.perf_counter()
        await seen_bound(controllers, project, count)
        seconds = time.perf_counter() - began
        await release(client, project, timeout=600)
        return seconds


async def exact_fit(client: Client, kubeconfig: str, project: str, count: int) -> tuple[float, float, int]:
    """(create, create again, blocks given twice): `count` claims on `count` addresses, released and made anew."""
    seconds, twice = [], 0
    async with running(kubeconfig) as controllers:
        for _ in range(2):
            began = time.perf_counter()
            await make(client, *(claim(project, f"fit-{number}", class_name="single") for number in range(count)))
            await seen_bound(controllers, project, count)
            seconds.append(time.perf_counter() - began)
            found = await cidrs(client, project)
            twice += count - len(set(found.values()))
            await release(client, project, timeout=600)
    return seconds[0], seconds[1], twice


async def rates(client: Client, kubeconfig: str, project: str, count: int, *, at_once: int) -> tuple[float, float]:
    """(allocations, bare) per second with so many in flight; what was made is released."""
    bare_project = await _project(client, str(FIRST))
    bare_seconds = await bare(client, bare_project, count, at_once=at_once)
    async with running(kubeconfig):
        await release(client, bare_project, timeout=600)
    seconds = await bind(client, kubeconfig, project, count, at_once=at_once)
    return count / seconds, count / bare_seconds


async def run(*, short: bool) -> Report:
    """Durable allocations per second, one and 16 at once, and the exact fit."""
    count = 128 if short else 1024
    report = Report("B2, B4", f"{count} claims on a real API server")
    async with ipam_control_plane() as kubeconfig:
        client = await Client.connect(kubeconfig, user_agent="netclaim-bench")
        project = await _project(client, f"10.65.0.0/{32 - (count - 1).bit_length()}")
        async with running(kubeconfig):
            await pool_ready(client, project)
        alone = await rates(client, kubeconfig, project, count // 4, at_once=1)
        busy = await rates(client, kubeconfig, project, count, at_once=CLAIM_WORKERS)
        first, again, twice = await exact_fit(client, kubeconfig, project, count)
        left = len(await allocations(client, project))
        await client.close()
    ratio = "allocations per second / bare writes"
    report.add(f"{ratio}, {CLAIM_WORKERS} at once", busy[0] / busy[1], "x", goal=0.8, at_least=True)
    report.add(f"{ratio}, one at a time", alone[0] / alone[1], "x", goal=0.8, at_least=True)
    report.add("exact fit: made again / made first", again / first, "x", goal=1.2)
    report.add("exact fit: blocks given twice", twice, "blocks", goal=0)
    report.add("exact fit: allocations left", left, "allocations", goal=0)
    for what, (ours, bare_rate) in ((f"{CLAIM_WORKERS} at once", busy), ("one at a time", alone)):
        report.add(f"{what}: allocations per second", ours, "1/s")
        report.add(f"{what}: the same writes, bare", bare_rate, "1/s")
    report.add("exact fit: first", first, "s")
    report.add("exact fit: again", again, "s")
    report.notes.append("two writes bind a claim (IPAllocation, IPClaim status); both sides with as many in flight")
    return report
