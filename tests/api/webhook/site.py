"""Where replicas of the webhook run, and reviews that go on meanwhile."""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, ApiError
from tests.api.vpc.world import SYSTEM, Program
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
    """Reviews that run one after the other, as dry runs, and what became of them."""

    cell: Client
    pod: Raw
    admitted: int = 0
    failures: list[str] = field(default_factory=list)

    async def one(self) -> None:
        path = resources.PODS.path(self.pod["metadata"]["namespace"])
        body = {"apiVersion": "v1", "kind": "Pod", **self.pod}
        await self.cell.request("POST", path, query={"dryRun": "All"}, body=body)

    async def run(self) -> None:
        while True:
            try:
                await self.one()
                self.admitted += 1
            except ApiError as error:
                self.failures.append(f"{datetime.now(UTC).time()}: {error}")
                await asyncio.sleep(0.05)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        tasks = [asyncio.create_task(self.run()) for _ in range(3)]
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


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
        log = self.folder / f"replica-{number}"
        kubeconfig = str(self.control_plane.cell_kubeconfig)
        return Program("webhook", log, "--kubeconfig", kubeconfig, "--listen", f"127.0.0.1:{port}", *flags)

    async def works(self) -> None:
        """Wait until a review is answered."""

        async def answered() -> bool:
            with contextlib.suppress(ApiError):
                await self.reviews.one()
                return True
            return False

        await until(answered, timeout=60.0, what="a review is answered")

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
