"""B12: what the cache of a program costs: memory per object, time to fill it, and how long the event loop stalls.

A server process holds NetworkInterface-like objects of 2 KB (without managedFields, which every real list brings on
top and which are thrown away); a client process of its own fills a store with them, and reports.
"""

import asyncio
import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bench.report import Report

ROOT = Path(__file__).resolve().parent.parent
COLLECTION = "/apis/networking.datumapis.com/v1alpha/networkinterfaces"
SIZE = 2048
KIB = 1024

MEMORY_GOAL = 10.0
"""KiB per object."""

SYNC_GOAL = 2.0
"""Seconds until 10,000 objects are held."""

STALL_GOAL = 200.0
"""Milliseconds that the event loop may be late meanwhile."""


def run(*, short: bool) -> Report:
    """Measure at 10,000 and 50,000 objects (short: 2,000 and 10,000)."""
    report = Report("B12", "memory per cached object of 2 KB, time to fill the cache, stalls of the event loop")
    sizes = (2_000, 10_000) if short else (10_000, 50_000)
    outcomes = [measure(count) for count in sizes]
    small, large = outcomes
    report.add("memory per object / size of its JSON", large["kib"] * KIB / large["bytes"], "x")
    growth = (large["cpu"] / sizes[1]) / (small["cpu"] / sizes[0])
    report.add(f"CPU time per object at {sizes[1]:,} / at {sizes[0]:,}", growth, "x")
    for count, outcome in zip(sizes, outcomes, strict=True):
        report.add(f"memory per object at {count:,}", outcome["kib"], "KiB", goal=MEMORY_GOAL)
        at_goal = count == 10_000
        report.add(f"synced {count:,} objects", outcome["seconds"], "s", goal=SYNC_GOAL if at_goal else None)
        report.add(f"longest stall at {count:,}", outcome["stall"], "ms", goal=STALL_GOAL if at_goal else None)
        report.add(f"CPU time to fill {count:,}", outcome["cpu"], "s")
        report.add(f"most CPU time in one go at {count:,}", outcome["busy"], "ms")
    report.notes.append(f"objects of {large['bytes']:.0f} bytes of JSON in the store, two indexes; all lists in pages")
    return report


def measure(count: int) -> dict[str, Any]:
    """Fill a store with `count` objects in a process of its own: kib, bytes, seconds, stall (ms), objects."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        kubeconfig = Path(folder, "kubeconfig")
        server = stack.enter_context(_process("serve", str(count), str(kubeconfig)))
        assert server.stdout is not None
        server.stdout.readline()
        try:
            client = subprocess.run(
                _command("fill", str(count), str(kubeconfig)), cwd=ROOT, capture_output=True, text=True, check=False
            )
        finally:
            server.terminate()
    if client.returncode:
        raise RuntimeError(f"the measured process failed:\n{client.stderr}")
    outcome: dict[str, Any] = json.loads(client.stdout)
    return outcome


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bench.kube_store", *arguments]


def _process(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(_command(*arguments), cwd=ROOT, stdout=subprocess.PIPE)


def an_object(number: int) -> dict[str, Any]:
    """An interface as it is after a full life, padded to 2 KB with what users put into annotations."""
    name = f"web-{number}-eth0"
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": f"{kind}ByController",
            "message": f"{kind}: {name} in namespace shop of project alpha",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("Allocated", "Prepared", "Programmed", "ExternalProgrammed")
    ]
    addresses = [
        {"family": "IPv6", "address": f"fd00:10:ff01:{number:x}::/96", "gateway": "fe80::1", "primary": True},
        {"family": "IPv4", "address": f"172.20.{number // 250 % 250}.{number % 250}/32", "gateway": "172.20.0.1"},
    ]
    made: dict[str, Any] = {
        "metadata": {
            "namespace": f"shop-{number % 50}",
            "name": name,
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"networking.datumapis.com/network": "default"},
            "annotations": {"networking.datumapis.com/allocated-for": f"{name}/{number:036}"},
            "finalizers": ["networking.datumapis.com/release", "cloud.datumapis.com/attached"],
        },
        "spec": {
            "network": {"name": "default"},
            "claimRef": {"name": name, "uid": f"{number:036}"},
            "interfaceName": "eth0",
            "mtu": 1460,
            "reclaimPolicy": "Delete",
            "addresses": addresses,
        },
        "status": {"phase": "Bound", "vpc": f"{number:x}", "conditions": conditions},
    }
    missing = SIZE - len(json.dumps(made, separators=(",", ":")))
    made["metadata"]["annotations"]["example.com/note"] = f"{number:08}" * (max(0, missing) // 8)
    return made


async def _serve(count: int, kubeconfig: str) -> None:
    from tests.faults.server import FaultServer

    server = FaultServer()
    managed = [{"manager": "nso", "operation": "Apply", "fieldsV1": {"f:spec": {"f:mtu": {}, "f:network": {}}}}]
    for number in range(count):
        made = an_object(number)
        made["metadata"]["managedFields"] = managed
        server.storage.create(COLLECTION, made)
    server.storage.compact()
    await server.start()
    Path(kubeconfig).write_text(server.kubeconfig())  # noqa: ASYNC240 - before anybody waits
    print("ready", flush=True)
    await asyncio.Event().wait()


async def _fill(count: int, kubeconfig: str) -> dict[str, Any]:
    from netclaim.api.resources import INTERFACES
    from netclaim.kube.client import Client
    from netclaim.kube.cluster import Cluster

    client = await Client.connect(kubeconfig, user_agent="bench")
    await client.list(INTERFACES, "nobody")
    cluster = Cluster(client)
    reflector = cluster.reflect(INTERFACES)
    reflector.store.add_index("uid", lambda raw: [raw["metadata"]["uid"]])
    reflector.store.add_index("network", lambda raw: [(raw["metadata"]["namespace"], raw["spec"]["network"]["name"])])
    gc.collect()
    before = _resident()
    async with _watched_loop() as stalls:
        started, used = time.perf_counter(), time.process_time()
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        seconds, cpu = time.perf_counter() - started, time.process_time() - used
        await asyncio.sleep(0.3)
    memory = _resident() - before
    size = sum(len(json.dumps(raw, separators=(",", ":"))) for raw in list(reflector.store.all())[:200]) / 200
    task.cancel()
    await client.close()
    return {
        "objects": len(reflector.store),
        "kib": memory / KIB / count,
        "bytes": size,
        "seconds": seconds,
        "cpu": cpu,
        "stall": max(late for late, _ in stalls) * 1000,
        "busy": max(busy for _, busy in stalls) * 1000,
    }


@contextlib.asynccontextmanager
async def _watched_loop() -> AsyncIterator[list[tuple[float, float]]]:
    """For a timer of 5 ms, each time: how late it was, and how much CPU this process used meanwhile (in seconds)."""
    stalls: list[tuple[float, float]] = []

    async def watch() -> None:
        while True:
            due, used = time.perf_counter() + 0.005, time.thread_time()
            await asyncio.sleep(0.005)
            stalls.append((time.perf_counter() - due, time.thread_time() - used))

    task = asyncio.create_task(watch())
    yield stalls
    task.cancel()


def _resident() -> int:
    """Bytes of memory that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    role, number_of, path = sys.argv[1:]
    if role == "serve":
        asyncio.run(_serve(int(number_of), path))
    else:
        print(json.dumps(asyncio.run(_fill(int(number_of), path))))
