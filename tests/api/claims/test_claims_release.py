"""What becomes of addresses when claims, interfaces, networks and namespaces go, in every order."""

import asyncio
from typing import Any

import pytest

from netclaim.api import conditions, networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from tests.api.claims.conftest import everything_goes
from tests.api.claims.programs import Program
from tests.api.claims.shop import Shop, all_addresses
from tests.waiting import until

PUBLIC = [{"class": "public-unicast-ipv4"}]
ATTACHED = "cloud.datumapis.com/attached"


async def test_under_delete_a_new_claim_gets_a_new_interface_and_new_allocations(shop: Shop) -> None:
    """R8: by uid, not by address alone."""
    await shop.network()
    await shop.claim(addresses=PUBLIC)
    await shop.allocated()
    before, interface = await _uids(shop), await shop.interface()
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.nothing_allocated()
    assert await shop.interface() is None
    await shop.claim(addresses=PUBLIC)
    await shop.allocated()
    assert not before & await _uids(shop)
    again = await shop.interface()
    assert interface is not None
    assert again is not None
    assert interface["metadata"]["uid"] != again["metadata"]["uid"]


async def test_under_retain_a_new_claim_gets_the_same_interface_and_the_same_allocations(shop: Shop) -> None:
    """R8, R9, T25: same uid of interface and allocations, ownerRef and record moved to the new claim."""
    await shop.network()
    await shop.claim(addresses=PUBLIC, reclaimPolicy="Retain")
    first = await shop.allocated()
    before, interface = await _uids(shop), await shop.interface()
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await _phase(shop, "Available")
    assert await _uids(shop) == before
    await shop.claim(addresses=PUBLIC, reclaimPolicy="Retain")
    second = await shop.allocated()
    assert all_addresses(second) == all_addresses(first)
    assert await _uids(shop) == before
    again = await shop.interface()
    assert interface is not None
    assert again is not None
    assert again["metadata"]["uid"] == interface["metadata"]["uid"]
    record = again["metadata"]["annotations"][networking.ALLOCATED_FOR_ANNOTATION]
    assert record == f"web-0-eth0/{second['metadata']['uid']}"
    await shop.held_by_ipam(second)


async def test_a_retained_interface_moves_to_a_claim_of_another_name_that_pins_it(shop: Shop) -> None:
    """T25: and a later rebuild finds the addresses under the new holder."""
    await shop.network()
    await shop.claim(reclaimPolicy="Retain")
    first = await shop.allocated()
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.claim("db-0-eth0", reclaimPolicy="Retain", networkInterfaceName="web-0-eth0")
    second = await shop.allocated("db-0-eth0")
    assert all_addresses(second) == all_addresses(first)
    await shop.held_by_ipam(second)
    interface = await shop.interface()
    assert interface is not None
    await shop.delete_interface()

    async def rebuilt() -> Raw:
        found = await shop.interface()
        assert found is not None
        assert found["metadata"]["uid"] != interface["metadata"]["uid"]
        return found

    again = await until(rebuilt, timeout=60, what="the interface rebuilt")
    assert again["spec"]["addresses"] == interface["spec"]["addresses"]


async def test_a_retained_address_is_given_back_by_deleting_the_interface(shop: Shop) -> None:
    """Claims.md: interface deleted, unheld."""
    await shop.network()
    await shop.claim(reclaimPolicy="Retain", addresses=PUBLIC)
    await shop.allocated()
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.delete_interface()
    await shop.gone(resources.INTERFACES, "web-0-eth0")
    await shop.nothing_allocated()


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_an_interface_deleted_under_a_live_claim_is_rebuilt_on_its_addresses(shop: Shop, policy: str) -> None:
    """R7: no new allocation, and the claim never loses what it was told."""
    await shop.network()
    await shop.claim(addresses=PUBLIC, reclaimPolicy=policy)
    first = await shop.allocated()
    before, interface = await _uids(shop), await shop.interface()
    await shop.delete_interface()

    async def rebuilt() -> Raw:
        found = await shop.interface()
        assert found is not None
        assert interface is not None
        assert found["metadata"]["uid"] != interface["metadata"]["uid"]
        return found

    await until(rebuilt, timeout=60, what="the interface rebuilt")
    second = await shop.allocated()
    assert all_addresses(second) == all_addresses(first)
    assert await _uids(shop) == before


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_while_the_data_plane_holds_a_going_interface_the_claim_says_so_and_keeps_its_addresses(
    shop: Shop, policy: str
) -> None:
    """R15, R22: InterfaceBeingReleased demotes Ready alone; then the interface is made again."""
    await shop.network()
    await shop.claim(reclaimPolicy=policy)
    first = await shop.allocated()
    await _attach(shop)
    await shop.delete_interface()
    claim = await shop.refused("InterfaceBeingReleased")
    assert conditions.is_true(claim, networking.BOUND)
    assert conditions.is_true(claim, networking.ALLOCATED)
    assert all_addresses(claim) == all_addresses(first)
    await shop.held_by_ipam(claim)
    await _detach(shop)
    await shop.refused("NotProgrammed")
    assert all_addresses(await shop.allocated()) == all_addresses(first)


async def test_no_address_is_freed_before_the_data_plane_let_go(shop: Shop) -> None:
    """R15: the claim is deleted by hand under a running Pod."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    await shop.allocated()
    held = await _uids(shop)
    await _attach(shop)
    await shop.delete_claim()
    await shop.refused("InterfaceBeingReleased")
    assert await _uids(shop) == held
    await _detach(shop)
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.nothing_allocated()


async def test_a_recreated_claim_waits_for_its_former_self_and_then_binds(shop: Shop) -> None:
    """T06: same name, new uid, while the old addresses are still held by a running Pod."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    await shop.allocated()
    held = await _uids(shop)
    await _attach(shop)
    await shop.delete_claim()
    await shop.refused("InterfaceBeingReleased")
    # Forced away by hand: the claim's finalizer is taken off while its interface still goes.
    await shop.cell.json_patch(
        resources.CLAIMS, shop.namespace, "web-0-eth0", [{"op": "remove", "path": "/metadata/finalizers"}]
    )
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.claim(ipFamilies=["IPv4"])
    await shop.refused("InterfaceBeingReleased")
    assert await _uids(shop) == held
    await _detach(shop)
    claim = await shop.allocated()
    await shop.held_by_ipam(claim)
    assert not await _uids(shop) & held


async def test_a_claim_deleted_before_it_is_bound_leaves_nothing(shop: Shop) -> None:
    """T07: at every step of binding."""
    await shop.network()
    for number in range(10):
        name = f"web-{number}-eth0"
        await shop.claim(name, addresses=PUBLIC, reclaimPolicy="Retain" if number % 2 else "Delete")
        await asyncio.sleep(number * 0.01)  # not a wait: each deletion falls into another step of binding
        await shop.delete_claim(name)
    for number in range(10):
        await shop.gone(resources.CLAIMS, f"web-{number}-eth0")

    async def only_kept_ones() -> bool:
        interfaces = await shop.cell.list(resources.INTERFACES, shop.namespace)
        assert all(raw["spec"]["reclaimPolicy"] == "Retain" for raw in interfaces), interfaces
        assert len(await shop.ip_claims()) == 3 * len(interfaces)
        assert len(await shop.allocations()) == 3 * len(interfaces)
        return True

    await until(only_kept_ones, timeout=20, what="addresses of kept interfaces only")


async def test_a_claim_that_went_without_its_release_before_it_was_bound_is_released_at_once(
    shop: Shop, nso: Program
) -> None:
    """T07: the API server lets a deletion overtake a finalizer that is added at the same moment."""
    await shop.network()
    wanted: dict[str, Any] = {"ipFamilies": ["IPv4"], "addresses": [{"class": "no-such-class"}]}
    await shop.claim(**wanted)
    await shop.refused("AddressClassNotFound")
    assert await shop.ip_claims(), "the refused IPClaim stays asked for"
    nso.pause()
    try:
        await shop.cell.json_patch(
            resources.CLAIMS, shop.namespace, "web-0-eth0", [{"op": "remove", "path": "/metadata/finalizers"}]
        )
        await shop.delete_claim()
        renewed = await shop.claim(**wanted)
    finally:
        nso.resume()

    async def is_the_new_claims() -> bool:
        owners = {raw["spec"]["ownerRef"]["uid"] for raw in await shop.ip_claims()}
        assert owners == {renewed["metadata"]["uid"]}, (owners, renewed["metadata"]["uid"])
        return True

    # The sweep would come to it too, but not before the grace period of 5 s.
    await until(is_the_new_claims, timeout=4, what="the namesake asks for itself")
    await shop.refused("AddressClassNotFound")


async def test_two_claims_that_want_one_interface_never_share_it(shop: Shop) -> None:
    """R11, T25: whatever the timing; the loser gives back what it was given and takes over when it can."""
    await shop.network()
    async with asyncio.TaskGroup() as group:
        for name in ("a", "b"):
            group.create_task(shop.claim(name, networkInterfaceName="shared", ipFamilies=["IPv4"]))

    async def decided() -> tuple[str, str]:
        reasons = {}
        for name in ("a", "b"):
            raw = await shop.cell.get(resources.CLAIMS, shop.namespace, name)
            reasons[name] = conditions.reason_of(raw, networking.READY)
        assert sorted(reasons.values()) == ["InterfaceHeldByAnotherClaim", "NotProgrammed"], reasons
        assert len(await shop.ip_claims()) == 1
        winner = next(name for name, reason in reasons.items() if reason == "NotProgrammed")
        return winner, "b" if winner == "a" else "a"

    winner, loser = await until(decided, timeout=20, what="one claim bound, the other refused")
    await shop.held_by_ipam(await shop.allocated(winner))
    await shop.delete_claim(winner)
    await shop.allocated(loser)


async def test_an_interface_of_a_claim_that_was_forced_away_is_released(shop: Shop) -> None:
    """T07: finalizers removed by hand."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    await shop.allocated()
    await shop.cell.json_patch(
        resources.CLAIMS, shop.namespace, "web-0-eth0", [{"op": "remove", "path": "/metadata/finalizers"}]
    )
    await shop.delete_claim()
    await shop.gone(resources.INTERFACES, "web-0-eth0")
    await shop.nothing_allocated()


@pytest.mark.parametrize("propagation", ["Foreground", "Background", "Orphan"])
async def test_any_propagation_policy_ends_in_the_same(shop: Shop, propagation: str) -> None:
    """T07."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    await shop.allocated()
    await shop.cell.delete(resources.INTERFACES, shop.namespace, "web-0-eth0", propagation=propagation)
    await shop.cell.delete(resources.CLAIMS, shop.namespace, "web-0-eth0", propagation=propagation)
    await shop.cell.delete(resources.NETWORKS, shop.namespace, "default", propagation=propagation)
    for resource, name in (
        (resources.CLAIMS, "web-0-eth0"),
        (resources.INTERFACES, "web-0-eth0"),
        (resources.NETWORKS, "default"),
    ):
        await shop.gone(resource, name, timeout=30)
    await shop.nothing_allocated()


async def test_a_namespace_goes_with_everything_in_it(shop: Shop) -> None:
    """Claims.md: always release, under both policies; nothing left in IPAM and nothing Terminating after 30 s."""
    await shop.network()
    await shop.claim("a", addresses=PUBLIC)
    await shop.claim("b", addresses=PUBLIC, reclaimPolicy="Retain")
    await shop.claim("c", reclaimPolicy="Retain")
    for name in ("a", "b", "c"):
        await shop.allocated(name)
    await shop.delete_claim("c")
    await shop.gone(resources.CLAIMS, "c")
    await shop.cell.delete(resources.NAMESPACES, None, shop.namespace)

    async def gone() -> bool:
        try:
            raw = await shop.cell.get(resources.NAMESPACES, None, shop.namespace)
        except NotFound:
            return True
        raise AssertionError(raw["status"])

    await until(gone, timeout=30, what="the namespace gone", interval=0.2)
    await everything_goes(shop)


async def test_a_relabelled_namespace_releases_where_it_allocated(shop: Shop, other_shop: Shop, cell: Client) -> None:
    """Claims.md, Project: release uses the record."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    await shop.allocated()
    label = "/metadata/labels/" + networking.PROJECT_LABEL.replace("/", "~1")
    await cell.json_patch(
        resources.NAMESPACES, None, shop.namespace, [{"op": "replace", "path": label, "value": other_shop.project}]
    )
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.nothing_allocated()


async def test_a_kill_at_any_moment_leaves_nothing_half_done(shop: Shop, nso: Any) -> None:
    """T03: killed while twenty claims bind and release; after the restart each is whole or gone."""
    await shop.network()
    await shop.network_ready()
    for number in range(20):
        await shop.claim(f"web-{number}-eth0", reclaimPolicy="Retain" if number % 2 else "Delete")
    nso.kill()
    for number in range(0, 20, 3):
        await shop.delete_claim(f"web-{number}-eth0")
    await nso.again()
    for number in range(20):
        if number % 3:
            await shop.held_by_ipam(await shop.allocated(f"web-{number}-eth0", timeout=90))
        else:
            await shop.gone(resources.CLAIMS, f"web-{number}-eth0", timeout=90)


async def _uids(shop: Shop) -> set[str]:
    return {raw["metadata"]["uid"] for raw in (await shop.allocations()).values()}


async def _phase(shop: Shop, phase: str) -> None:
    async def look() -> bool:
        raw = await shop.interface()
        assert raw is not None
        assert raw["status"]["phase"] == phase, raw["status"]
        return True

    await until(look, what=f"interface {phase}")


async def _attach(shop: Shop, name: str = "web-0-eth0") -> None:
    """Hold the interface as a data plane does."""
    await shop.cell.json_patch(
        resources.INTERFACES, shop.namespace, name, [{"op": "add", "path": "/metadata/finalizers/-", "value": ATTACHED}]
    )


async def _detach(shop: Shop, name: str = "web-0-eth0") -> None:
    raw = await shop.interface(name)
    assert raw is not None
    index = raw["metadata"]["finalizers"].index(ATTACHED)
    await shop.cell.json_patch(
        resources.INTERFACES, shop.namespace, name, [{"op": "remove", "path": f"/metadata/finalizers/{index}"}]
    )
