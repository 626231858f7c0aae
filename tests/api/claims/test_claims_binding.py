"""From a claim to its interface, at two real API servers, with the real IPAM."""

import asyncio
from typing import Any

import pytest

from netclaim.api import conditions, networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from tests.api.claims.shop import Shop, Writer, all_addresses, said
from tests.waiting import until

PUBLIC = "public-unicast-ipv4"


async def test_a_claim_gets_an_address_of_each_family_and_class_that_ipam_holds(shop: Shop) -> None:
    """R2, R3, R6, R13: dual stack with an external address; every one is an allocation."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv6", "IPv4"], addresses=[{"class": PUBLIC}])
    claim = await shop.allocated()
    status = claim["status"]
    assert [(entry["family"], entry["primary"]) for entry in status["addresses"]] == [("IPv6", True), ("IPv4", False)]
    assert status["addresses"][0]["address"].endswith("/96")
    assert status["addresses"][1]["address"].endswith("/32")
    assert "/" not in status["externalAddresses"][0]["address"]
    assert status["externalAddresses"][0]["class"] == PUBLIC
    assert status["project"] == shop.project
    await shop.held_by_ipam(claim)
    interface = await shop.interface()
    assert interface is not None
    spec = interface["spec"]
    assert [entry["address"] for entry in spec["addresses"]] == [entry["address"] for entry in status["addresses"]]
    gateways = {entry["family"]: entry["gateway"] for entry in spec["addresses"]}
    for family in ("IPv6", "IPv4"):
        subnet = await shop.get(resources.SUBNETS, f"default-us-central-1-{family.lower()}")
        assert subnet is not None
        assert gateways[family] == subnet["status"]["gateway"]
    assert (spec["mtu"], spec["interfaceName"], spec["network"]) == (1460, "eth0", {"name": "default"})


async def test_the_primary_family_is_the_one_that_the_claim_names_first(shop: Shop) -> None:
    """R3."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4", "IPv6"])
    claim = await shop.allocated()
    assert [entry["family"] for entry in claim["status"]["addresses"]] == ["IPv4", "IPv6"]
    assert [entry["primary"] for entry in claim["status"]["addresses"]] == [True, False]


async def test_a_claim_without_families_takes_the_networks(shop: Shop) -> None:
    """Api.md: omitted = the network's families in the network's order."""
    await shop.network(families=("IPv4",))
    await shop.claim()
    claim = await shop.allocated()
    assert [entry["family"] for entry in claim["status"]["addresses"]] == ["IPv4"]


async def test_every_claim_has_an_interface_and_addresses_of_its_own(shop: Shop) -> None:
    """R11."""
    await shop.network()
    names = [f"web-{number}-eth0" for number in range(12)]
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(shop.claim(name, addresses=[{"class": PUBLIC}]))
    claims = [await shop.allocated(name) for name in names]
    given = [address for claim in claims for address in all_addresses(claim)]
    assert len(given) == len(set(given)) == 36
    for claim in claims:
        await shop.held_by_ipam(claim)


async def test_two_projects_get_separate_space_through_the_same_class_names(shop: Shop, other_shop: Shop) -> None:
    """R14: same names everywhere, and each address comes from its own project's pools."""
    for each in (shop, other_shop):
        await each.network()
        await each.claim(addresses=[{"class": PUBLIC}])
    one, other = await shop.allocated(), await other_shop.allocated()
    await shop.held_by_ipam(one)
    await other_shop.held_by_ipam(other)
    assert not set(all_addresses(one)) & set(all_addresses(other))
    assert all_addresses(one)[0].startswith("fd20:1")
    assert all_addresses(other)[0].startswith("fd20:2")


async def test_two_networks_of_a_project_may_hold_the_same_ipv4_addresses(shop: Shop) -> None:
    """Ipam.md: uniqueWithin [network] separates address spaces."""
    await shop.network()
    await shop.network("other")
    await shop.claim("a", ipFamilies=["IPv4"])
    await shop.claim("b", ipFamilies=["IPv4"], network="other")
    one, other = await shop.allocated("a"), await shop.allocated("b")
    assert all_addresses(one) == all_addresses(other)


async def test_ready_follows_the_other_writers_conditions(shop: Shop, cell: Client) -> None:
    """R5: allocated is not programmed; a data plane without Prepared is enough, one that refuses it is not."""
    await shop.network()
    await shop.claim()
    claim = await shop.allocated()
    assert conditions.reason_of(claim, networking.READY) == "NotProgrammed"
    await shop.seeded()
    programmed = Writer(cell, shop, "vpc-controller-programmed")
    await programmed.tell(resources.CLAIMS, "web-0-eth0", conditions=[said("Programmed", "True", "Programmed")])
    ready = await shop.refused("Ready")
    assert conditions.is_true(ready, networking.READY)
    prepared = Writer(cell, shop, "vpc-controller")
    await prepared.tell(resources.CLAIMS, "web-0-eth0", conditions=[said("Prepared", "False", "AwaitingVPC")])
    assert "AwaitingVPC" in conditions.message_of(await shop.refused("NotPrepared"), networking.READY)


async def test_a_lost_allocation_is_told_with_a_warning_and_the_address_stays(shop: Shop, ipam: Client) -> None:
    """Claims.md step 6, R22: Allocated falls, the address is never renumbered, and Bound stays."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    before = await shop.allocated()
    (ip_claim,) = await shop.ip_claims()
    await ipam.delete(resources.IP_CLAIMS, shop.project, ip_claim["metadata"]["name"])
    claim = await shop.refused("AddressAllocationMissing")
    assert conditions.reason_of(claim, networking.ALLOCATED) == "AddressAllocationMissing"
    assert conditions.is_true(claim, networking.BOUND)
    assert all_addresses(claim) == all_addresses(before)

    async def warned() -> bool:
        events = await shop.cell.list(resources.EVENTS, shop.namespace)
        told = [event for event in events if event["reason"] == "AddressAllocationMissing"]
        assert {event["regarding"]["kind"] for event in told} == {"NetworkInterfaceClaim", "NetworkInterface"}
        assert len(told) == 2
        return True

    await until(warned, what="a warning event on claim and interface")
    interface = await shop.interface()
    assert interface is not None
    assert conditions.status_of(interface, networking.ALLOCATED) == "False"
    # The checker says so too, and would say so at the end of the test: the claim is what there is to replace.
    await shop.delete_claim()
    await shop.gone(resources.INTERFACES, "web-0-eth0")


async def test_nso_writes_nothing_when_all_is_as_it_should_be(shop: Shop, nso: Any) -> None:
    """T21, T32: a restart writes nothing."""
    await shop.network()
    await shop.claim(addresses=[{"class": PUBLIC}])
    await shop.allocated()
    await shop.network_ready()
    await shop.seeded()

    async def at_rest() -> bool:
        seen = await _versions(shop)
        await asyncio.sleep(2)  # not a wait for anything: nothing may change in it
        return seen == await _versions(shop)

    # The seeds of a new claim and its interface come when its first moments are over.
    await until(at_rest, timeout=60, what="nothing moves any more")
    before = await _versions(shop)
    nso.kill()
    await nso.again()

    async def first_pass_done() -> bool:
        log = nso.log()
        return log.count("claims: first pass done") >= 2 and log.count("interfaces: first pass done") >= 2

    await until(first_pass_done, timeout=90, what="the first pass after the restart")
    assert await _versions(shop) == before


async def _versions(shop: Shop) -> dict[str, str]:
    found: dict[str, str] = {}
    for resource in (
        resources.NETWORKS,
        resources.NETWORK_CONTEXTS,
        resources.SUBNETS,
        resources.CLAIMS,
        resources.INTERFACES,
    ):
        for raw in await shop.cell.list(resource, shop.namespace):
            found[f"{resource.kind} {raw['metadata']['name']}"] = raw["metadata"]["resourceVersion"]
    for raw in await shop.ipam.list(resources.IP_CLAIMS, shop.project):
        found[f"IPClaim {raw['metadata']['name']}"] = raw["metadata"]["resourceVersion"]
    return found


@pytest.mark.parametrize("families", [("IPv6",), ("IPv4",)])
async def test_a_network_of_one_family_serves_claims_of_that_family(shop: Shop, families: tuple[str, ...]) -> None:
    """T13."""
    await shop.network(families=families)
    await shop.claim()
    claim: Raw = await shop.allocated()
    await shop.held_by_ipam(claim)
