"""The limits for a project of docs/operations.md, as the page has them but for the numbers (R12)."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from netclaim.api import resources
from netclaim.api.conditions import message_of
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import Forbidden
from tests.api.claims.shop import Shop
from tests.waiting import until

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


def documented(plane: str) -> tuple[Raw, str]:
    """The page's quota for that control plane, and the one count that it limits."""
    (block,) = re.findall(rf"```yaml {plane}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    quota: dict[str, Any] = yaml.safe_load(block)
    (counted,) = quota["spec"]["hard"]
    return quota, str(counted)


async def limit(client: Client, namespace: str, quota: Raw, counted: str, most: int) -> None:
    """Create the quota with room for `most`, and wait until the control plane counts."""
    quota["metadata"]["namespace"] = namespace
    quota["spec"]["hard"][counted] = str(most)
    await client.create(resources.RESOURCE_QUOTAS, quota)
    name = quota["metadata"]["name"]

    async def counts() -> bool:
        raw = await client.get(resources.RESOURCE_QUOTAS, namespace, name)
        assert counted in (raw.get("status") or {}).get("used", {}), raw.get("status")
        return True

    # A controller manager learns of a kind up to a minute after it was installed.
    await until(counts, timeout=180, what="the quota counted", interval=0.2)


async def raise_to(client: Client, namespace: str, quota: Raw, counted: str, most: int) -> None:
    path = f"/spec/hard/{counted.replace('/', '~1')}"
    ops = [{"op": "replace", "path": path, "value": str(most)}]
    await client.json_patch(resources.RESOURCE_QUOTAS, namespace, quota["metadata"]["name"], ops)


async def test_the_documented_quota_on_ip_claims_is_the_claims_reason_until_it_grows(shop: Shop, ipam: Client) -> None:
    """R12: QuotaExceeded names the quota, used and limit; what is bound stays bound."""
    await shop.network(families=("IPv4",))
    await shop.claim()
    first = await shop.allocated()
    used = len(await ipam.list(resources.IP_CLAIMS, shop.project))
    quota, counted = documented("ipam")
    await limit(ipam, shop.project, quota, counted, used)
    await shop.claim("web-1-eth0")
    refused = await shop.refused("QuotaExceeded", "web-1-eth0", timeout=30)
    told = message_of(refused, "Ready")
    assert quota["metadata"]["name"] in told
    assert f"limited: {counted}={used}" in told
    await shop.held_by_ipam(first)
    await raise_to(ipam, shop.project, quota, counted, used + 1)
    second = await shop.allocated("web-1-eth0", timeout=60)
    await shop.held_by_ipam(second)
    assert "QuotaExceeded" not in str(second["status"])


async def test_an_ip_claim_that_is_released_makes_room_under_the_quota(shop: Shop, ipam: Client) -> None:
    """T24: the other cure, without an operator."""
    await shop.network(families=("IPv4",))
    await shop.claim()
    await shop.allocated()
    quota, counted = documented("ipam")
    await limit(ipam, shop.project, quota, counted, len(await ipam.list(resources.IP_CLAIMS, shop.project)))
    await shop.claim("web-1-eth0")
    await shop.refused("QuotaExceeded", "web-1-eth0", timeout=30)
    await shop.delete_claim()
    await shop.allocated("web-1-eth0", timeout=60)


async def test_the_documented_quota_on_interface_claims_refuses_one_too_many(shop: Shop, cell: Client) -> None:
    """The API server's own words, at once; a larger quota lets it in."""
    quota, counted = documented("cell")
    await shop.claim()
    await limit(cell, shop.namespace, quota, counted, 1)
    with pytest.raises(Forbidden, match=f"exceeded quota: {quota['metadata']['name']}"):
        await shop.claim("web-1-eth0")
    await raise_to(cell, shop.namespace, quota, counted, 2)

    async def let_in() -> bool:
        try:
            await shop.claim("web-1-eth0")
        except Forbidden:
            return False
        return True

    await until(let_in, timeout=30, what="the larger quota known to the API server", interval=0.2)
