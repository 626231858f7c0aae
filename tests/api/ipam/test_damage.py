"""Damage by hand: allocations and pools that an operator deletes under those who live on them."""

from netclaim.api import ipam as api
from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from nso.ipam.names import pool_name
from nso.ipam.views import read_scope
from tests.api.ipam.stack import (
    Settings,
    allocations,
    bound,
    claim,
    consistent,
    make,
    make_pool,
    network_scope,
    pool_ready,
    refused,
    release,
    running,
)
from tests.waiting import until


async def test_an_allocation_deleted_by_hand_in_a_pool_that_is_being_removed_is_made_again(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R15, T07: else the pool would look empty and go, and a pool of its name would give the address out twice."""
    await make_pool(ipam, home, "192.0.2.0/30")
    async with running(kubeconfig):
        await make(ipam, claim(home, "old", class_name="few"))
        held = await bound(ipam, home, "old")
        await ipam.delete(resources.IP_POOLS, home, "few")
        await pool_ready(ipam, home, "few", "False", "PoolOccupied")
        await _lose(ipam, home, held["allocationRef"]["name"])
        await pool_ready(ipam, home, "few", "False", "PoolOccupied")
        await make(ipam, claim(home, "new", class_name="few"))
        await refused(ipam, home, "new", api.REASON_NO_OFFERING_POOL)
        await release(ipam, home, ["old"])
        await _gone(ipam, home, "few")
        pool = {"cidr": "192.0.2.0/30", "classNames": ["few"]}
        await ipam.create(resources.IP_POOLS, {"metadata": {"name": "few", "namespace": home}, "spec": pool})
        await bound(ipam, home, "new")


async def test_a_carve_deleted_by_hand_is_made_again_before_another_pool_gets_its_block(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R15, T01: two pools with one block would give the same addresses out under different names."""
    async with running(kubeconfig):
        await make(ipam, claim(home, "one", family="IPv4"))
        await bound(ipam, home, "one")
        (carve,) = await allocations(ipam, home, "Carve")
        await _lose(ipam, home, carve["metadata"]["name"])
        await make(ipam, claim(home, "two", family="IPv4", scope=network_scope("other")))
        await bound(ipam, home, "two")
        carves = await allocations(ipam, home, "Carve")
        assert len({(raw["spec"]["space"], raw["spec"]["cidr"]) for raw in carves}) == 2
        await consistent(ipam, home)


async def test_a_block_that_somebody_else_carved_meanwhile_closes_the_pool_until_it_is_free_again(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T26: lost while IPAM was away; nothing new is given out, it is told, and the cure is an event."""
    async with running(kubeconfig):
        await make(ipam, claim(home, "six", family="IPv6"))
        await bound(ipam, home, "six")
    (carve,) = [raw for raw in await allocations(ipam, home, "Carve") if raw["spec"]["poolRef"]["name"].startswith("p")]
    victim = carve["spec"]["claimRef"]["name"]
    await ipam.delete(resources.IP_ALLOCATIONS, home, carve["metadata"]["name"])
    squatter: Raw = {
        "metadata": {"name": carve["metadata"]["name"], "namespace": home},
        "spec": {**carve["spec"], "purpose": "Reservation"},
    }
    squatter["spec"].pop("claimRef")
    await ipam.create(resources.IP_ALLOCATIONS, squatter)
    async with running(kubeconfig):
        assert carve["spec"]["cidr"] in await pool_ready(ipam, home, victim, "False", "CarveLost")
        await ipam.delete(resources.IP_ALLOCATIONS, home, carve["metadata"]["name"])
        await pool_ready(ipam, home, victim, "True")
        await consistent(ipam, home)


async def test_whoever_waits_for_a_pool_that_a_user_deleted_gets_another_once_it_is_gone(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T07, T24: the pool does not wait for those who merely would like to hold it."""
    async with running(kubeconfig, Settings(pool_linger=600.0)):
        await make(ipam, claim(home, "inside", family="IPv4"))
        pool = (await bound(ipam, home, "inside"))["poolRef"]["name"]
        before = (await ipam.get(resources.IP_POOLS, home, pool))["metadata"]["uid"]
        await ipam.delete(resources.IP_POOLS, home, pool)
        await make(ipam, claim(home, "range", class_name="subnet-ipv4", target="Range"))
        assert pool in await refused(ipam, home, "range", "WaitingForPool")
        await release(ipam, home, ["inside"])
        assert (await bound(ipam, home, "range"))["poolRef"]["name"] == pool
        assert (await ipam.get(resources.IP_POOLS, home, pool))["metadata"]["uid"] != before


async def test_a_pool_whose_parent_is_gone_before_it_was_carved_is_ordered_anew(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T07: a crash between the two, and the parent deleted meanwhile; the claim must not wait for ever."""
    spec = {"ipFamily": "IPv4", "prefixLength": 26, "poolPer": ["network"]}
    await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "upper", "namespace": home}, "spec": spec})
    await make(ipam, claim(home, "range", class_name="upper", target="Range"))
    async with running(kubeconfig):
        await refused(ipam, home, "range", api.REASON_NO_OFFERING_POOL)
        first = {"cidr": "203.0.113.0/26", "classNames": ["upper"]}
        full = {"metadata": {"name": "first", "namespace": home}, "spec": {**first, "excluded": ["203.0.113.0/26"]}}
        await ipam.create(resources.IP_POOLS, full)
        await refused(ipam, home, "range", api.REASON_POOL_EXHAUSTED)
    # What a leader wrote that saw the pool before it was excluded, and crashed.
    (claimed,) = [raw for raw in await ipam.list(resources.IP_CLAIMS, home) if raw["metadata"]["name"] == "range"]
    scope = {"network": claimed["spec"]["scope"]["network"]}
    name = pool_name("upper", ("network",), read_scope(scope))
    child = {
        "metadata": {"name": name, "namespace": home, "finalizers": [api.POOL_FINALIZER]},
        "spec": {"parentRef": {"name": "first"}, "prefixLength": 26, "madeFor": {"className": "upper", "scope": scope}},
    }
    await ipam.create(resources.IP_POOLS, child)
    async with running(kubeconfig):
        await ipam.delete(resources.IP_POOLS, home, "first")
        await _gone(ipam, home, "first")
        second = {"cidr": "198.18.0.0/24", "classNames": ["upper"]}
        await ipam.create(resources.IP_POOLS, {"metadata": {"name": "second", "namespace": home}, "spec": second})
        assert (await bound(ipam, home, "range"))["cidr"] == "198.18.0.0/26"


async def _lose(client: Client, project: str, name: str) -> None:
    """Delete an allocation by hand, and wait until it is there again: another object of that name."""
    before = await client.get(resources.IP_ALLOCATIONS, project, name)
    await client.delete(resources.IP_ALLOCATIONS, project, name)

    async def again() -> bool:
        try:
            found = await client.get(resources.IP_ALLOCATIONS, project, name)
        except NotFound:
            return False
        assert found["spec"] == before["spec"], found
        return bool(found["metadata"]["uid"] != before["metadata"]["uid"])

    await until(again, timeout=60, what=f"allocation {name} made again")


async def _gone(client: Client, project: str, pool: str) -> None:
    async def look() -> bool:
        return pool not in [raw["metadata"]["name"] for raw in await client.list(resources.IP_POOLS, project)]

    await until(look, timeout=60, what=f"IPPool {pool} gone")
