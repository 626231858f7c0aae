"""A webhook in trouble: its API server away, a fault of its own, killed after each write (T02, T03, T21, R33)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from netclaim.api import resources
from netclaim.kube.errors import ApiError
from tests.api.dying import BORN
from tests.api.vpc.programs import Program
from tests.api.vpc.world import SYSTEM
from tests.api.webhook.site import SECRET, Site
from tests.api.webhook.test_certificates import wanted
from tests.api.webhook.yard import Yard
from tests.faults.gateway import Gateway
from tests.waiting import until
from webhook import certificates, server
from webhook.certificates import Stored
from webhook.inject import Admission
from webhook.manifests import CONFIGURATION_NAME
from webhook.refusals import Refusal
from webhook.review import Request


async def test_what_is_known_is_admitted_and_what_is_not_waits_while_the_api_server_does_not_answer_the_webhook(
    site: Site, tmp_path: Path
) -> None:
    """T02, R33: reviews are answered from what was seen; a live read that fails is a refusal that says so."""
    instance = await site.cell.get(resources.INSTANCES, site.reviews.pod["metadata"]["namespace"], "web-0")
    unknown = Yard(site.cell, instance["metadata"]["namespace"]).pod(instance)
    unknown["metadata"]["ownerReferences"][0]["name"] = "web-7"
    async with Gateway(site.control_plane.cell_kubeconfig) as gateway:
        kubeconfig = str(gateway.write_kubeconfig(tmp_path / "kubeconfig"))
        flags = ("--kubeconfig", kubeconfig, "--listen", f"127.0.0.1:{site.port}")
        async with Program("webhook", tmp_path / "log", *flags) as program:
            await site.works()
            gateway.rate = 1.0
            gateway.cut()
            for _ in range(5):
                await site.reviews.one()
                with pytest.raises(ApiError) as caught:
                    await Yard(site.cell, instance["metadata"]["namespace"]).try_out(unknown)
                assert (caught.value.status, caught.value.details["causes"][0]["reason"]) == (503, "LookupFailed")
                assert "web-7" in caught.value.message
            gateway.rate = 0.0

            async def looked_up() -> bool:
                with pytest.raises(ApiError) as caught:
                    await Yard(site.cell, instance["metadata"]["namespace"]).try_out(unknown)
                return bool(caught.value.details["causes"][0]["reason"] == "InstanceNotFound")

            await until(looked_up, what="the API server answers the webhook again")
            assert program.tracebacks == []


async def test_a_fault_of_the_webhook_itself_is_a_refusal(site: Site) -> None:
    """R33: whatever goes wrong inside, the Pod does not boot unattached, and the next review is answered."""

    class Broken:
        async def review(self, request: Request) -> Admission | Refusal:
            raise LookupError(request.uid)

    stored = certificates.plan(Stored(), wanted(days=1), datetime.now(UTC), b"")
    assert stored.serving is not None
    endpoint = server.Endpoint(Broken(), "127.0.0.1", site.port, list)  # type: ignore[arg-type]
    try:
        await endpoint.serve(stored.serving)
        await site.publish(certificates.issuer_of(stored))

        async def refused() -> bool:
            with pytest.raises(ApiError) as caught:
                await site.reviews.one()
            causes = caught.value.details.get("causes") or [{}]
            return (caught.value.status, causes[0].get("reason")) == (503, "ReviewFailed")

        await until(refused, what="a refusal with ReviewFailed")
        await refused()
    finally:
        await endpoint.close()


async def test_a_program_that_dies_after_each_write_serves_in_the_end_and_a_restart_writes_nothing(site: Site) -> None:
    """T03, T21: the Secret, then the caBundle; nothing of it is made twice."""
    kubeconfig = ("--kubeconfig", str(site.control_plane.cell_kubeconfig))
    flags = ("webhook", *kubeconfig, "--listen", f"127.0.0.1:{site.port}")
    async with Program("tests.api.dying", site.folder / "log", *flags) as program:
        await site.works()
        assert program.log.read_text().count(BORN) == 3
    before = await _versions(site)
    async with site.replica(0) as again:
        await again.says("certificates: first pass done", timeout=60.0)
        await site.works()
        assert await _versions(site) == before
        assert again.tracebacks == []


async def _versions(site: Site) -> tuple[str, str]:
    secret = await site.cell.get(resources.SECRETS, SYSTEM, SECRET)
    configuration = await site.cell.get(resources.MUTATING_WEBHOOKS, None, CONFIGURATION_NAME)
    return secret["metadata"]["resourceVersion"], configuration["metadata"]["resourceVersion"]
