"""A claim that cannot be satisfied says why, and binds by itself once the cause is gone (R12)."""

import asyncio
from typing import Any

import pytest

from netclaim.api import conditions, networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from tests.api.claims.shop import Shop, all_addresses
from tests.waiting import until

PUBLIC = "public-unicast-ipv4"
LABEL = "/metadata/labels/" + networking.PROJECT_LABEL.replace("/", "~1")


def message(raw: Raw) -> str:
    return conditions.message_of(raw, networking.READY)


async def relabel(shop: Shop, project: str | None) -> None:
    operation: Raw = (
        {"op": "remove", "path": LABEL} if project is None else {"op": "add", "path": LABEL, "value": project}
    )
    await shop.cell.json_patch(resources.NAMESPACES, None, shop.namespace, [operation])


async def test_a_namespace_that_names_no_project_is_told_and_labelling_it_binds_the_claim(shop: Shop) -> None:
    """R12: ProjectUnresolved names the label and the namespace; nothing is asked for under a default project."""
    await relabel(shop, None)
    await shop.network()
    await shop.claim()
    claim = await shop.refused("ProjectUnresolved")
    assert networking.PROJECT_LABEL in message(claim)
    assert shop.namespace in message(claim)
    for kind in (networking.BOUND, networking.ALLOCATED):
        assert conditions.reason_of(claim, kind) == "ProjectUnresolved"
    assert "project" not in claim["status"]
    await relabel(shop, shop.project)
    claim = await shop.allocated()
    assert "label" not in message(claim)


async def test_a_project_that_ipam_does_not_have_is_told_and_creating_it_binds_the_claim(
    shop: Shop, ipam: Client
) -> None:
    """R12: ProjectNotFound."""
    from tests.conftest import create_project

    later = f"{shop.project}-later"
    await relabel(shop, later)
    await shop.network()
    await shop.claim()
    assert later in message(await shop.refused("ProjectNotFound"))
    await create_project(ipam, later)
    shop.project = later
    await shop.held_by_ipam(await shop.allocated())


async def test_a_network_that_does_not_exist_is_told_and_creating_it_binds_the_claim(shop: Shop) -> None:
    """R12: NetworkNotFound."""
    await shop.claim(network="backend")
    assert "backend" in message(await shop.refused("NetworkNotFound"))
    await shop.network("backend")
    await shop.allocated()


async def test_a_network_that_does_not_reach_this_location_is_told_until_it_does(shop: Shop) -> None:
    """R12: NetworkNotAvailableInLocation names network and location."""
    await shop.network(locations=["eu-west-1"])
    await shop.claim()
    told = message(await shop.refused("NetworkNotAvailableInLocation"))
    assert "default" in told
    assert "us-central-1" in told
    await shop.cell.json_patch(
        resources.NETWORKS,
        shop.namespace,
        "default",
        [{"op": "add", "path": "/spec/locations/-", "value": "us-central-1"}],
    )
    await shop.allocated()


async def test_a_family_that_the_network_does_not_carry_is_told_until_it_does(shop: Shop) -> None:
    """R12: AddressFamilyNotCarried names the family and what the network carries."""
    await shop.network(families=("IPv6",))
    await shop.claim(ipFamilies=["IPv4"])
    told = message(await shop.refused("AddressFamilyNotCarried"))
    assert "IPv4" in told
    assert "IPv6" in told
    await shop.cell.json_patch(
        resources.NETWORKS,
        shop.namespace,
        "default",
        [{"op": "add", "path": "/spec/ipFamilies/-", "value": "IPv4"}],
    )
    await shop.allocated()


async def test_an_exhausted_pool_is_named_and_a_release_serves_the_waiter_within_a_second(
    shop: Shop, ipam: Client
) -> None:
    """R12, T24: pool, class, used/total; the claim that waits is served when another gives back."""
    pool = {"cidr": "192.0.2.0/31", "classNames": ["few"]}
    await ipam.create(
        resources.IP_CLASSES,
        {"metadata": {"name": "few", "namespace": shop.project}, "spec": {"ipFamily": "IPv4", "prefixLength": 32}},
    )
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "few-pool", "namespace": shop.project}, "spec": pool})
    await shop.network(families=("IPv6",))
    for name in ("a", "b"):
        await shop.claim(name, addresses=[{"class": "few"}])
        await shop.allocated(name)
    await shop.claim("c", addresses=[{"class": "few"}])
    told = message(await shop.refused("AddressPoolExhausted", "c"))
    assert "few-pool" in told
    assert "class few" in told
    assert "2" in told
    assert await shop.interface("c") is None
    await shop.delete_claim("a")
    await shop.gone(resources.CLAIMS, "a")
    claim = await shop.allocated("c")
    await shop.held_by_ipam(claim)
    assert "exhausted" not in str(claim["status"]).lower()


async def test_a_pool_that_grows_serves_the_waiter(shop: Shop, ipam: Client) -> None:
    """R12, T30."""
    await ipam.create(
        resources.IP_CLASSES,
        {"metadata": {"name": "few", "namespace": shop.project}, "spec": {"ipFamily": "IPv4", "prefixLength": 32}},
    )
    pool = {
        "metadata": {"name": "few-pool", "namespace": shop.project},
        "spec": {"cidr": "192.0.2.0/32", "classNames": ["few"]},
    }
    await ipam.create(resources.IP_POOLS, pool)
    await shop.network(families=("IPv6",))
    await shop.claim("a", addresses=[{"class": "few"}])
    await shop.allocated("a")
    await shop.claim("b", addresses=[{"class": "few"}])
    await shop.refused("AddressPoolExhausted", "b")
    grown = [{"op": "replace", "path": "/spec/cidr", "value": "192.0.2.0/30"}]
    await ipam.json_patch(resources.IP_POOLS, shop.project, "few-pool", grown)
    await shop.allocated("b")


async def test_a_class_that_the_project_does_not_have_is_told_and_creating_it_binds_the_claim(
    shop: Shop, ipam: Client
) -> None:
    """R12: AddressClassNotFound names class and project."""
    await shop.network(families=("IPv6",))
    await shop.claim(addresses=[{"class": "dedicated"}])
    told = message(await shop.refused("AddressClassNotFound"))
    assert "dedicated" in told
    assert shop.project in told
    await ipam.create(
        resources.IP_CLASSES,
        {
            "metadata": {"name": "dedicated", "namespace": shop.project},
            "spec": {"ipFamily": "IPv4", "prefixLength": 32},
        },
    )
    await shop.refused("AddressAllocationRejected")
    pool = {"cidr": "192.0.2.0/29", "classNames": ["dedicated"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "d", "namespace": shop.project}, "spec": pool})
    await shop.allocated()


async def test_a_family_without_a_default_class_is_told_until_there_is_one(shop: Shop, ipam: Client) -> None:
    """R12: NoDefaultAddressClass."""
    mark = "/metadata/annotations/ipam.datumapis.com~1is-default-class"
    await ipam.json_patch(
        resources.IP_CLASSES, shop.project, "endpoint-ipv4", [{"op": "replace", "path": mark, "value": "false"}]
    )
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    told = message(await shop.refused("NoDefaultAddressClass"))
    assert "IPv4" in told
    await ipam.json_patch(
        resources.IP_CLASSES, shop.project, "endpoint-ipv4", [{"op": "replace", "path": mark, "value": "true"}]
    )
    await shop.allocated()


async def test_a_quota_of_the_project_is_named_and_raising_it_binds_the_claim(shop: Shop, ipam: Client) -> None:
    """R12: QuotaExceeded names the quota, used and limit. Nothing is guessed from a bare 403."""
    await shop.network(families=("IPv6",))
    await shop.network_ready()
    used = len(await ipam.list(resources.IP_CLAIMS, shop.project))
    counted = "count/ipclaims.ipam.datumapis.com"
    quota = {"metadata": {"name": "few", "namespace": shop.project}, "spec": {"hard": {counted: str(used)}}}
    await ipam.create(resources.RESOURCE_QUOTAS, quota)

    async def counted_once() -> bool:
        raw = await ipam.get(resources.RESOURCE_QUOTAS, shop.project, "few")
        assert (raw.get("status") or {}).get("used", {}).get(counted) == str(used), raw.get("status")
        return True

    await until(counted_once, timeout=30, what="the quota counted")
    await shop.claim()
    told = message(await shop.refused("QuotaExceeded"))
    assert "few" in told
    assert f"limited: {counted}={used}" in told
    raised = [{"op": "replace", "path": f"/spec/hard/{counted.replace('/', '~1')}", "value": str(used + 5)}]
    await ipam.json_patch(resources.RESOURCE_QUOTAS, shop.project, "few", raised)
    await shop.allocated(timeout=30)


async def test_an_ip_claim_of_somebody_else_is_named_and_its_removal_binds_the_claim(shop: Shop, ipam: Client) -> None:
    """R15: AddressClaimConflict; the other's IPClaim is left alone."""
    await shop.network()
    await shop.claim(ipFamilies=["IPv4"])
    await shop.allocated()
    (own,) = await shop.ip_claims()
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.nothing_allocated()
    spec = own["spec"] | {
        "ownerRef": {**own["spec"]["ownerRef"], "name": "db-0", "uid": "somebody", "kind": "Database"}
    }
    foreign = {
        "metadata": {
            "name": own["metadata"]["name"],
            "namespace": shop.project,
            "labels": own["metadata"]["labels"],
        },
        "spec": spec,
    }
    await ipam.create(resources.IP_CLAIMS, foreign)
    await shop.claim(ipFamilies=["IPv4"])
    assert "Database" in message(await shop.refused("AddressClaimConflict"))
    await ipam.delete(resources.IP_CLAIMS, shop.project, own["metadata"]["name"])
    await shop.allocated()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"network": "other"}, "NetworkMismatch"),
        ({"interfaceName": "net1"}, "InterfaceNameMismatch"),
        ({"ipFamilies": ["IPv4"]}, "AddressFamilyMissing"),
        ({"addresses": [{"class": PUBLIC}]}, "AddressClassMissing"),
        ({"reclaimPolicy": "Delete"}, "ReclaimPolicyMismatch"),
    ],
)
async def test_a_kept_interface_that_is_not_what_the_claim_wants_is_refused_and_untouched(
    shop: Shop, change: dict[str, Any], reason: str
) -> None:
    """R12: adoption refused by name; giving the interface back serves the claim."""
    await shop.network()
    await shop.network("other")
    await shop.claim(reclaimPolicy="Retain")
    first = await shop.allocated()
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    before = await shop.interface()
    await shop.claim(**{"reclaimPolicy": "Retain", **change})
    await shop.refused(reason)
    after = await shop.interface()
    assert before is not None
    assert after is not None
    assert after["spec"] == before["spec"]
    assert len(await shop.ip_claims()) == len(all_addresses(first))
    await shop.delete_interface()
    await shop.allocated()


async def test_one_claim_that_cannot_be_served_holds_up_no_other(shop: Shop) -> None:
    """T24: no head-of-line block."""
    await shop.network()
    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(shop.claim(f"bad-{number}", addresses=[{"class": "nowhere"}]))
            group.create_task(shop.claim(f"good-{number}", addresses=[{"class": PUBLIC}]))
    for number in range(6):
        await shop.allocated(f"good-{number}", timeout=30)
        await shop.refused("AddressClassNotFound", f"bad-{number}", timeout=30)
