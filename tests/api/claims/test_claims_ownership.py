"""Who writes what: NSO never overwrites or clears what a data plane owns (R21, R22, T20)."""

from typing import Any

from netclaim.api import conditions, networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from tests.api.claims.shop import Shop, Writer, said
from tests.waiting import until

PUBLIC = [{"class": "public-unicast-ipv4"}]
CONTROLLER = "vpc-controller"
PROGRAMMER = "vpc-controller-programmed"

OWNERS = {
    "NetworkInterfaceClaim": {
        "nso": {"project", "networkInterfaceRef", "addresses", "externalAddresses", "Bound", "Allocated", "Ready"},
        "nso-seed": {"Programmed"},
        CONTROLLER: {"Prepared"},
        PROGRAMMER: {"Programmed"},
    },
    "NetworkInterface": {
        "nso": {"phase", "networkContextRef", "Allocated"},
        "nso-seed": {"Programmed", "ExternalProgrammed"},
        CONTROLLER: {"vpc", "attachmentRef", "Prepared"},
        PROGRAMMER: {"Programmed"},
    },
}
"""The rows of spec/api.md's table for these two kinds."""


async def data_plane_reports(cell: Client, shop: Shop) -> None:
    """A data plane realizes the interface and says so on interface and claim."""
    controller, programmer = Writer(cell, shop, CONTROLLER), Writer(cell, shop, PROGRAMMER)
    prepared = said("Prepared", "True", "Attached")
    await controller.tell(
        resources.INTERFACES, "web-0-eth0", vpc="1A", attachmentRef={"name": "web-0-eth0"}, conditions=[prepared]
    )
    await controller.tell(resources.CLAIMS, "web-0-eth0", conditions=[prepared])
    for resource in (resources.INTERFACES, resources.CLAIMS):
        await programmer.tell(resource, "web-0-eth0", conditions=[said("Programmed", "True", "Programmed")])


async def reported(shop: Shop) -> dict[str, Any]:
    """What the data plane has said, as it is stored now."""
    interface = await shop.interface()
    assert interface is not None
    found: dict[str, Any] = {
        "vpc": interface["status"].get("vpc"),
        "attachmentRef": interface["status"].get("attachmentRef"),
        "interface Programmed": conditions.condition(interface, "Programmed"),
        "interface Prepared": conditions.condition(interface, "Prepared"),
    }
    claim = await shop.get(resources.CLAIMS, "web-0-eth0")
    if claim is not None:
        found["claim Programmed"] = conditions.condition(claim, "Programmed")
        found["claim Prepared"] = conditions.condition(claim, "Prepared")
    return found


def owners_of(raw: Raw) -> dict[str, set[str]]:
    """For each manager the fields and conditions of the status that it owns."""
    found: dict[str, set[str]] = {}
    for entry in raw["metadata"]["managedFields"]:
        if entry.get("subresource") != "status":
            continue
        status = entry["fieldsV1"].get("f:status", {})
        names = {name[2:] for name in status if name not in ("f:conditions", ".")}
        for key in status.get("f:conditions", {}):
            if key.startswith("k:"):
                names.add(key.split('"')[3])
        found.setdefault(entry["manager"], set()).update(names)
    return found


async def test_a_requeue_leaves_the_data_planes_report_alone(shop: Shop, cell: Client, nso: Any) -> None:
    """R21: through wake-ups of every kind and a restart."""
    await shop.network()
    await shop.claim(addresses=PUBLIC)
    await shop.allocated()
    await data_plane_reports(cell, shop)
    await shop.refused("Ready")
    before = await reported(shop)
    for resource in (resources.CLAIMS, resources.INTERFACES, resources.NETWORKS):
        name = "default" if resource is resources.NETWORKS else "web-0-eth0"
        note = {"op": "add", "path": "/metadata/labels", "value": {"touched": "yes"}}
        await cell.json_patch(resource, shop.namespace, name, [note])
    nso.kill()
    await nso.again()

    async def looked_again() -> bool:
        assert nso.log().count("claims: first pass done") >= 2
        return True

    await until(looked_again, timeout=90, what="a pass over all claims")
    assert await reported(shop) == before
    assert conditions.is_true(await shop.refused("Ready"), networking.READY)


async def test_a_rejection_demotes_ready_alone(shop: Shop, cell: Client) -> None:
    """R21, R22: the interface is deleted under the claim while the data plane holds it."""
    await shop.network()
    await shop.claim()
    await shop.allocated()
    await data_plane_reports(cell, shop)
    await shop.refused("Ready")
    before = await reported(shop)
    hold = {"op": "add", "path": "/metadata/finalizers/-", "value": "cloud.datumapis.com/attached"}
    await cell.json_patch(resources.INTERFACES, shop.namespace, "web-0-eth0", [hold])
    await shop.delete_interface()
    claim = await shop.refused("InterfaceBeingReleased")
    assert await reported(shop) == before
    assert conditions.is_true(claim, networking.BOUND)
    assert conditions.is_true(claim, networking.ALLOCATED)
    release = [{"op": "remove", "path": "/metadata/finalizers/1"}]
    await cell.json_patch(resources.INTERFACES, shop.namespace, "web-0-eth0", release)


async def test_a_release_and_rebind_under_retain_leaves_the_report_on_the_interface(shop: Shop, cell: Client) -> None:
    """R21, mission/3: a stale Programmed is the data plane's to correct; the new claim starts with Unknown."""
    await shop.network()
    await shop.claim(reclaimPolicy="Retain")
    await shop.allocated()
    await data_plane_reports(cell, shop)
    await shop.refused("Ready")
    before = {name: value for name, value in (await reported(shop)).items() if not name.startswith("claim")}
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")

    async def available() -> bool:
        raw = await shop.interface()
        assert raw is not None
        assert raw["status"]["phase"] == "Available", raw["status"]
        return True

    await until(available, what="the interface available")
    assert await reported(shop) == before
    await shop.claim(reclaimPolicy="Retain")
    await shop.allocated()

    async def seeded() -> dict[str, Any]:
        found = await reported(shop)
        assert found["claim Programmed"], "nobody has seeded Programmed on the new claim"
        return found

    after = await until(seeded, what="the new claim is past its first moments")
    assert {name: after[name] for name in before} == before
    assert after["claim Programmed"]["status"] == "Unknown"
    assert after["claim Prepared"] is None


async def test_an_owner_that_is_faster_than_the_seed_wins(shop: Shop, cell: Client) -> None:
    """R21: the seed is applied without force; a 409 is success."""
    await shop.network()
    await shop.claim(addresses=[{"class": "nowhere"}])
    await shop.refused("AddressClassNotFound")
    programmer = Writer(cell, shop, PROGRAMMER)
    await programmer.tell(resources.CLAIMS, "web-0-eth0", conditions=[said("Programmed", "False", "Detached")])
    note = {"op": "add", "path": "/metadata/labels", "value": {"touched": "yes"}}
    await cell.json_patch(resources.CLAIMS, shop.namespace, "web-0-eth0", [note])
    await shop.refused("AddressClassNotFound")
    claim = await shop.get(resources.CLAIMS, "web-0-eth0")
    assert claim is not None
    assert conditions.reason_of(claim, "Programmed") == "Detached"


async def test_after_a_full_life_no_field_has_an_owner_outside_the_table(shop: Shop, cell: Client) -> None:
    """T20, api.md: who writes what."""
    await shop.network()
    await shop.claim(reclaimPolicy="Retain", addresses=PUBLIC)
    await shop.allocated()
    await data_plane_reports(cell, shop)
    await shop.refused("Ready")
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await shop.claim(reclaimPolicy="Retain", addresses=PUBLIC)
    await shop.allocated()
    await data_plane_reports(cell, shop)
    claim = await shop.refused("Ready")
    interface = await shop.interface()
    assert interface is not None
    for raw, kind in ((claim, "NetworkInterfaceClaim"), (interface, "NetworkInterface")):
        found = owners_of(raw)
        assert found.keys() <= OWNERS[kind].keys(), found
        for manager, names in found.items():
            assert names <= OWNERS[kind][manager], (kind, manager, names)
    finalizer_owners = {
        entry["manager"]
        for entry in interface["metadata"]["managedFields"]
        if "f:finalizers" in entry["fieldsV1"].get("f:metadata", {})
    }
    assert finalizer_owners == {"nso"}
