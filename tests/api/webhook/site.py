"""Where replicas of the webhook run, and reviews that go on meanwhile."""

import asyncio
import base64
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import aiohttp

from netclaim.api import resources
from netclaim.api.networking import INJECTED_ANNOTATION
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, ApiError, NotFound
from tests.api.vpc.programs import Program
from tests.api.vpc.world import SYSTEM
from tests.api.webhook.yard import Yard, install, uninstall
from tests.control_plane import ControlPlane
from tests.waiting import until
from webhook.certificates import Stored
from webhook.manifests import CONFIGURATION_NAME

Raw = dict[str, Any]
SECRET = "netclaim-webhook-certificates"


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Reviews:
    """Reviews that run one after the other, as dry runs, and what became of them.

    Beside them somebody calls each of `ports` over a new connection, as an API server that was just started does: it
    knows the caBundle as it is published at that moment, and no session that was opened before.
    """

    cell: Client
    pod: Raw
    ports: list[int]
    admitted: int = 0
    greeted: int = 0
    failures: list[str] = field(default_factory=list)

    async def one(self) -> None:
        """One review; whatever the webhook's state is, no Pod passes without its interface (R33)."""
        made = await Yard(self.cell, self.pod["metadata"]["namespace"]).try_out(self.pod)
        assert INJECTED_ANNOTATION in made["metadata"].get("annotations", {}), "a Pod was admitted unattached"

    async def run(self) -> None:
        while True:
            try:
                await self.one()
                self.admitted += 1
            except ApiError as error:
                self.failures.append(f"{datetime.now(UTC).time()}: {error}")
                await asyncio.sleep(0.05)

    async def more(self) -> None:
        """Wait until reviews and new connections have gone on for a while."""
        admitted, greeted = self.admitted + 20, self.greeted + 2 * len(self.ports)
        await until(
            lambda: self.admitted > admitted and self.greeted > greeted, timeout=60.0, what="reviews and connections"
        )

    async def greet(self, port: int) -> None:
        """Open a connection and check who answers against the caBundle.

        Raises:
            ClientError: it is not to be trusted, although the caBundle was the same before and after.
        """
        while True:
            before = await published_bundle(self.cell)
            try:
                return await _shake_hands(port, before)
            except (aiohttp.ClientError, ssl.SSLError):
                if await published_bundle(self.cell) == before:
                    raise

    async def greet_forever(self) -> None:
        while True:
            for port in self.ports:
                try:
                    await self.greet(port)
                    self.greeted += 1
                except (aiohttp.ClientError, ssl.SSLError) as error:
                    self.failures.append(f"{datetime.now(UTC).time()}: a new connection to {port}: {error}")
            await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        tasks = [asyncio.create_task(self.run()) for _ in range(3)] + [asyncio.create_task(self.greet_forever())]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    raise outcome


async def _shake_hands(port: int, trusted: bytes) -> None:
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=trusted.decode()), force_close=True)
    url = f"https://127.0.0.1:{port}/readyz"
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as reply:
        await reply.read()


async def published_bundle(cell: Client) -> bytes:
    """The caBundle, decoded."""
    found = await cell.get(resources.MUTATING_WEBHOOKS, None, CONFIGURATION_NAME)
    return base64.b64decode(found["webhooks"][0]["clientConfig"].get("caBundle", ""))


@dataclass
class Site:
    """Where replicas of the webhook run; the API server calls the first one."""

    control_plane: ControlPlane
    cell: Client
    folder: Path
    port: int
    reviews: Reviews

    def replica(self, number: int = 0, *flags: str) -> Program:
        port = self.port if number == 0 else free_port()
        if port not in self.reviews.ports:
            self.reviews.ports.append(port)
        log = self.folder / f"replica-{number}"
        kubeconfig = str(self.control_plane.cell_kubeconfig)
        return Program("webhook", log, "--kubeconfig", kubeconfig, "--listen", f"127.0.0.1:{port}", *flags)

    async def works(self, interval: float = 0.05) -> None:
        """Wait until a review is answered."""

        async def answered() -> bool:
            with contextlib.suppress(ApiError):
                await self.reviews.one()
                return True
            return False

        await until(answered, timeout=60.0, what="a review is answered", interval=interval)

    async def secret(self) -> Raw:
        return await self.cell.get(resources.SECRETS, SYSTEM, SECRET)

    async def stored(self) -> Stored:
        contents = (await self.secret())["data"]
        return Stored.from_secret({name: base64.b64decode(value) for name, value in contents.items()})

    async def write(self, stored: Stored) -> None:
        """Put something else into the Secret, as somebody who restores a backup does."""
        encoded = {name: base64.b64encode(value).decode() for name, value in stored.to_secret().items()}
        metadata = {"namespace": SYSTEM, "name": SECRET}
        try:
            await self.cell.create(resources.SECRETS, {"metadata": metadata, "data": encoded})
        except AlreadyExists:
            op = {"op": "replace", "path": "/data", "value": encoded}
            await self.cell.json_patch(resources.SECRETS, SYSTEM, SECRET, [op])

    async def bundle(self) -> str:
        found = await self.cell.get(resources.MUTATING_WEBHOOKS, None, CONFIGURATION_NAME)
        return str(found["webhooks"][0]["clientConfig"].get("caBundle", ""))

    async def publish(self, authority: bytes) -> None:
        """Trust that authority (PEM) and no other."""
        await self.overwrite_bundle(base64.b64encode(authority).decode())

    async def overwrite_bundle(self, value: str) -> None:
        op = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": value}
        await self.cell.json_patch(resources.MUTATING_WEBHOOKS, None, CONFIGURATION_NAME, [op])


@contextlib.asynccontextmanager
async def a_site(control_plane: ControlPlane, cell: Client, namespace: str, folder: Path) -> AsyncIterator[Site]:
    """Admission objects in force, an instance in the namespace to make Pods for, and no certificate yet."""
    with contextlib.suppress(AlreadyExists):
        await cell.create(resources.NAMESPACES, {"metadata": {"name": SYSTEM}})
    yard = Yard(cell, namespace)
    await yard.service_account()
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0")
    port = free_port()
    with contextlib.suppress(NotFound):
        await cell.delete(resources.SECRETS, SYSTEM, SECRET)
    await install(cell, f"https://127.0.0.1:{port}/mutate-v1-pod")
    yield Site(control_plane, cell, folder, port, Reviews(cell, yard.pod(instance), [port]))
    await uninstall(cell)
