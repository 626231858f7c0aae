"""Certificates under running reviews, through a real API server (T17)."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, ApiError, NotFound
from tests.api.vpc.world import SYSTEM, Program
from tests.api.webhook.conftest import free_port
from tests.api.webhook.yard import Yard, install, uninstall
from tests.control_plane import ControlPlane
from tests.waiting import until
from webhook import certificates
from webhook.certificates import Stored, Wanted
from webhook.manifests import CONFIGURATION_NAME

Raw = dict[str, Any]
SECRET = "netclaim-webhook-certificates"
SHORT = ("--certificate-lifetime", "6", "--authority-lifetime", "24", "--authority-overlap", "3")


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
    async def running(self) -> AsyncIterator["Reviews"]:
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

    async def overwrite_bundle(self, value: str) -> None:
        op = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": value}
        await self.cell.json_patch(resources.MUTATING_WEBHOOKS, None, CONFIGURATION_NAME, [op])


@pytest.fixture
async def site(control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path) -> AsyncIterator[Site]:
    """Admission objects in force, an instance to make Pods for, and no certificate yet."""
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
    yield Site(control_plane, cell, tmp_path, port, Reviews(cell, yard.pod(instance)))
    await uninstall(cell)


def wanted(**span: float) -> Wanted:
    life = timedelta(**span)
    return Wanted((), ("127.0.0.1",), lifetime=life, authority_lifetime=life, overlap=timedelta(seconds=3))


async def test_certificate_and_authority_are_rotated_without_a_failed_review(site: Site) -> None:
    """T17: several certificates and a whole succession of authorities while reviews run."""
    async with site.replica(0, *SHORT) as program:
        await site.works()
        first = await site.stored()
        async with site.reviews.running():

            async def succeeded() -> bool:
                now = await site.stored()
                return now.authority != first.authority and now.following is None

            await until(succeeded, timeout=60.0, what="another authority signs", interval=0.2)
            served = program.log.read_text().count("serving a certificate that ends")
            admitted = site.reviews.admitted
            await until(lambda: site.reviews.admitted > admitted + 20, timeout=30.0, what="reviews go on")
        assert site.reviews.failures == []
        assert served >= 3
        assert program.tracebacks == []


async def test_a_restored_old_secret_is_taken_over_without_a_failed_review(site: Site) -> None:
    """T17: two replicas; what the API server meets is trusted at every moment."""
    old = certificates.plan(Stored(), wanted(days=90), datetime.now(UTC) - timedelta(days=1), b"")
    async with site.replica(0) as first, site.replica(1) as second:
        await second.says("serving /mutate-v1-pod", timeout=60.0)
        await site.works()
        async with site.reviews.running():
            before = first.log.read_text().count("serving a certificate")
            await site.write(old)
            await until(
                lambda: first.log.read_text().count("serving a certificate") > before,
                timeout=30.0,
                what="the restored certificate is served",
            )
            admitted = site.reviews.admitted
            await until(lambda: site.reviews.admitted > admitted + 20, timeout=30.0, what="reviews go on")
        assert site.reviews.failures == []
        assert (await site.stored()).authority == old.authority
        assert (first.tracebacks, second.tracebacks) == ([], [])


async def test_a_lost_secret_is_made_anew_without_a_failed_review(site: Site) -> None:
    async with site.replica(0) as program:
        await site.works()
        async with site.reviews.running():
            lost = await site.secret()
            await site.cell.delete(resources.SECRETS, SYSTEM, SECRET)

            async def anew() -> bool:
                try:
                    return bool((await site.secret())["metadata"]["uid"] != lost["metadata"]["uid"])
                except NotFound:
                    return False

            await until(anew, what="another Secret")
            await until(
                lambda: program.log.read_text().count("serving a certificate") == 2,
                timeout=30.0,
                what="the new certificate is served",
            )
            admitted = site.reviews.admitted
            await until(lambda: site.reviews.admitted > admitted + 20, timeout=30.0, what="reviews go on")
        assert site.reviews.failures == []


async def test_an_overwritten_bundle_is_repaired_within_seconds_and_admits_nothing_meanwhile(site: Site) -> None:
    """T17: also to nothing, as a re-applied manifest can; a Pod is refused rather than admitted unattached."""
    async with site.replica(0):
        await site.works()
        right = await site.bundle()
        foreign = certificates.make_authority(wanted(days=1), datetime.now(UTC)).certificate
        for value in ("", base64.b64encode(foreign).decode()):
            await site.overwrite_bundle(value)

            async def repaired() -> bool:
                published, original = (base64.b64decode(text) for text in (await site.bundle(), right))
                return certificates.trusts(published, original)

            await until(repaired, timeout=5.0, what="the caBundle holds the authority again")
            await site.works()


async def test_a_reapplied_manifest_leaves_the_bundle_alone(site: Site) -> None:
    """T17: the installer's manifest names no caBundle, so it owns none."""
    async with site.replica(0):
        await site.works()
        right = await site.bundle()
        async with site.reviews.running():
            await install(site.cell, f"https://127.0.0.1:{site.port}/mutate-v1-pod")
            admitted = site.reviews.admitted
            await until(lambda: site.reviews.admitted > admitted + 20, timeout=30.0, what="reviews go on")
        assert site.reviews.failures == []
        assert await site.bundle() == right


async def test_a_start_on_an_expired_secret_needs_no_hand(site: Site) -> None:
    """T17: the cluster was off for longer than the certificates live."""
    expired = certificates.plan(Stored(), wanted(days=1), datetime.now(UTC) - timedelta(days=30), b"")
    await site.write(expired)
    assert expired.authority is not None
    await site.overwrite_bundle(base64.b64encode(expired.authority.certificate).decode())
    async with site.replica(0):
        await site.works()
        async with site.reviews.running():
            await until(lambda: site.reviews.admitted > 20, timeout=30.0, what="reviews go on")
        assert site.reviews.failures == []


async def test_replicas_that_start_together_agree_on_one_secret_and_then_write_nothing(site: Site) -> None:
    """T17: no replica overwrites what another one made."""
    async with site.replica(0) as first, site.replica(1) as second, site.replica(2) as third:
        for program in (first, second, third):
            await program.says("serving /mutate-v1-pod", timeout=60.0)
        await site.works()
        written = [program.log.read_text().count("wrote certificates") for program in (first, second, third)]
        assert sum(written) == 1
        assert all(program.tracebacks == [] for program in (first, second, third))
