"""Blocks that come back: at once, after a cooldown, when a range is empty, when the claim is no more."""

import asyncio
import time

from netclaim.api import ipam as api
from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from nso.ipam.blocks import Block
from nso.ipam.claims import POOL_PATIENCE
from nso.ipam.names import allocation_name
from tests.api.ipam.stack import (
    Settings,
    allocations,
    bound,
    cidrs,
    claim,
    consistent,
    get,
    make,
    make_pool,
    release,
    running,
)
from tests.waiting import until


async def test_a_claim_that_is_deleted_at_once_leaves_nothing(ipam: Client, home: str, kubeconfig: str) -> None:
    """T07: delete while binding, at whatever step; recreated under the same name it is served anew (T06)."""
    async with running(kubeconfig):
        for round_ in range(3):
            names = [f"brief-{number}" for number in range(12)]
            await make(ipam, *(claim(home, name, family="IPv4") for name in names))
            await asyncio.sleep(0.03 * round_)
            await release(ipam, home, names)
        await make(ipam, claim(home, "brief-0", family="IPv4"))
        await bound(ipam, home, "brief-0")
        assert len(await cidrs(ipam, home)) == 1

        async def one_block() -> bool:
            return len(await allocations(ipam, home, "Claim")) == 1

        await until(one_block, what="one block is held")


async def test_a_freed_block_rests_for_the_cooldown_unless_nothing_else_is_free(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """Cooldown: the block is Cooling, and is taken over when the pool has nothing else."""
    await make_pool(ipam, home, "192.0.2.0/31", of_class={"cooldown": "1h"})
    async with running(kubeconfig):
        await make(ipam, claim(home, "a", class_name="few"))
        first = (await bound(ipam, home, "a"))["cidr"]
        await release(ipam, home, ["a"])
        (cooling,) = await allocations(ipam, home)
        assert (cooling["spec"]["purpose"], cooling["spec"]["cidr"]) == ("Cooling", first)
        await make(ipam, claim(home, "b", class_name="few"))
        assert (await bound(ipam, home, "b"))["cidr"] != first
        await make(ipam, claim(home, "c", class_name="few"))
        assert (await bound(ipam, home, "c"))["cidr"] == first
        await consistent(ipam, home)
        # So that nothing rests for an hour in the next test's way.
        calm = [{"op": "replace", "path": "/spec/cooldown", "value": "0s"}]
        await ipam.json_patch(resources.IP_CLASSES, home, "few", calm)
        await release(ipam, home)


async def test_a_range_is_released_only_when_nobody_is_inside(ipam: Client, home: str, kubeconfig: str) -> None:
    """RangeOccupied names what is inside; two holders; the pool goes when it has lingered empty."""
    async with running(kubeconfig, Settings(pool_linger=0.5)):
        for name in ("here", "there"):
            await make(ipam, claim(home, name, class_name="subnet-ipv4", target="Range"))
        assert (await bound(ipam, home, "here"))["cidr"] == (await bound(ipam, home, "there"))["cidr"]
        await make(ipam, claim(home, "inside", family="IPv4"))
        await bound(ipam, home, "inside")
        await release(ipam, home, ["there"], timeout=30)
        await ipam.delete(resources.IP_CLAIMS, home, "here")

        async def occupied() -> str | None:
            status = (await get(ipam, home, "here"))["status"]
            found = [entry for entry in status["conditions"] if entry["type"] == api.RELEASED]
            return found[0]["message"] if found and found[0]["reason"] == api.REASON_RANGE_OCCUPIED else None

        assert f"{home}/inside" in str(await until(occupied, what="RangeOccupied"))
        assert (await get(ipam, home, "here"))["status"]["cidr"] == "10.128.0.0/20"
        await release(ipam, home, timeout=30)

        async def nothing_left() -> bool:
            return not await allocations(ipam, home)

        await until(nothing_left, timeout=60, what="the empty pool is gone, and its carve with it")


async def test_an_allocation_deleted_by_hand_under_a_bound_claim_is_taken_again_at_once(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R13: until it is, its block looks free, and the next claim could be given it too."""
    await make_pool(ipam, home, "192.0.2.0/29")
    await make(ipam, claim(home, "live", class_name="few"))
    async with running(kubeconfig):
        status = await bound(ipam, home, "live")
        kept = status["cidr"]
        await make(ipam, claim(home, "later", class_name="few"))
        other = (await bound(ipam, home, "later"))["cidr"]

        def is_at_rest() -> bool:
            # A claim is looked at again while it is young; one that heals by that proves nothing.
            return time.monotonic() - made > 2 * POOL_PATIENCE

        made = time.monotonic()
        await until(is_at_rest, what="both claims are past the time in which they are looked at again anyway")
        await ipam.delete(resources.IP_ALLOCATIONS, home, status["allocationRef"]["name"])

        async def is_back() -> bool:
            return {raw["spec"]["cidr"] for raw in await allocations(ipam, home)} == {kept, other}

        await until(is_back, timeout=30, what="the claim's allocation is there again")
        await make(ipam, claim(home, "next", class_name="few"))
        assert (await bound(ipam, home, "next"))["cidr"] not in {kept, other}


async def test_an_allocation_without_its_claim_is_released_after_two_sightings(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T05, T06: the claim is compared by uid; a namesake does not keep the block, and what is held stays."""
    await make_pool(ipam, home, "192.0.2.0/29")
    await make(ipam, claim(home, "live", class_name="few"))
    await ipam.create(
        resources.IP_ALLOCATIONS, _allocation(home, "few", Block.parse("192.0.2.7/32"), "live", "uid-of-an-earlier-one")
    )
    async with running(kubeconfig, Settings(orphan_grace=0.5)):
        kept = (await bound(ipam, home, "live"))["cidr"]

        async def only_the_live_one() -> bool:
            return [raw["spec"]["cidr"] for raw in await allocations(ipam, home)] == [kept]

        await until(only_the_live_one, timeout=30, what="the orphan is released")


async def test_a_block_whose_claim_was_forced_away_rests_as_its_class_says(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T05: it was in use a moment ago, so it cools, and its holder's name is no longer on it."""
    await make_pool(ipam, home, "192.0.2.0/29", of_class={"cooldown": "1h"})
    await ipam.create(
        resources.IP_ALLOCATIONS, _allocation(home, "few", Block.parse("192.0.2.7/32"), "gone", "uid-of-nobody")
    )
    async with running(kubeconfig, Settings(orphan_grace=0.5)):

        async def it_cools() -> bool:
            (found,) = await allocations(ipam, home)
            assert found["spec"]["purpose"] == "Cooling", found
            return "claimRef" not in found["spec"]

        await until(it_cools, timeout=60, what="the block of nobody cools")
        (found,) = await allocations(ipam, home)
        await ipam.delete(resources.IP_ALLOCATIONS, home, found["metadata"]["name"])


def _allocation(project: str, pool: str, block: Block, claim_name: str, uid: str) -> Raw:
    return {
        "metadata": {"name": allocation_name(pool, "", block), "namespace": project},
        "spec": {
            "poolRef": {"name": pool},
            "cidr": str(block),
            "space": "",
            "purpose": "Claim",
            "claimRef": {"namespace": project, "name": claim_name, "uid": uid},
        },
    }
