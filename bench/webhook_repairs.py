"""T17: how long an overwritten caBundle lasts, and what it costs the reviews that run meanwhile.

An API server takes a webhook configuration in without asking anybody, so an overwrite cannot be refused, only repaired.
Until the API server has heard of the repair, Pods that ask for interfaces are refused, never admitted unattached.
"""

import base64
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.report import Report
from bench.webhook_reviews import cell
from netclaim.api import resources
from tests.api.webhook.site import Site, a_site, published_bundle
from tests.api.webhook.test_certificates import wanted
from tests.waiting import until
from webhook import certificates

GOAL_SECONDS = 5.0
EVERY = 0.01


async def run(*, short: bool) -> Report:
    """20 overwrites (short: 4), half of them with nothing, half with a stranger's authority."""
    overwrites = 4 if short else 20
    report = Report("T17", f"{overwrites} overwrites of the caBundle under running reviews")
    stranger = base64.b64encode(certificates.make_authority(wanted(days=1), datetime.now(UTC)).certificate).decode()
    repairs, gaps, refused = [], [], 0
    with TemporaryDirectory() as folder:
        async with cell(Path(folder)) as (plane, client):
            namespace = f"bench-{secrets.token_hex(3)}"
            await client.create(resources.NAMESPACES, {"metadata": {"name": namespace}})
            async with a_site(plane, client, namespace, Path(folder)) as site, site.replica() as program:
                await site.works()
                right = await published_bundle(client)
                for number in range(overwrites):
                    async with site.reviews.running() as reviews:
                        await reviews.more()
                        repair, gap = await _overwrite(site, right, "" if number % 2 else stranger)
                        await reviews.more()
                    repairs.append(repair)
                    gaps.append(gap)
                    refused += len(reviews.failures)
                    reviews.failures.clear()
                if program.tracebacks:
                    raise RuntimeError(f"errors in the log: {program.tracebacks[:3]}")
    report.add("slowest repair", max(repairs), "s", goal=GOAL_SECONDS)
    report.add("repair, p50", sorted(repairs)[overwrites // 2], "s")
    report.add("longest time until a review was admitted", max(gaps), "s", goal=GOAL_SECONDS)
    report.add("time until a review was admitted, p50", sorted(gaps)[overwrites // 2], "s")
    report.add("reviews refused per overwrite, of 3 callers", refused / overwrites, "")
    report.notes.append("a refused caller tries again after 50 ms; none was admitted without its interface")
    return report


async def _overwrite(site: Site, right: bytes, value: str) -> tuple[float, float]:
    """Seconds until the caBundle holds what is right again, and until a review is admitted after that."""
    began = time.perf_counter()
    await site.overwrite_bundle(value)

    async def trusted() -> bool:
        return certificates.trusts(await published_bundle(site.cell), right)

    await until(trusted, what="the caBundle is right again", interval=EVERY)
    repaired = time.perf_counter() - began
    await site.works(interval=EVERY)
    return repaired, time.perf_counter() - began
