"""The runtime against a real API server: what spec and code rely on is what the server does."""

import asyncio
import secrets
from contextlib import aclosing

import pytest
from prometheus_client import REGISTRY

from netclaim.api.conditions import reason_of
from netclaim.api.meta import Key
from netclaim.api.resources import CLAIMS, CONFIG_MAPS, EVENTS, LEASES, NAMESPACES
from netclaim.kube import flight
from netclaim.kube.apply import execute
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster, run_reflectors
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.errors import AlreadyExists, Gone, NotFound
from netclaim.kube.events import EventRecorder
from netclaim.kube.leader import Elector, Timings
from netclaim.kube.objects import uid_of
from netclaim.kube.writes import ApplyStatus, Owned
from tests.api.kube.objects import CLAIM, claim, condition, config_map
from tests.faults.proxy import FaultProxy
from tests.waiting import until

FAST = Timings(lease=5.0, deadline=4.0, retry=0.3)


# -- lost replies ------------------------------------------------------------------------------------------------------


async def test_a_create_whose_reply_is_lost_is_read_back(
    proxied: tuple[FaultProxy, Client], cell: Client, shop: str
) -> None:
    """T02: lost after commit; the server's defaults in the object do not hide that it is ours."""
    proxy, client = proxied
    await client.get(NAMESPACES, None, shop)
    proxy.lose_replies()
    created = await client.create(CLAIMS, claim(shop))
    assert proxy.lost == 1
    assert created["spec"]["reclaimPolicy"] == "Delete"
    assert uid_of(created) == uid_of(await cell.get(CLAIMS, shop, "web-0-eth0"))
    with pytest.raises(AlreadyExists):
        await client.create(CLAIMS, claim(shop))


async def test_an_apply_whose_reply_is_lost_is_sent_again(proxied: tuple[FaultProxy, Client], shop: str) -> None:
    """T02."""
    proxy, client = proxied
    await client.get(NAMESPACES, None, shop)
    proxy.lose_replies()
    applied = await client.apply(CONFIG_MAPS, config_map(shop, "a", colour="red"), manager="test")
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
        await cell.create(CONFIG_MAPS, config_map(shop, f"c{number}"))
        if number % 10 == 5:
            proxy.cut()
        if number % 3 == 0:
            await cell.delete(CONFIG_MAPS, shop, f"c{number}")
    wanted = {raw["metadata"]["resourceVersion"] for raw in await cell.list(CONFIG_MAPS, shop)}
    await until(
        lambda: {raw["metadata"]["resourceVersion"] for raw in reflector.store.all()} == wanted,
        what="store equal to server",
    )
    task.cancel()


# -- list, watch, events, leases ---------------------------------------------------------------------------------------


async def test_a_list_comes_in_pages_of_one_version(cell: Client, shop: str) -> None:
    """T21."""
    for number in range(7):
        await cell.create(CONFIG_MAPS, config_map(shop, f"c{number}"))
    pages = [page async for page in cell.list_pages(CONFIG_MAPS, shop, limit=3)]
    assert len(pages) >= 3
    assert len({page.resource_version for page in pages}) == 1
    names = {raw["metadata"]["name"] for page in pages for raw in page.items}
    assert {f"c{number}" for number in range(7)} <= names


async def test_a_watch_brings_changes_and_ends_by_itself_when_its_time_is_over(cell: Client, shop: str) -> None:
    """T22: the clean end is no error. (Bookmarks come when the server likes: tests/unit/kube has what follows.)

    A new namespace gets a ConfigMap of the control plane's own, at some later moment: only ours counts.
    """
    created = await cell.create(CONFIG_MAPS, config_map(shop, "a"))
    version = created["metadata"]["resourceVersion"]
    watch = cell.watch(CONFIG_MAPS, shop, resource_version=version, timeout_seconds=4)
    async with aclosing(watch):
        await cell.apply(CONFIG_MAPS, config_map(shop, "a", colour="red"), manager="test")
        await cell.delete(CONFIG_MAPS, shop, "a")
        seen = [(event.type, event.object["metadata"].get("name", "")) async for event in watch]
    assert [one for one in seen if one[1] == "a"] == [("MODIFIED", "a"), ("DELETED", "a")]


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
    await cell.create(CONFIG_MAPS, config_map(shop, "count", value="0"))
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
        await cluster.apply(CONFIG_MAPS, config_map(shop, "count", value=str(written)), manager="test")
        return 0.0

    controller = Controller("count", reconcile)
    controller.watch(maps, own_key)
    tasks = [asyncio.create_task(run_reflectors(cluster))]
    await until(maps.synced.is_set)
    tasks.append(asyncio.create_task(controller.run()))
    await until(lambda: written == 30, timeout=30)
    assert stale == []
    for task in tasks:
        task.cancel()


async def test_a_status_that_is_said_twice_in_one_run_ends_as_it_was_said_last(cell: Client, shop: str) -> None:
    """T26: the second is compared with the first, not with a store that shows neither of them yet."""
    await cell.create(CLAIMS, claim(shop))
    cluster = Cluster(cell)
    claims = cluster.reflect(CLAIMS, namespace=shop)

    async def say(reason: str) -> None:
        told = {"conditions": [condition("Ready", "False", reason)]}
        await execute(
            cluster, [ApplyStatus(CLAIMS, (shop, CLAIM), told, "test", Owned(conditions=frozenset({"Ready"})))]
        )

    following = asyncio.create_task(run_reflectors(cluster))
    try:
        await claims.synced.wait()
        await say("Last")
        await until(lambda: reason_of(claims.store.get((shop, CLAIM)) or {}, "Ready") == "Last")
    finally:
        following.cancel()
        await asyncio.wait({following})
    token = flight.current.set(flight.Flight(lambda: True))
    try:
        await say("Passing")
        await say("Last")
    finally:
        flight.current.reset(token)
    assert reason_of(await cell.get(CLAIMS, shop, CLAIM), "Ready") == "Last"


async def test_a_write_into_a_namespace_that_goes_is_nobodys_failure(cell: Client) -> None:
    """T07: what lives in it is deleted one kind after the other; what a controller still misses there is let be."""
    going = f"runtime-{secrets.token_hex(3)}"
    await cell.create(NAMESPACES, {"metadata": {"name": going}})
    held = config_map(going, "held")
    held["metadata"]["finalizers"] = ["netclaim.test/held"]
    held = await cell.create(CONFIG_MAPS, held)
    await cell.delete(NAMESPACES, None, going)
    cluster = Cluster(cell)
    maps = cluster.reflect(CONFIG_MAPS, namespace=going)
    runs = 0

    async def reconcile(key: Key) -> float | None:
        nonlocal runs
        runs += 1
        await cluster.create(CONFIG_MAPS, config_map(key[0], "missing"), field_manager="test")
        return None

    controller = Controller("maker-in-a-going-namespace", reconcile)
    controller.watch(maps, own_key)
    tasks = [asyncio.create_task(run_reflectors(cluster)), asyncio.create_task(controller.run())]
    try:
        await until(lambda: runs > 1, what="tried again")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await cluster.drop_finalizer(CONFIG_MAPS, held, "netclaim.test/held")
    assert REGISTRY.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": controller.name}) == 0


async def test_events_are_accepted_and_counted(cell: Client, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl describe shows why a claim waits."""
    monkeypatch.setattr("netclaim.kube.events._EARLIEST_UPDATE", 0.0)
    held = await cell.create(CLAIMS, claim(shop))
    recorder = EventRecorder(cell, controller="nso")
    task = asyncio.create_task(recorder.run())
    for _ in range(3):
        recorder.event(held, "Warning", "PoolExhausted", "no address is left in pool cell-v4")

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

    await until(renewed, timeout=30)
    assert first.is_leader()
    assert not second.is_leader()
    one.cancel()
    await asyncio.wait({one})
    await first.release()
    assert not first.is_leader()
    await until(second.is_leader, timeout=30)
    lease = await cell.get(LEASES, shop, "test")
    assert lease["spec"]["holderIdentity"] == "second"
    assert lease["spec"]["leaseTransitions"] == 1
    two.cancel()


async def test_the_control_plane_is_known_by_its_kube_system_namespace(cell: Client, ipam: Client) -> None:
    """R13: two cells on one IPAM are told apart."""
    here, there = Cluster(cell), Cluster(ipam)
    assert await here.identify() != await there.identify()
    assert here.control_plane_id == uid_of(await cell.get(NAMESPACES, None, "kube-system"))
