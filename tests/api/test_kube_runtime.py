"""The runtime against a real API server: what spec and code rely on is what the server does."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml
from yarl import URL

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import CLAIMS, CONFIG_MAPS, EVENTS, INTERFACES, LEASES, NAMESPACES
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster, run_reflectors
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.errors import AlreadyExists, ApiError, Conflict, Gone, Invalid, NotFound
from netclaim.kube.events import EventRecorder
from netclaim.kube.leader import Elector, Timings
from netclaim.kube.objects import uid_of
from tests.control_plane import ControlPlane
from tests.faults.proxy import FaultProxy
from tests.waiting import until

FAST = Timings(lease=2.0, deadline=1.2, retry=0.2)
STATUS = "status"


@pytest.fixture
async def shop(cell: Client) -> AsyncIterator[str]:
    """A namespace of its own, without a project: no controller does anything there."""
    name = f"runtime-{secrets.token_hex(3)}"
    await cell.create(NAMESPACES, {"metadata": {"name": name}})
    yield name
    await cell.delete(NAMESPACES, None, name)


def _config_map(namespace: str, name: str, **values: str) -> Raw:
    return {"metadata": {"namespace": namespace, "name": name}, "data": values}


def _claim(namespace: str, name: str = "web-0-eth0") -> Raw:
    return {"metadata": {"namespace": namespace, "name": name}, "spec": {"network": {"name": "default"}}}


def _status(namespace: str, *conditions: Raw, name: str = "web-0-eth0", version: str = "", **fields: Any) -> Raw:
    metadata = {"namespace": namespace, "name": name, **({"resourceVersion": version} if version else {})}
    return {"metadata": metadata, "status": {**fields, "conditions": list(conditions)}}


def _condition(kind: str, status: str, reason: str = "Because") -> Raw:
    return {"type": kind, "status": status, "reason": reason}


def _conditions(raw: Raw) -> dict[str, str]:
    return {each["type"]: each["status"] for each in raw["status"]["conditions"]}


# -- server-side apply (spec/api.md, "Facts") --------------------------------------------------------------------------


async def test_a_seed_without_force_yields_to_the_owner_of_the_entry(cell: Client, shop: str) -> None:
    """R21, T20: 409 once another manager owns that list entry."""
    await cell.create(CLAIMS, _claim(shop))
    seed = _status(shop, _condition("Programmed", "Unknown"))
    await cell.apply_status(CLAIMS, seed, manager="nso-seed", force=False)
    owned = _status(shop, _condition("Programmed", "True"))
    await cell.apply_status(CLAIMS, owned, manager="vpc-controller-programmed")
    with pytest.raises(Conflict):
        await cell.apply_status(CLAIMS, seed, manager="nso-seed", force=False)
    assert _conditions(await cell.get(CLAIMS, shop, "web-0-eth0")) == {"Programmed": "True"}


async def test_an_apply_leaves_the_entries_of_others_and_removes_its_own_that_it_omits(cell: Client, shop: str) -> None:
    """R21, T20."""
    await cell.create(CLAIMS, _claim(shop))
    await cell.apply_status(CLAIMS, _status(shop, _condition("Programmed", "True")), manager="data-plane")
    both = _status(shop, _condition("Bound", "True"), _condition("Allocated", "True"), project="alpha")
    await cell.apply_status(CLAIMS, both, manager="nso")
    found = await cell.apply_status(CLAIMS, _status(shop, _condition("Bound", "False")), manager="nso")
    assert _conditions(found) == {"Programmed": "True", "Bound": "False"}
    assert "project" not in found["status"]


async def test_a_status_apply_never_creates(cell: Client, shop: str) -> None:
    """T06."""
    with pytest.raises(NotFound):
        await cell.apply_status(CLAIMS, _status(shop, _condition("Bound", "True")), manager="nso")


async def test_a_status_apply_checks_the_version_but_not_the_uid(cell: Client, shop: str) -> None:
    """T06: who must not write onto a namesake sends the resourceVersion."""
    created = await cell.create(CLAIMS, _claim(shop))
    version = created["metadata"]["resourceVersion"]
    foreign = _status(shop, _condition("Bound", "True"))
    foreign["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    await cell.apply_status(CLAIMS, foreign, manager="nso")
    with pytest.raises(Conflict):
        await cell.apply_status(CLAIMS, _status(shop, _condition("Bound", "False"), version=version), manager="nso")


async def test_an_apply_with_another_uid_is_refused_and_one_without_can_bring_back_the_dead(
    cell: Client, shop: str
) -> None:
    """T06: always send the uid."""
    created = await cell.create(CONFIG_MAPS, _config_map(shop, "a"))
    await cell.delete(CONFIG_MAPS, shop, "a")
    ghost = _config_map(shop, "a", colour="red")
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
    held = _config_map(shop, "a")
    held["metadata"]["finalizers"] = ["tests.netclaim/held"]
    await cell.apply(CONFIG_MAPS, held, manager="test")
    found = await cell.apply(CONFIG_MAPS, _config_map(shop, "a"), manager="test")
    assert "finalizers" not in found["metadata"]


async def test_a_field_that_the_server_does_not_know_is_an_error(cell: Client, shop: str) -> None:
    """T30: nothing is pruned in silence while the write reports success."""
    claim = _claim(shop)
    claim["spec"]["colour"] = "red"
    with pytest.raises(ApiError, match="colour") as caught:
        await cell.create(CLAIMS, claim)
    assert caught.value.status == 400


# -- finalizers, patches, deletions ------------------------------------------------------------------------------------


async def test_a_finalizer_for_an_object_that_is_going_reads_as_going(cell: Client, shop: str) -> None:
    """T07: 422 of the server; the stale object that we hold does not know yet."""
    cluster = Cluster(cell)
    created = await cell.create(CONFIG_MAPS, _config_map(shop, "a"))
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
    created = await cell.create(CONFIG_MAPS, _config_map(shop, "a"))
    held = await cluster.add_finalizer(CONFIG_MAPS, created, "tests.netclaim/one")
    assert held is not None
    await cell.apply(CONFIG_MAPS, _config_map(shop, "a", colour="red"), manager="test")
    with pytest.raises(Conflict):
        await cluster.drop_finalizer(CONFIG_MAPS, held, "tests.netclaim/one", exact=True)
    await cluster.drop_finalizer(CONFIG_MAPS, held, "tests.netclaim/one")


async def test_a_patch_that_breaks_a_rule_is_invalid_and_not_a_conflict(cell: Client, shop: str) -> None:
    """T30: a broken rule is never tried again as if somebody had been faster."""
    created = await cell.create(CLAIMS, _claim(shop))
    version = created["metadata"]["resourceVersion"]
    ops = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/spec/network/name", "value": "other"},
    ]
    with pytest.raises(Invalid, match="a claim never changes"):
        await cell.json_patch(CLAIMS, shop, "web-0-eth0", ops)


async def test_deletion_takes_the_uid_and_the_version_as_conditions(cell: Client, shop: str) -> None:
    """T06."""
    created = await cell.create(CONFIG_MAPS, _config_map(shop, "a"))
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
        CONFIG_MAPS, await cell.create(CONFIG_MAPS, _config_map(shop, "owner")), "tests.netclaim/held"
    )
    assert owner is not None
    child = _config_map(shop, "child")
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


# -- lost replies ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def proxied(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[tuple[FaultProxy, Client]]:
    """A proxy before the cell's API server, and a client that goes through it."""
    document = yaml.safe_load(control_plane.cell_kubeconfig.read_text())
    url = URL(document["clusters"][0]["cluster"]["server"])
    assert url.host
    assert url.port
    proxy = await FaultProxy(url.host, url.port).start()
    document["clusters"][0]["cluster"]["server"] = proxy.address
    path = tmp_path / "proxied.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    client = await Client.connect(str(path), user_agent="netclaim-tests")
    yield proxy, client
    await client.close()
    await proxy.stop()


async def test_a_create_whose_reply_is_lost_is_read_back(
    proxied: tuple[FaultProxy, Client], cell: Client, shop: str
) -> None:
    """T02: lost after commit; the server's defaults in the object do not hide that it is ours."""
    proxy, client = proxied
    await client.get(NAMESPACES, None, shop)
    proxy.lose_replies()
    created = await client.create(CLAIMS, _claim(shop))
    assert proxy.lost == 1
    assert created["spec"]["reclaimPolicy"] == "Delete"
    assert uid_of(created) == uid_of(await cell.get(CLAIMS, shop, "web-0-eth0"))
    with pytest.raises(AlreadyExists):
        await client.create(CLAIMS, _claim(shop))


async def test_an_apply_whose_reply_is_lost_is_sent_again(proxied: tuple[FaultProxy, Client], shop: str) -> None:
    """T02."""
    proxy, client = proxied
    await client.get(NAMESPACES, None, shop)
    proxy.lose_replies()
    applied = await client.apply(CONFIG_MAPS, _config_map(shop, "a", colour="red"), manager="test")
    assert proxy.lost == 1
    assert applied["data"] == {"colour": "red"}


async def test_a_store_follows_a_real_server_through_cut_connections(
    proxied: tuple[FaultProxy, Client], cell: Client, shop: str
) -> None:
    """T22."""
    proxy, client = proxied
    cluster = Cluster(client)
    reflector = cluster.reflect(CONFIG_MAPS, namespace=shop)
    task = asyncio.create_task(run_reflectors(cluster))
    await until(reflector.synced.is_set)
    for number in range(30):
        await cell.create(CONFIG_MAPS, _config_map(shop, f"c{number}"))
        if number % 10 == 5:
            proxy.cut()
        if number % 3 == 0:
            await cell.delete(CONFIG_MAPS, shop, f"c{number}")
    wanted = {
        (shop, raw["metadata"]["name"]): raw["metadata"]["resourceVersion"]
        for raw in await cell.list(CONFIG_MAPS, shop)
    }
    await until(
        lambda: (
            {key: (reflector.store.get(key) or {})["metadata"]["resourceVersion"] for key in reflector.store.keys()}
            == wanted
        ),
        what="store equal to server",
    )
    task.cancel()


# -- list, watch, events, leases ---------------------------------------------------------------------------------------


async def test_a_list_comes_in_pages_of_one_version(cell: Client, shop: str) -> None:
    """T21."""
    for number in range(7):
        await cell.create(CONFIG_MAPS, _config_map(shop, f"c{number}"))
    pages = [page async for page in cell.list_pages(CONFIG_MAPS, shop, limit=3)]
    assert len(pages) >= 3
    assert len({page.resource_version for page in pages}) == 1
    names = {raw["metadata"]["name"] for page in pages for raw in page.items}
    assert {f"c{number}" for number in range(7)} <= names


async def test_a_watch_brings_changes_then_a_bookmark_then_ends(cell: Client, shop: str) -> None:
    """T22: the version moves on although nothing happens."""
    created = await cell.create(CONFIG_MAPS, _config_map(shop, "a"))
    version = created["metadata"]["resourceVersion"]
    seen: list[tuple[str, str]] = []
    watch = cell.watch(CONFIG_MAPS, shop, resource_version=version, timeout_seconds=4)
    async with aclosing(watch):
        await cell.apply(CONFIG_MAPS, _config_map(shop, "a", colour="red"), manager="test")
        await cell.delete(CONFIG_MAPS, shop, "a")
        async for event in watch:
            seen.append((event.type, event.object["metadata"].get("name", "")))
    assert seen[:2] == [("MODIFIED", "a"), ("DELETED", "a")]
    assert seen[-1][0] == "BOOKMARK"


async def test_a_version_that_is_too_old_is_gone(cell: Client) -> None:
    """T22: the server says so inside a stream that it answered with 200."""
    watch = cell.watch(CLAIMS, resource_version="1", timeout_seconds=2)
    async with aclosing(watch):
        with pytest.raises(Gone):
            async for _ in watch:
                pass


async def test_a_version_from_the_future_is_waited_for_in_silence(cell: Client, shop: str) -> None:
    """T29: what the reflector must expect of a server whose storage was restored from a backup."""
    watch = cell.watch(CONFIG_MAPS, shop, resource_version="999999999999", timeout_seconds=3)
    async with aclosing(watch):
        assert [event async for event in watch] == []


async def test_a_kind_that_is_not_served_is_not_found(cell: Client) -> None:
    """T27."""
    from netclaim.api.resources import Resource

    with pytest.raises(NotFound):
        await cell.list(Resource("nothing.example.com", "v1", "nothings", "Nothing"))


async def test_every_run_of_a_controller_sees_its_own_last_write(cell: Client, shop: str) -> None:
    """T26."""
    cluster = Cluster(cell)
    maps = cluster.reflect(CONFIG_MAPS, namespace=shop)
    await cell.create(CONFIG_MAPS, _config_map(shop, "count", value="0"))
    written = 0
    stale: list[str] = []

    async def reconcile(key: Key) -> float | None:
        nonlocal written
        raw = maps.store.get(key)
        if key[1] != "count" or raw is None or written >= 30:
            return None
        if int(raw["data"]["value"]) != written:
            stale.append(raw["data"]["value"])
        written += 1
        await cluster.apply(CONFIG_MAPS, _config_map(shop, "count", value=str(written)), manager="test")
        return 0.0

    controller = Controller("count", reconcile)
    controller.watch(maps, own_key)
    tasks = [asyncio.create_task(run_reflectors(cluster))]
    await until(maps.synced.is_set)
    tasks.append(asyncio.create_task(controller.run()))
    await until(lambda: written == 30, timeout=20)
    assert stale == []
    for task in tasks:
        task.cancel()


async def test_events_are_accepted_and_counted(cell: Client, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl describe shows why a claim waits."""
    monkeypatch.setattr("netclaim.kube.events._EARLIEST_UPDATE", 0.0)
    claim = await cell.create(CLAIMS, _claim(shop))
    claim.setdefault("apiVersion", CLAIMS.api_version)
    recorder = EventRecorder(cell, controller="nso")
    task = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.event(claim, "Warning", "PoolExhausted", "no address is left in pool cell-v4")

    async def told() -> bool:
        found = await cell.list(EVENTS, shop)
        return [each.get("series", {}).get("count") for each in found if each["reason"] == "PoolExhausted"] == [3]

    await until(told, what="one event, counted three times")
    task.cancel()


async def test_a_real_lease_is_taken_renewed_passed_on_and_released(cell: Client, shop: str) -> None:
    """T02: the server accepts what we write, and kubectl shows who leads."""
    first = Elector(cell, shop, "test", identity="first", timings=FAST)
    second = Elector(cell, shop, "test", identity="second", timings=FAST)
    one = asyncio.create_task(first.run())
    await until(first.is_leader)
    two = asyncio.create_task(second.run())
    lease = await cell.get(LEASES, shop, "test")
    assert lease["spec"]["holderIdentity"] == "first"

    async def renewed() -> bool:
        return bool((await cell.get(LEASES, shop, "test"))["spec"]["renewTime"] > lease["spec"]["renewTime"])

    await until(renewed, timeout=3)
    assert first.is_leader()
    assert not second.is_leader()
    one.cancel()
    await asyncio.wait({one})
    await first.release()
    assert not first.is_leader()
    await until(second.is_leader, timeout=3)
    lease = await cell.get(LEASES, shop, "test")
    assert lease["spec"]["holderIdentity"] == "second"
    assert lease["spec"]["leaseTransitions"] == 1
    two.cancel()


async def test_the_control_plane_is_known_by_its_kube_system_namespace(cell: Client, ipam: Client) -> None:
    """R13: two cells on one IPAM are told apart."""
    here, there = Cluster(cell), Cluster(ipam)
    assert await here.identify() != await there.identify()
    assert here.control_plane_id == uid_of(await cell.get(NAMESPACES, None, "kube-system"))


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
    await cell.apply_status(INTERFACES, _status(shop, phase="Bound"), manager="nso")
    found = await cell.apply(INTERFACES, interface, manager="nso")
    assert found[STATUS]["phase"] == "Bound"
