"""A fault server and clients of it that are in a hurry."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dev.certificates import Authority
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster, run_reflectors
from netclaim.kube.reflector import Pace
from netclaim.kube.transport import Patience, Timeout
from tests.faults.server import FaultServer
from tests.faults.storage import Raw

QUICK = Patience(connect=1.0, unary=Timeout(1.0), list_page=Timeout(2.0, 1.0), watch_read=1.5, watch_grace=1.0)
"""The runtime's timeouts, shortened: the fault server sends bookmarks twice a second."""

BRISK = Pace(first=0.02, longest=0.2, healthy=5.0, short_watch=0.2, relist=0.05, not_served=0.2)

Connect = Callable[[FaultServer], Awaitable[Client]]


@pytest.fixture
async def server() -> AsyncIterator[FaultServer]:
    """A fault server on loopback."""
    started = await FaultServer().start()
    yield started
    await started.stop()


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """Make clients of fault servers."""
    made: list[Client] = []

    async def to(server: FaultServer, **credentials: Any) -> Client:
        path = tmp_path / f"kubeconfig-{len(made)}"
        path.write_text(server.kubeconfig(**credentials))
        client = await Client.connect(str(path), user_agent="netclaim-tests", patience=QUICK)
        made.append(client)
        return client

    yield to
    for client in made:
        await client.close()


@pytest.fixture
async def client(server: FaultServer, connect: Connect) -> Client:
    """A client of the fault server."""
    return await connect(server)


@contextlib.asynccontextmanager
async def following(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Run the cluster's reflectors; entered once all of them have synced."""
    task = asyncio.create_task(run_reflectors(cluster))
    try:
        async with asyncio.timeout(10):
            for reflector in cluster.reflectors:
                await reflector.synced.wait()
        yield cluster
    finally:
        task.cancel()
        await asyncio.wait({task})


def config_map(name: str, *, namespace: str = "shop", **values: str) -> Raw:
    """A ConfigMap with these values."""
    return {"metadata": {"namespace": namespace, "name": name}, "data": values}


def serving_context(authority: Authority, folder: Path) -> ssl.SSLContext:
    """TLS for a fault server on loopback, under a certificate of `authority`."""
    certificate, key = authority.issue("fault-server", ips=["127.0.0.1"]).write(folder, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
