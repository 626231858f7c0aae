"""The webhook away, hung, or asked nonsense (T16, R33)."""

import asyncio
import ssl
from datetime import UTC, datetime

import aiohttp
import pytest

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.networking import INJECT_LABEL, INJECTED_ANNOTATION
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError
from tests.api.vpc.world import SYSTEM
from tests.api.webhook.site import Site
from tests.api.webhook.test_certificates import wanted
from tests.api.webhook.yard import Yard, install
from tests.waiting import until
from webhook import certificates, server
from webhook.certificates import Stored
from webhook.manifests import CONFIGURATION_NAME


def unlabelled(site: Site) -> Raw:
    pod = named(site.reviews.pod, "free")
    return {**pod, "metadata": {**pod["metadata"], "labels": {}, "ownerReferences": []}}


def named(pod: Raw, name: str) -> Raw:
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


async def test_without_the_webhook_exactly_the_opted_in_pods_are_refused_and_it_recovers_by_itself(
    site: Site, cell: Client, namespace: str
) -> None:
    """T16: cold start with the configuration already there; no manual step."""
    yard = Yard(cell, namespace)
    with pytest.raises(ApiError, match="failed calling webhook"):
        await site.reviews.one()
    await yard.create(unlabelled(site))
    await _others_are_admitted(site, cell)
    async with site.replica(0) as program:
        await site.works()
        stored = await yard.create(named(site.reviews.pod, "another"))
        assert INJECTED_ANNOTATION in stored["metadata"]["annotations"]
        program.kill()
        with pytest.raises(ApiError, match="failed calling webhook"):
            await site.reviews.one()
    async with site.replica(0):
        await site.works()


async def test_a_hung_webhook_refuses_in_time_and_holds_up_nobody_else(
    site: Site, cell: Client, namespace: str
) -> None:
    """T16: a port that accepts and never answers."""
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", site.port)
    async with server, asyncio.timeout(15):
        review = asyncio.create_task(site.reviews.one())
        await Yard(cell, namespace).create(unlabelled(site))
        with pytest.raises(ApiError, match="failed calling webhook"):
            await review
        for writer in held:
            writer.close()
    async with site.replica(0):
        await site.works()


async def test_a_bad_certificate_blocks_exactly_the_opted_in_pods_and_is_gone_with_the_next_start(
    site: Site, cell: Client, namespace: str
) -> None:
    """T16: whoever has the port shows a certificate that nobody trusts; then the webhook itself comes up."""
    stranger = certificates.plan(Stored(), wanted(days=1), datetime.now(UTC), b"")
    assert stranger.serving is not None
    await site.publish(certificates.make_authority(wanted(days=1), datetime.now(UTC)).certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server._load(context, stranger.serving)
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", site.port, ssl=context)
    async with listening:
        for _ in range(3):
            with pytest.raises(ApiError, match="certificate signed by unknown authority"):
                await site.reviews.one()
            await _others_are_admitted(site, cell)
    async with site.replica(0):
        await site.works()
        stored = await Yard(cell, namespace).create(named(site.reviews.pod, "another"))
        assert INJECTED_ANNOTATION in stored["metadata"]["annotations"]


async def _others_are_admitted(site: Site, cell: Client) -> None:
    """Pods of the cluster itself, of a CNI, of the webhook: whatever does not ask for interfaces (T16)."""
    spec = {"containers": [{"name": "x", "image": "x:1"}]}
    for where, labels, own in (
        ("kube-system", {"k8s-app": "kube-dns"}, {}),
        ("kube-system", {"app": "multus"}, {"hostNetwork": True}),
        (SYSTEM, {"app.kubernetes.io/name": "netclaim-webhook"}, {}),
        (site.reviews.pod["metadata"]["namespace"], {INJECT_LABEL: "false"}, {}),
    ):
        yard = Yard(cell, where)
        await yard.service_account()
        made = await yard.try_out(
            {"metadata": {"name": "other", "namespace": where, "labels": labels}, "spec": spec | own}
        )
        assert INJECTED_ANNOTATION not in made["metadata"].get("annotations", {})


async def test_a_missing_configuration_does_not_let_a_pod_boot_unattached(
    site: Site, cell: Client, namespace: str
) -> None:
    """R33: the policy refuses an opted-in Pod that no webhook has seen."""
    await cell.delete(resources.MUTATING_WEBHOOKS, None, CONFIGURATION_NAME)

    async def refused() -> bool:
        try:
            await site.reviews.one()
        except ApiError as error:
            return "the webhook that attaches them has not seen it" in error.message
        return False

    await until(refused, what="the policy's refusal")
    await install(cell, f"https://127.0.0.1:{site.port}/mutate-v1-pod")


async def test_nonsense_is_answered_and_bounded(site: Site) -> None:
    """R33: malformed reviews and oversized bodies get an answer, and the next review is served as ever."""
    async with site.replica(0) as program:
        await site.works()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{site.port}/mutate-v1-pod"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            for body, status in ((b"", 400), (b"{", 400), (b"[1]", 400), (b"x" * (9 * 1024 * 1024), 413)):
                async with session.post(url, data=body) as reply:
                    assert reply.status == status
            async with session.get(f"https://127.0.0.1:{site.port}/readyz") as reply:
                assert (reply.status, await reply.text()) == (200, "ok")
        await site.reviews.one()
        assert program.tracebacks == []


async def test_a_taken_port_is_said_in_one_line(site: Site) -> None:
    """Bad input ends in a clear message and exit code 2."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", site.port)
    async with server, site.replica(0) as program:
        assert await program.ended() == 2
        assert f"--listen 127.0.0.1:{site.port} cannot be used: Address already in use" in program.log.read_text()
        assert program.tracebacks == []
