"""IPAM against a real API server: binding, release, exhaustion, races, restarts. The checker runs after every test."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from ipaddress import ip_network

import pytest

from netclaim.api import ipam as api
from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from nso.ipam import invariants
from nso.ipam.blocks import Block
from nso.ipam.names import allocation_name
from tests.api.ipam.stack import (
    Settings,
    all_bound,
    allocations,
    bound,
    cidrs,
    claim,
    get,
    make,
    network_scope,
    refused,
    release,
    running,
)
from tests.conftest import create_project
from tests.control_plane import ControlPlane
from tests.waiting import until


async def violations(client: Client, project: str) -> list[invariants.Violation]:
    """What the checker finds in one project; allocations are read first."""
    held = await client.list(resources.IP_ALLOCATIONS, project)
    claims = await client.list(resources.IP_CLAIMS, project)
    pools = await client.list(resources.IP_POOLS, project)
    classes = await client.list(resources.IP_CLASSES, project)
    return invariants.check(classes=classes, pools=pools, claims=claims, allocations=held)


async def consistent(client: Client, project: str) -> None:
    """Wait until the checker finds nothing: counters follow within a second or so."""

    async def look() -> bool:
        found = await violations(client, project)
        assert not found, [str(each) for each in found]
        return True

    await until(look, timeout=15, what=f"no violation in {project}", interval=0.3)


@pytest.fixture
async def kubeconfig(control_plane: ControlPlane) -> str:
    return str(control_plane.ipam_kubeconfig)


@pytest.fixture
async def home(ipam: Client, kubeconfig: str) -> AsyncIterator[str]:
    """A project like the example's; when the test is over all is released and checked, and the project goes."""
    project = f"ipam-{secrets.token_hex(3)}"
    await create_project(ipam, project)
    yield project
    async with running(kubeconfig, Settings(pool_linger=0.5)):
        await consistent(ipam, project)
        await release(ipam, project)

        async def nothing_left() -> bool:
            left = [raw["metadata"]["name"] for raw in await allocations(ipam, project)]
            assert not left, left
            return True

        await until(nothing_left, timeout=30, what="nothing is held after everything was released", interval=0.3)
        await ipam.delete(resources.NAMESPACES, None, project)

        async def pools_gone() -> bool:
            return not await ipam.list(resources.IP_POOLS, project)

        await until(pools_gone, timeout=30, what="pools gone with their project", interval=0.3)


async def make_pool(client: Client, project: str, cidr: str, *, name: str = "few", **spec: object) -> None:
    """A class and a root pool of single addresses."""
    class_spec = {"ipFamily": "IPv4", "prefixLength": 32, **(spec.pop("of_class", None) or {})}  # type: ignore[dict-item]
    await client.create(resources.IP_CLASSES, {"metadata": {"name": name, "namespace": project}, "spec": class_spec})
    pool = {"cidr": cidr, "classNames": [name], **spec}
    await client.create(resources.IP_POOLS, {"metadata": {"name": name, "namespace": project}, "spec": pool})


async def test_a_dual_stack_claim_cascades_to_the_addresses_of_the_example(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R2, R14: /48 -> /64 -> /96 with the first /96 reserved; /20 -> /32 with gateway .1 and the first endpoint .2."""
    async with running(kubeconfig):
        await make(
            ipam,
            claim(home, "six", family="IPv6"),
            claim(home, "four", family="IPv4"),
            claim(home, "outside", class_name="public-unicast-ipv4"),
        )
        assert (await bound(ipam, home, "six"))["cidr"] == "fd20:1000::1:0:0/96"
        assert (await bound(ipam, home, "four"))["cidr"] == "10.128.0.2/32"
        assert ip_network((await bound(ipam, home, "outside"))["cidr"]).subnet_of(ip_network("198.51.100.0/24"))
        # Range claims adopt the pools that the blocks made.
        for name, kind in (("net6", "network-ipv6"), ("sub6", "subnet-ipv6"), ("sub4", "subnet-ipv4")):
            await make(ipam, claim(home, name, class_name=kind, target="Range"))
        net6, sub6, sub4 = [await bound(ipam, home, name) for name in ("net6", "sub6", "sub4")]
        assert (net6["cidr"], sub6["cidr"], sub4["cidr"]) == ("fd20:1000::/48", "fd20:1000::/64", "10.128.0.0/20")
        assert (sub6["gateway"], sub4["gateway"]) == ("fd20:1000::1", "10.128.0.1")
        four = await bound(ipam, home, "four")
        assert four["poolRef"] == sub4["poolRef"]
        held = await ipam.get(resources.IP_ALLOCATIONS, home, four["allocationRef"]["name"])
        assert held["spec"]["cidr"] == four["cidr"]
        assert held["spec"]["claimRef"]["uid"] == (await get(ipam, home, "four"))["metadata"]["uid"]
        await consistent(ipam, home)
        pool = await ipam.get(resources.IP_POOLS, home, sub4["poolRef"]["name"])
        assert pool["status"]["capacity"] == {
            "total": "4096",
            "allocated": "1",
            "reserved": "4",
            "cooling": "0",
            "available": "4091",
        }


async def test_a_herd_of_first_claims_makes_one_pool_of_each_level(ipam: Client, home: str, kubeconfig: str) -> None:
    """Pools appear on first use; create-if-absent under names that are functions of class and scope."""
    async with running(kubeconfig):
        await make(ipam, *(claim(home, f"c{number}", family="IPv6") for number in range(24)))
        found = await all_bound(ipam, home, 24)
        assert len(set(found.values())) == 24
        made = [raw for raw in await ipam.list(resources.IP_POOLS, home) if raw["spec"].get("madeFor")]
        assert sorted(raw["spec"]["madeFor"]["className"] for raw in made) == ["network-ipv6", "subnet-ipv6"]


async def test_two_networks_hold_the_same_ipv4_addresses_and_ipv6_is_one_space(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """`uniqueWithin: [network]` lets two networks hold the same address; the same network in two cells is one scope."""
    async with running(kubeconfig):
        await make(
            ipam,
            claim(home, "one", family="IPv4", scope=network_scope("one")),
            claim(home, "two", family="IPv4", scope=network_scope("two")),
            claim(home, "one-elsewhere", family="IPv4", scope=network_scope("one", location="elsewhere")),
            claim(home, "one-6", family="IPv6", scope=network_scope("one")),
            claim(home, "two-6", family="IPv6", scope=network_scope("two")),
        )
        found = await all_bound(ipam, home, 5)
        assert found["one"] == found["two"] == "10.128.0.2/32"
        assert found["one-elsewhere"] == "10.128.16.2/32"
        assert found["one-6"] != found["two-6"]


async def test_two_projects_with_the_same_class_names_get_separate_space(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R14: identical class names, other pools, and no allocation of one is in the other's namespace."""
    other = f"ipam-{secrets.token_hex(3)}"
    await create_project(ipam, other, like="project-beta")
    async with running(kubeconfig, Settings(pool_linger=0.5)):
        wishes = [(family, f"of-{family.lower()}") for family in ("IPv4", "IPv6")]
        for project in (home, other):
            await make(ipam, *(claim(project, name, family=family) for family, name in wishes))
        ours, theirs = await all_bound(ipam, home, 2), await all_bound(ipam, other, 2)
        assert theirs["of-ipv4"] == "10.129.0.2/32"
        assert theirs["of-ipv6"].startswith("fd20:2000:")
        assert not set(ours.values()) & set(theirs.values())
        for raw in await allocations(ipam, other, "Claim"):
            assert raw["spec"]["claimRef"]["namespace"] == other
        await release(ipam, other)
        await ipam.delete(resources.NAMESPACES, None, other)


@pytest.mark.parametrize("leaders", [1, 2])
async def test_exact_fit_every_claim_gets_a_block_and_none_is_given_twice(
    ipam: Client, home: str, kubeconfig: str, leaders: int
) -> None:
    """T01: N addresses, N claims, 32 writers; delete all, recreate all; also with two programs that both lead."""
    await make_pool(ipam, home, "192.0.2.0/27")
    async with AsyncExitStack() as stack:
        for _ in range(leaders):
            await stack.enter_async_context(running(kubeconfig))
        for _ in range(2):
            await make(ipam, *(claim(home, f"fit-{number}", class_name="few") for number in range(32)))
            found = await all_bound(ipam, home, 32)
            assert {str(address) for address in ip_network("192.0.2.0/27")} == {
                cidr.removesuffix("/32") for cidr in found.values()
            }
            await consistent(ipam, home)
            await release(ipam, home)


async def test_a_claim_in_an_exhausted_pool_says_so_and_the_oldest_is_served_when_a_block_is_freed(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R12, T24: pool, class, family and used/total are named; woken within a second, oldest first."""
    await make_pool(ipam, home, "192.0.2.0/31")
    async with running(kubeconfig):
        await make(ipam, claim(home, "a", class_name="few"), claim(home, "b", class_name="few"))
        await all_bound(ipam, home, 2)
        for name in ("late-1", "late-2"):
            await make(ipam, claim(home, name, class_name="few"))
            message = await refused(ipam, home, name, api.REASON_POOL_EXHAUSTED)
            for part in (f"{home}/few", "class few", "IPv4", "2/2"):
                assert part in message
        # Another class of the project is not held up.
        await make(ipam, claim(home, "other", class_name="public-unicast-ipv4"))
        await bound(ipam, home, "other")
        freed = (await bound(ipam, home, "a"))["cidr"]
        await release(ipam, home, ["a"])
        status = await bound(ipam, home, "late-1", timeout=1.5)
        assert status["cidr"] == freed
        assert not [entry for entry in status["conditions"] if entry["status"] == "False"]
        await refused(ipam, home, "late-2", api.REASON_POOL_EXHAUSTED)


async def test_a_pool_that_grows_serves_those_who_wait(ipam: Client, home: str, kubeconfig: str) -> None:
    """T30: grow under load; the claim binds by itself once the cause is gone, and a shrink is refused."""
    await make_pool(ipam, home, "192.0.2.0/31")
    async with running(kubeconfig):
        await make(ipam, *(claim(home, f"c{number}", class_name="few") for number in range(4)))
        await all_bound(ipam, home, 2)
        grown = [{"op": "replace", "path": "/spec/cidr", "value": "192.0.2.0/30"}]
        await ipam.json_patch(resources.IP_POOLS, home, "few", grown)
        assert len(set((await all_bound(ipam, home, 4, timeout=5)).values())) == 4
        pool = await ipam.get(resources.IP_POOLS, home, "few")
        assert pool["status"]["cidr"] == "192.0.2.0/30"


async def test_an_exclusion_that_is_lifted_serves_those_who_wait(ipam: Client, home: str, kubeconfig: str) -> None:
    """Excluded addresses are never handed out; lifting the exclusion wakes the waiters."""
    await make_pool(ipam, home, "192.0.2.0/30", excluded=["192.0.2.0/31"], reservations={"trailing": 1})
    async with running(kubeconfig):
        await make(ipam, claim(home, "one", class_name="few"))
        assert (await bound(ipam, home, "one"))["cidr"] == "192.0.2.2/32"
        await make(ipam, claim(home, "two", class_name="few"))
        await refused(ipam, home, "two", api.REASON_POOL_EXHAUSTED)
        lifted = [{"op": "replace", "path": "/spec/excluded", "value": ["192.0.2.0/32"]}]
        await ipam.json_patch(resources.IP_POOLS, home, "few", lifted)
        assert (await bound(ipam, home, "two", timeout=3))["cidr"] == "192.0.2.1/32"


async def test_a_static_address_is_given_or_refused_with_its_reason(ipam: Client, home: str, kubeconfig: str) -> None:
    """`address`: one block; a waiter for it is woken by that block."""
    await make_pool(ipam, home, "192.0.2.0/29", reservations={"leading": 1})
    async with running(kubeconfig):
        await make(ipam, claim(home, "static", class_name="few", address="192.0.2.5"))
        assert (await bound(ipam, home, "static"))["cidr"] == "192.0.2.5/32"
        for name, address, reason in (
            ("taken", "192.0.2.5/32", api.REASON_ADDRESS_UNAVAILABLE),
            ("reserved", "192.0.2.0", api.REASON_ADDRESS_UNAVAILABLE),
            ("outside", "203.0.113.1", api.REASON_ADDRESS_UNAVAILABLE),
            ("length", "192.0.2.4/31", api.REASON_PREFIX_LENGTH_REJECTED),
        ):
            await make(ipam, claim(home, name, class_name="few", address=address))
            assert address.split("/")[0] in await refused(ipam, home, name, reason)
        await release(ipam, home, ["static"])
        assert (await bound(ipam, home, "taken", timeout=3))["cidr"] == "192.0.2.5/32"


async def test_a_claim_is_bound_once_its_class_or_pool_or_default_exists(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R12: ClassNotFound, NoOfferingPool, NoDefaultClass are each left by the event that cures them."""
    async with running(kubeconfig):
        await make(ipam, claim(home, "early", class_name="few"))
        assert "few" in await refused(ipam, home, "early", api.REASON_CLASS_NOT_FOUND)
        spec = {"ipFamily": "IPv4", "prefixLength": 32}
        await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "few", "namespace": home}, "spec": spec})
        await refused(ipam, home, "early", api.REASON_NO_OFFERING_POOL)
        pool = {"cidr": "192.0.2.0/29", "classNames": ["few"]}
        await ipam.create(resources.IP_POOLS, {"metadata": {"name": "few", "namespace": home}, "spec": pool})
        await bound(ipam, home, "early", timeout=3)
        annotated = {
            "metadata": {"name": "few", "namespace": home, "annotations": {api.DEFAULT_CLASS_ANNOTATION: "true"}}
        }
        await ipam.apply(resources.IP_CLASSES, {**annotated, "spec": spec}, manager="operator")
        await make(ipam, claim(home, "family", family="IPv4"))
        message = await refused(ipam, home, "family", api.REASON_NO_DEFAULT_CLASS)
        assert "endpoint-ipv4" in message
        assert "few" in message
        await ipam.json_patch(
            resources.IP_CLASSES, home, "endpoint-ipv4", [{"op": "remove", "path": "/metadata/annotations"}]
        )
        assert (await bound(ipam, home, "family", timeout=3))["poolRef"]["name"] == "few"


async def test_a_scope_role_that_is_missing_is_refused_by_name(ipam: Client, home: str, kubeconfig: str) -> None:
    """A missing role is refused, never widened; all of them are named."""
    async with running(kubeconfig):
        await make(ipam, claim(home, "nowhere", family="IPv4", scope={}))
        message = await refused(ipam, home, "nowhere", api.REASON_SCOPE_ROLES_MISSING)
        assert "network, location" in message
        assert (await get(ipam, home, "nowhere"))["status"]["phase"] == api.PHASE_FAILED


async def test_a_crash_between_allocation_and_status_is_finished_by_the_next_pass(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T03: the allocation is found by its claimRef uid; no second one is made."""
    await make_pool(ipam, home, "192.0.2.0/29")
    await make(ipam, claim(home, "cut", class_name="few"))
    uid = (await get(ipam, home, "cut"))["metadata"]["uid"]
    block = Block.parse("192.0.2.6/32")
    await ipam.create(resources.IP_ALLOCATIONS, _allocation(home, "few", block, "cut", uid))
    async with running(kubeconfig):
        assert (await bound(ipam, home, "cut"))["cidr"] == "192.0.2.6/32"
        assert len(await allocations(ipam, home)) == 1


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

        await until(only_the_live_one, timeout=10, what="the orphan is released")


async def test_a_restart_writes_nothing_and_goes_on(ipam: Client, home: str, kubeconfig: str) -> None:
    """T21: zero writes at restart; a claim made while nobody was there is served."""
    async with running(kubeconfig):
        await make(
            ipam, claim(home, "four", family="IPv4"), claim(home, "sub4", class_name="subnet-ipv4", target="Range")
        )
        await all_bound(ipam, home, 2)
        await consistent(ipam, home)
    before = await _versions(ipam, home)
    async with running(kubeconfig) as controllers:

        async def first_pass() -> bool:
            # The allocations' controller has no key at all: each allocation has its holder.
            busy = (controllers.classes, controllers.pools, controllers.claims)
            return all(controller.first_pass is not None for controller in busy)

        await until(first_pass, what="a full first pass")
        assert await _versions(ipam, home) == before
    await make(ipam, claim(home, "between", family="IPv4"))
    async with running(kubeconfig):
        assert (await bound(ipam, home, "between"))["cidr"] == "10.128.0.3/32"


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
        await release(ipam, home, ["there"], timeout=5)
        await ipam.delete(resources.IP_CLAIMS, home, "here")

        async def occupied() -> str | None:
            status = (await get(ipam, home, "here"))["status"]
            found = [entry for entry in status["conditions"] if entry["type"] == api.RELEASED]
            return found[0]["message"] if found and found[0]["reason"] == api.REASON_RANGE_OCCUPIED else None

        assert f"{home}/inside" in str(await until(occupied, what="RangeOccupied"))
        assert (await get(ipam, home, "here"))["status"]["cidr"] == "10.128.0.0/20"
        await release(ipam, home, timeout=5)

        async def nothing_left() -> bool:
            return not await allocations(ipam, home)

        await until(nothing_left, timeout=15, what="the empty pool is gone, and its carve with it")


async def test_a_pool_that_a_user_deletes_under_a_live_claim_waits_for_it(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T07: nothing new comes in, what is held stays, and the pool goes when the last one leaves."""
    await make_pool(ipam, home, "192.0.2.0/29")
    async with running(kubeconfig):
        await make(ipam, claim(home, "old", class_name="few"))
        held = (await bound(ipam, home, "old"))["cidr"]
        await ipam.delete(resources.IP_POOLS, home, "few")
        await make(ipam, claim(home, "new", class_name="few"))
        await refused(ipam, home, "new", api.REASON_NO_OFFERING_POOL)
        assert (await get(ipam, home, "old"))["status"]["cidr"] == held
        await release(ipam, home, ["old"])

        async def gone() -> bool:
            return "few" not in [raw["metadata"]["name"] for raw in await ipam.list(resources.IP_POOLS, home)]

        await until(gone, timeout=15, what="the pool is gone")


async def test_a_root_that_overlaps_another_is_refused_and_taken_up_when_the_other_goes(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """OverlapsPool names the other; a pool that is Ready wins."""
    await make_pool(ipam, home, "192.0.2.0/29")
    async with running(kubeconfig):
        await _ready(ipam, home, "few", "True")
        await make_pool(ipam, home, "192.0.2.0/24", name="wide")
        assert f"{home}/few" in await _ready(ipam, home, "wide", "False", api.REASON_OVERLAPS_POOL)
        await ipam.delete(resources.IP_POOLS, home, "few")
        await _ready(ipam, home, "wide", "True")


async def test_classes_of_one_pool_must_agree(ipam: Client, home: str, kubeconfig: str) -> None:
    """MixedBlocks: every pool hands out blocks of one length, which is what makes names unique."""
    async with running(kubeconfig):
        await make_pool(ipam, home, "192.0.2.0/24")
        spec = {"ipFamily": "IPv4", "prefixLength": 28}
        await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "wide", "namespace": home}, "spec": spec})
        both = [{"op": "replace", "path": "/spec/classNames", "value": ["few", "wide"]}]
        await ipam.json_patch(resources.IP_POOLS, home, "few", both)
        assert "wide (IPv4 /28" in await _ready(ipam, home, "few", "False", api.REASON_MIXED_BLOCKS)


async def test_a_project_carves_from_another_only_with_its_consent(ipam: Client, home: str, kubeconfig: str) -> None:
    """`sharedWith`: the carve lies in the parent pool's namespace; without consent it says NotShared."""
    owner = f"ipam-{secrets.token_hex(3)}"
    await ipam.create(resources.NAMESPACES, {"metadata": {"name": owner}})
    spec = {"ipFamily": "IPv4", "prefixLength": 26}
    await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "slices", "namespace": owner}, "spec": spec})
    shared = {"cidr": "203.0.113.0/24", "classNames": ["slices"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "shared", "namespace": owner}, "spec": shared})
    leaf = {"ipFamily": "IPv4", "prefixLength": 32}
    await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "leaf", "namespace": home}, "spec": leaf})
    carved = {"parentRef": {"namespace": owner, "name": "shared"}, "prefixLength": 26, "classNames": ["leaf"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "slice", "namespace": home}, "spec": carved})
    async with running(kubeconfig):
        assert owner in await _ready(ipam, home, "slice", "False", "NotShared")
        consent = {"matchLabels": {"kubernetes.io/metadata.name": home}}
        await ipam.json_patch(
            resources.IP_POOLS, owner, "shared", [{"op": "add", "path": "/spec/sharedWith", "value": consent}]
        )
        await _ready(ipam, home, "slice", "True")
        await make(ipam, claim(home, "guest", class_name="leaf"))
        assert ip_network((await bound(ipam, home, "guest"))["cidr"]).subnet_of(ip_network("203.0.113.0/26"))
        (carve,) = await allocations(ipam, owner)
        assert carve["spec"]["purpose"] == "Carve"
        assert carve["spec"]["claimRef"]["namespace"] == home
        await release(ipam, home)
        await ipam.delete(resources.IP_POOLS, home, "slice")

        async def given_back() -> bool:
            return not await allocations(ipam, owner)

        await until(given_back, timeout=15, what="the carve is given back to the owner")
        await ipam.delete(resources.NAMESPACES, None, owner)


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


async def _ready(client: Client, project: str, pool: str, status: str, reason: str | None = None) -> str:
    async def look() -> str | None:
        found = (await client.get(resources.IP_POOLS, project, pool)).get("status") or {}
        for condition in found.get("conditions") or ():
            if (
                condition["type"] == api.READY
                and condition["status"] == status
                and reason in {None, condition["reason"]}
            ):
                return str(condition["message"])
        raise AssertionError(f"{pool}: {found}")

    return await until(look, timeout=10, what=f"IPPool {pool} Ready={status}")


async def _versions(client: Client, project: str) -> dict[tuple[str, str], str]:
    kinds = (resources.IP_CLASSES, resources.IP_POOLS, resources.IP_CLAIMS, resources.IP_ALLOCATIONS)
    return {
        (kind.kind, raw["metadata"]["name"]): raw["metadata"]["resourceVersion"]
        for kind in kinds
        for raw in await client.list(kind, project)
    }
