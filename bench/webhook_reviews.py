"""B10: 100 admission reviews at once over TLS, against the webhook as a process of its own.

The reviews are sent as an API server sends them, over connections that stay open (a first burst opens them all). Times
are taken at the caller and hold its own work too. Needs the control planes' binaries; ``NETCLAIM_RUN_DIR`` names a
running pair to use instead of starting one.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
import secrets
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from bench.report import Report
from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists
from tests.api.vpc.programs import Program
from tests.api.vpc.world import SYSTEM
from tests.api.webhook.site import free_port
from tests.api.webhook.yard import Yard, install, uninstall
from tests.control_plane import ControlPlane
from webhook.manifests import CONFIGURATION_NAME

CRDS = Path(__file__).resolve().parent.parent / "crds"
AT_ONCE = 100
GOAL_MS = 100.0


async def run(*, short: bool) -> Report:
    """Bursts of 100 reviews: p50 and p99 in milliseconds, live reads and lists counted at the webhook."""
    report = Report("B10", f"{AT_ONCE} admission reviews at once over TLS")
    bursts = 5 if short else 50
    with tempfile.TemporaryDirectory() as folder:
        async with cell(Path(folder)) as (plane, client):
            ports = free_port(), free_port()
            log = Path(folder) / "webhook.log"
            flags = ("--listen", f"127.0.0.1:{ports[0]}", "--metrics-address", f"127.0.0.1:{ports[1]}")
            url = f"https://127.0.0.1:{ports[0]}/mutate-v1-pod"
            async with Program("webhook", log, "--kubeconfig", str(plane.cell_kubeconfig), *flags) as program:
                await install(client, url)
                bodies = await _reviews(client)
                await program.says("serving /mutate-v1-pod", timeout=60.0)
                target = Target(url, f"http://127.0.0.1:{ports[1]}/metrics", await _trusted(client))
                await _measure(report, target, bodies, bursts)
                await uninstall(client)
    return report


@dataclass(frozen=True, slots=True)
class Target:
    """Where reviews are sent, where the webhook counts, and what its certificate is checked against."""

    url: str
    metrics: str
    trusted: ssl.SSLContext


async def _measure(report: Report, target: Target, bodies: list[bytes], bursts: int) -> None:
    connector = aiohttp.TCPConnector(ssl=target.trusted, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        first = await _burst(session, target.url, bodies)
        before = await _counted(session, target.metrics)
        took = sorted([one for _ in range(bursts) for one in await _burst(session, target.url, bodies)])
        after = await _counted(session, target.metrics)
    report.add("p99", took[int(len(took) * 0.99)] * 1000, "ms", goal=GOAL_MS)
    report.add("p50", took[len(took) // 2] * 1000, "ms")
    report.add("slowest while opening the connections", max(first) * 1000, "ms")
    report.add("live reads per review", (after[0] - before[0]) / len(took), "", goal=1.0)
    report.add("requests to the API server per review", (after[1] - before[1]) / len(took), "", goal=1.0)
    report.notes.append(f"{bursts} bursts of {AT_ONCE}; every review was answered with a patch")


async def _burst(session: aiohttp.ClientSession, url: str, bodies: list[bytes]) -> list[float]:
    """Send all at once; how long each took, in seconds."""

    async def one(body: bytes) -> float:
        began = time.perf_counter()
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as reply:
            answer = await reply.json()
        took = time.perf_counter() - began
        if not answer["response"].get("patch"):
            raise RuntimeError(f"a review was not answered with a patch: {answer}")
        return took

    return await asyncio.gather(*(one(body) for body in bodies))


async def _reviews(client: Client) -> list[bytes]:
    """Reviews of the Pods of as many instances, each with a prepared interface of its own."""
    yard = Yard(client, f"bench-{secrets.token_hex(3)}")
    await client.create(resources.NAMESPACES, {"metadata": {"name": yard.namespace}})
    bodies = []
    for number in range(AT_ONCE):
        instance = await yard.instance(f"web-{number}", "eth0")
        await yard.interface(f"web-{number}-eth0", "eth0")
        request = {
            "uid": f"r-{number}",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": yard.namespace,
            "object": {"apiVersion": "v1", "kind": "Pod", **yard.pod(instance)},
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        bodies.append(json.dumps(review).encode())
    return bodies


async def _trusted(client: Client) -> ssl.SSLContext:
    """What an API server trusts: the published caBundle."""
    found = await client.get(resources.MUTATING_WEBHOOKS, None, CONFIGURATION_NAME)
    bundle = base64.b64decode(found["webhooks"][0]["clientConfig"]["caBundle"]).decode()
    return ssl.create_default_context(cadata=bundle)


async def _counted(session: aiohttp.ClientSession, metrics: str) -> tuple[float, float]:
    """(live reads, requests to the API server) of the webhook so far."""
    async with session.get(metrics) as reply:
        text = await reply.text()
    reads, requests = (
        sum(float(value) for value in re.findall(rf"^{name}{{[^}}]*}} (\S+)$", text, re.MULTILINE))
        for name in ("netclaim_webhook_live_lookups_total", "rest_client_requests_total")
    )
    return reads, requests


@contextlib.asynccontextmanager
async def cell(folder: Path) -> AsyncIterator[tuple[ControlPlane, Client]]:
    """A control plane with every kind and the system namespace: the running one, or one for this time."""
    running = os.environ.get("NETCLAIM_RUN_DIR")
    plane = ControlPlane.attach(Path(running)) if running else ControlPlane.start(folder / "run")
    try:
        plane.install_crds(CRDS)
        client = await Client.connect(str(plane.cell_kubeconfig), user_agent="netclaim-bench")
        with contextlib.suppress(AlreadyExists):
            await client.create(resources.NAMESPACES, {"metadata": {"name": SYSTEM}})
        yield plane, client
        await client.close()
    finally:
        if not running:
            plane.stop()
