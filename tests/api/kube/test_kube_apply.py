"""Server-side apply, patches and deletions on a real API server: the facts that spec and code rely on."""

import pytest

from netclaim.api.resources import CLAIMS, CONFIG_MAPS, INTERFACES
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import ApiError, Conflict, Invalid, NotFound
from netclaim.kube.objects import uid_of
from tests.api.kube.objects import claim, condition, condition_values, config_map, status
from tests.waiting import until

# -- server-side apply (spec/api.md, "Facts") --------------------------------------------------------------------------


async def test_a_seed_without_force_yields_to_the_owner_of_the_entry(cell: Client, shop: str) -> None:
    """R21, T20: 409 once another manager owns that list entry."""
    await cell.create(CLAIMS, claim(shop))
    seed = status(shop, condition("Programmed", "Unknown"))
    await cell.apply_status(CLAIMS, seed, manager="nso-seed", force=False)
    owned = status(shop, condition("Programmed", "True"))
    await cell.apply_status(CLAIMS, owned, manager="vpc-controller-programmed")
    with pytest.raises(Conflict):
        await cell.apply_status(CLAIMS, seed, manager="nso-seed", force=False)
    assert condition_values(await cell.get(CLAIMS, shop, "web-0-eth0")) == {"Programmed": "True"}


async def test_an_apply_leaves_the_entries_of_others_and_removes_its_own_that_it_omits(cell: Client, shop: str) -> None:
    """R21, T20."""
    await cell.create(CLAIMS, claim(shop))
    await cell.apply_status(CLAIMS, status(shop, condition("Programmed", "True")), manager="data-plane")
    both = status(shop, condition("Bound", "True"), condition("Allocated", "True"), project="alpha")
    await cell.apply_status(CLAIMS, both, manager="nso")
    found = await cell.apply_status(CLAIMS, status(shop, condition("Bound", "False")), manager="nso")
    assert condition_values(found) == {"Programmed": "True", "Bound": "False"}
    assert "project" not in found["status"]


async def test_a_status_apply_never_creates(cell: Client, shop: str) -> None:
    """T06."""
    with pytest.raises(NotFound):
        await cell.apply_status(CLAIMS, status(shop, condition("Bound", "True")), manager="nso")


async def test_a_status_apply_checks_the_version_but_not_the_uid(cell: Client, shop: str) -> None:
    """T06: who must not write onto a namesake sends the resourceVersion."""
    created = await cell.create(CLAIMS, claim(shop))
    version = created["metadata"]["resourceVersion"]
    foreign = status(shop, condition("Bound", "True"))
    foreign["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    await cell.apply_status(CLAIMS, foreign, manager="nso")
    with pytest.raises(Conflict):
        await cell.apply_status(CLAIMS, status(shop, condition("Bound", "False"), version=version), manager="nso")


async def test_an_apply_with_another_uid_is_refused_and_one_without_can_bring_back_the_dead(
    cell: Client, shop: str
) -> None:
    """T06: always send the uid."""
    created = await cell.create(CONFIG_MAPS, config_map(shop, "a"))
    await cell.delete(CONFIG_MAPS, shop, "a")
    ghost = config_map(shop, "a", colour="red")
    ghost["metadata"]["uid"] = uid_of(created)
    with pytest.raises((Conflict, Invalid, NotFound)):
        await cell.apply(CONFIG_MAPS, ghost, manager="test")
    del ghost["metadata"]["uid"]
    assert uid_of(await cell.apply(CONFIG_MAPS, ghost, manager="test")) != uid_of(created)
    ghost["metadata"]["uid"] = uid_of(created)
    with pytest.raises((Conflict, Invalid)):
        await cell.apply(CONFIG_MAPS, ghost, manager="test")


async def test_an_apply_that_omits_finalizers_its_manager_set_removes_them(cell: Client, shop: str) -> None:
    """T20: whoever creates with a finalizer sends it in every apply."""
    held = config_map(shop, "a")
    held["metadata"]["finalizers"] = ["tests.netclaim/held"]
    await cell.apply(CONFIG_MAPS, held, manager="test")
    found = await cell.apply(CONFIG_MAPS, config_map(shop, "a"), manager="test")
    assert "finalizers" not in found["metadata"]


async def test_a_field_that_the_server_does_not_know_is_an_error(cell: Client, shop: str) -> None:
    """T30: nothing is pruned in silence while the write reports success."""
    painted = claim(shop)
    painted["spec"]["colour"] = "red"
    with pytest.raises(ApiError, match="colour") as caught:
        await cell.create(CLAIMS, painted)
    assert caught.value.status == 400


# -- finalizers, patches, deletions ------------------------------------------------------------------------------------


async def test_a_finalizer_for_an_object_that_is_going_reads_as_going(cell: Client, shop: str) -> None:
    """T07: 422 of the server; the stale object that we hold does not know yet."""
    cluster = Cluster(cell)
    created = await cell.create(CONFIG_MAPS, config_map(shop, "a"))
    held = await cluster.add_finalizer(CONFIG_MAPS, created, "tests.netclaim/one")
    assert held is not None
    await cell.delete(CONFIG_MAPS, shop, "a")
    going = await cell.get(CONFIG_MAPS, shop, "a")
    blind = {**going, "metadata": {k: v for k, v in going["metadata"].items() if k != "deletionTimestamp"}}
    assert await cluster.add_finalizer(CONFIG_MAPS, blind, "tests.netclaim/two") is None
    await cluster.drop_finalizer(CONFIG_MAPS, held, "tests.netclaim/one")
    with pytest.raises(NotFound):
        await cell.get(CONFIG_MAPS, shop, "a")


async def test_a_patch_over_an_older_version_is_a_conflict(cell: Client, shop: str) -> None:
    """T20: the server says 422; to us it is what a Conflict is."""
    cluster = Cluster(cell)
    created = await cell.create(CONFIG_MAPS, config_map(shop, "a"))
    held = await cluster.add_finalizer(CONFIG_MAPS, created, "tests.netclaim/one")
    assert held is not None
    await cell.apply(CONFIG_MAPS, config_map(shop, "a", colour="red"), manager="test")
    with pytest.raises(Conflict):
        await cluster.drop_finalizer(CONFIG_MAPS, held, "tests.netclaim/one", exact=True)
    await cluster.drop_finalizer(CONFIG_MAPS, held, "tests.netclaim/one")


async def test_a_patch_that_breaks_a_rule_is_invalid_and_not_a_conflict(cell: Client, shop: str) -> None:
    """T30: a broken rule is never tried again as if somebody had been faster."""
    created = await cell.create(CLAIMS, claim(shop))
    version = created["metadata"]["resourceVersion"]
    ops = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/spec/network/name", "value": "other"},
    ]
    with pytest.raises(Invalid, match="a claim never changes"):
        await cell.json_patch(CLAIMS, shop, "web-0-eth0", ops)


async def test_deletion_takes_the_uid_and_the_version_as_conditions(cell: Client, shop: str) -> None:
    """T06."""
    created = await cell.create(CONFIG_MAPS, config_map(shop, "a"))
    with pytest.raises(Conflict):
        await cell.delete(CONFIG_MAPS, shop, "a", uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(Conflict):
        await cell.delete(CONFIG_MAPS, shop, "a", resource_version="1")
    await cell.delete(CONFIG_MAPS, shop, "a", uid=uid_of(created))
    cluster = Cluster(cell)
    assert not await cluster.delete_if_present(CONFIG_MAPS, created)


async def test_foreground_deletion_removes_what_is_owned_although_the_owner_is_held(cell: Client, shop: str) -> None:
    """T07: an owner's finalizer protects no child."""
    cluster = Cluster(cell)
    owner = await cluster.add_finalizer(
        CONFIG_MAPS, await cell.create(CONFIG_MAPS, config_map(shop, "owner")), "tests.netclaim/held"
    )
    assert owner is not None
    child = config_map(shop, "child")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid_of(owner)}
    child["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
    await cell.create(CONFIG_MAPS, child)
    await cell.delete(CONFIG_MAPS, shop, "owner", propagation="Foreground")

    async def child_gone() -> bool:
        return "child" not in {raw["metadata"]["name"] for raw in await cell.list(CONFIG_MAPS, shop)}

    await until(child_gone, timeout=20, what="the child removed")
    going = await cell.get(CONFIG_MAPS, shop, "owner")
    assert going["metadata"]["deletionTimestamp"]
    await cluster.drop_finalizer(CONFIG_MAPS, going, "tests.netclaim/held")


async def test_status_columns_of_an_interface_are_not_touched_by_a_main_apply(cell: Client, shop: str) -> None:
    """R21: the main resource and the status have writers of their own."""
    interface = {
        "metadata": {"namespace": shop, "name": "web-0-eth0"},
        "spec": {
            "network": {"name": "default"},
            "interfaceName": "eth0",
            "mtu": 1400,
            "reclaimPolicy": "Delete",
            "addresses": [{"family": "IPv4", "address": "10.0.0.1/32", "gateway": "10.0.0.0", "primary": True}],
        },
    }
    await cell.apply(INTERFACES, interface, manager="nso")
    await cell.apply_status(INTERFACES, status(shop, phase="Bound"), manager="nso")
    found = await cell.apply(INTERFACES, interface, manager="nso")
    assert found["status"]["phase"] == "Bound"
