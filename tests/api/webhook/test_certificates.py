"""Certificates under running reviews, through a real API server (T17)."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from netclaim.api import resources
from netclaim.kube.errors import NotFound
from tests.api.vpc.world import SYSTEM
from tests.api.webhook.site import SECRET, Site
from tests.api.webhook.yard import install
from tests.waiting import until
from webhook import certificates
from webhook.certificates import Stored, Wanted

Raw = dict[str, Any]
SHORT = ("--certificate-lifetime", "12", "--authority-lifetime", "36", "--authority-overlap", "3")


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
            await site.reviews.more()
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
            await site.reviews.more()
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
            await site.reviews.more()
        assert site.reviews.failures == []


async def test_an_overwritten_bundle_is_repaired_at_once_and_admits_nothing_meanwhile(site: Site) -> None:
    """T17: to nothing or to something else, under running reviews.

    An API server asks nobody before it takes a webhook configuration in (so that a broken one can always be mended), so
    nothing can keep it from being overwritten. Until it is repaired reviews fail: a Pod is refused rather than admitted
    unattached, and whoever makes Pods tries again.
    """
    async with site.replica(0) as program:
        await site.works()
        foreign = certificates.make_authority(wanted(days=1), datetime.now(UTC)).certificate
        for value in ("", base64.b64encode(foreign).decode()):
            right = base64.b64decode(await site.bundle())
            async with site.reviews.running():
                repairs = program.log.read_text().count("wrote the caBundle")
                await site.overwrite_bundle(value)
                await until(
                    lambda seen=repairs: program.log.read_text().count("wrote the caBundle") > seen,  # type: ignore[misc]
                    timeout=30.0,
                    what="the caBundle is written again",
                )
                assert certificates.trusts(base64.b64decode(await site.bundle()), right)
                await site.works()
                # What was under way when the repair came may still fail.
                await site.reviews.more()
                refused = len(site.reviews.failures)
                await site.reviews.more()
            assert len(site.reviews.failures) == refused, "a review failed after one was answered again"
            untrusted = ("x509", "certificate verify failed")
            assert all(any(text in failure for text in untrusted) for failure in site.reviews.failures)
            site.reviews.failures.clear()


async def test_a_reapplied_manifest_leaves_the_bundle_alone(site: Site) -> None:
    """T17: the installer's manifest names no caBundle, so it owns none."""
    async with site.replica(0):
        await site.works()
        right = await site.bundle()
        async with site.reviews.running():
            await install(site.cell, f"https://127.0.0.1:{site.port}/mutate-v1-pod")
            await site.reviews.more()
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
            await site.reviews.more()
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
