"""The reflector against a server that fails in every known way: the store always ends equal to the server."""

import asyncio
import gc
import random
import time
from pathlib import Path

import pytest

from dev.certificates import Authority
from netclaim.api.resources import CONFIG_MAPS
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.reflector import Reflector
from netclaim.kube.store import Change
from tests.faults.server import MANY, Condition, Fault, FaultServer
from tests.unit.kube.conftest import BRISK, Connect, config_map, following, serving_context
from tests.waiting import until

MAPS = "/api/v1/configmaps"


def equal(reflector: Reflector, server: FaultServer) -> bool:
    """Whether the store holds exactly the server's objects in their versions."""
    held = {key: reflector.store.get(key) for key in reflector.store.keys()}  # noqa: SIM118
    versions = {key: raw["metadata"]["resourceVersion"] for key, raw in held.items() if raw}
    return versions == {key: raw["metadata"]["resourceVersion"] for key, raw in server.storage.collection(MAPS).items()}


def churn(server: FaultServer, chance: random.Random, steps: int) -> None:
    """Random creates, updates and deletes of a few names."""
    storage = server.storage
    for _ in range(steps):
        key = ("shop", f"c{chance.randrange(12)}")
        if key not in storage.collection(MAPS):
            storage.create(MAPS, config_map(key[1], step=str(storage.version)))
        elif chance.random() < 0.5:
            storage.delete(MAPS, key, {})
        else:
            storage.replace(MAPS, key, config_map(key[1], step=str(storage.version)))


def on(verb: str) -> Condition:
    """Requests of this verb."""
    return lambda request: request.verb == verb


WATCH_FAULTS = [fault for fault in Fault if fault is not Fault.EMPTY_OBJECT]
LIST_FAULTS = [
    Fault.SILENT,
    Fault.RESET,
    Fault.RESET_AFTER,
    Fault.GONE,
    Fault.THROTTLED_TEXT,
    Fault.HTML_503,
    Fault.HTML_200,
    Fault.EMPTY,
    Fault.EMPTY_OBJECT,
]


@pytest.mark.parametrize("fault", WATCH_FAULTS)
async def test_the_store_ends_equal_to_the_server_after_a_watch_fails(
    server: FaultServer, client: Client, fault: Fault
) -> None:
    """T22."""
    chance = random.Random(1)
    churn(server, chance, 30)
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    server.inject(fault, times=2, when=on("watch"))
    async with following(cluster):
        for _ in range(5):
            churn(server, chance, 10)
            await asyncio.sleep(0)
        await until(lambda: equal(reflector, server), what="store equal to server")
        churn(server, chance, 10)
        await until(lambda: equal(reflector, server), what="store equal to server after it healed")
        # A list may have made it equal first; the watch that heals is then still to come.
        await until(lambda: server.count("watch") >= 3, what="a watch after both faults")


@pytest.mark.parametrize("fault", LIST_FAULTS)
async def test_the_store_ends_equal_to_the_server_after_a_list_fails(
    server: FaultServer, client: Client, fault: Fault
) -> None:
    """T22: the first list, and a list after an expired version; nothing is deleted on the way."""
    churn(server, random.Random(2), 40)
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    server.inject(fault, times=2, when=on("list"))
    async with following(cluster):
        assert equal(reflector, server)
        deleted: list[Change] = []
        reflector.store.subscribe(lambda change: deleted.append(change) if change.kind == "deleted" else None)
        server.inject(fault, times=2, when=on("list"))
        lists = server.count("list")
        server.inject(Fault.GONE_EVENT, when=on("watch"))
        server.inject(Fault.RESET_AFTER, when=on("watch"))
        churn(server, random.Random(3), 1)
        await until(lambda: server.count("list") > lists + 2 and equal(reflector, server), what="relisted")
    alive = {key[1] for key in server.storage.collection(MAPS)}
    assert not {change.key[1] for change in deleted} & alive


async def test_an_object_deleted_and_recreated_in_a_gap_is_another_object(server: FaultServer, client: Client) -> None:
    """T06: no watch was there when it happened; whoever follows still hears of a deletion and an addition."""
    server.storage.create(MAPS, config_map("a"))
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    async with following(cluster):
        changes: list[Change] = []
        reflector.store.subscribe(changes.append)
        await server.stop()
        server.storage.delete(MAPS, ("shop", "a"), {})
        server.storage.create(MAPS, config_map("a"))
        server.storage.compact()
        await server.start()
        await until(lambda: equal(reflector, server), what="store equal to server")
    assert [change.kind for change in changes] == ["deleted", "added"]
    assert changes[0].old != changes[1].new


async def test_an_object_deleted_in_a_gap_is_reported_as_deleted(server: FaultServer, client: Client) -> None:
    """T22: a deletion whose event was compacted away."""
    server.storage.create(MAPS, config_map("a"))
    server.storage.create(MAPS, config_map("b"))
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    async with following(cluster):
        changes: list[Change] = []
        reflector.store.subscribe(changes.append)
        await server.stop()
        server.storage.delete(MAPS, ("shop", "a"), {})
        server.storage.compact()
        await server.start()
        await until(lambda: [(change.kind, change.key[1]) for change in changes] == [("deleted", "a")])


async def test_a_restored_backup_with_older_versions_is_believed(server: FaultServer, client: Client) -> None:
    """T29: after etcd was restored the versions start over below what we knew."""
    for number in range(20):
        server.storage.create(MAPS, config_map(f"c{number}"))
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    async with following(cluster):
        await server.stop()
        server.storage.rewind(50)
        server.storage.objects.clear()
        server.storage.create(MAPS, config_map("c0", restored="yes"))
        await server.start()
        await until(lambda: equal(reflector, server), what="store equal to the restored server")


async def test_an_object_of_4_mib_comes_through_the_watch(server: FaultServer, client: Client) -> None:
    """T22: a long line is not a broken one."""
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    async with following(cluster):
        lists = server.count("list")
        server.storage.create(MAPS, config_map("big", blob="x" * (4 * 2**20)))
        await until(lambda: equal(reflector, server), what="the big object")
    assert server.count("list") == lists


async def test_a_kind_that_is_not_served_is_waited_for_and_found_when_it_comes(
    server: FaultServer, client: Client
) -> None:
    """T27: the CustomResourceDefinition is installed after the program."""
    server.unserved.add(MAPS)
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    task = asyncio.create_task(reflector.run())
    await until(lambda: reflector.refused, what="the refusal noticed")
    assert not reflector.synced.is_set()
    server.unserved.clear()
    await until(reflector.synced.is_set, what="synced once it is served")
    assert not reflector.refused
    task.cancel()


async def test_a_watch_that_ends_at_once_again_and_again_does_not_become_a_storm(
    server: FaultServer, client: Client
) -> None:
    """T32: an empty watch counts as a failure and waits longer each time."""
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    server.inject(Fault.EMPTY, times=MANY, when=on("watch"))
    async with following(cluster):
        started = time.monotonic()
        await until(lambda: server.count("watch") >= 6, what="six watches")
        assert time.monotonic() - started > 0.2
        assert reflector.healthy
    assert server.count("list") == 1, "the version is still good: nothing is listed again"


async def test_a_resumed_watch_does_not_list_again_and_repeats_nothing(server: FaultServer, client: Client) -> None:
    """T32: after a lost connection the watch goes on where the store is."""
    server.storage.create(MAPS, config_map("a"))
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    async with following(cluster):
        changes: list[Change] = []
        reflector.store.subscribe(changes.append)
        server.inject(Fault.RESET_AFTER, when=on("watch"))
        await until(lambda: server.count("watch") >= 1)
        for number in range(5):
            server.storage.create(MAPS, config_map(f"n{number}"))
        await until(lambda: equal(reflector, server), what="store equal to server")
    assert [change.key[1] for change in changes] == [f"n{number}" for number in range(5)]
    assert server.count("list") == 1


async def test_a_silent_watch_is_noticed_by_its_missing_bookmarks(server: FaultServer, client: Client) -> None:
    """T22: half-open connections; progress, not a port, is health."""
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    server.inject(Fault.SILENT_AFTER, when=on("watch"))
    async with following(cluster):
        server.storage.create(MAPS, config_map("a"))
        await until(lambda: len(reflector.store) == 1)
        server.storage.create(MAPS, config_map("b"))
        await until(lambda: equal(reflector, server), timeout=30, what="a new watch after the silence")


async def test_the_watch_reads_your_own_write(server: FaultServer, client: Client) -> None:
    """T26: a write is shown once the stream has passed its version."""
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    async with following(cluster):
        created = await client.create(CONFIG_MAPS, config_map("a"))
        future = reflector.expect_version(int(created["metadata"]["resourceVersion"]))
        if future is not None:
            async with asyncio.timeout(2):
                await future
        assert ("shop", "a") in reflector.store
        gone = reflector.expect_gone(("shop", "a"), created["metadata"]["uid"])
        assert gone is not None
        await client.delete(CONFIG_MAPS, "shop", "a")
        async with asyncio.timeout(2):
            await gone


async def test_a_burst_of_10000_events_does_not_stall_the_loop(server: FaultServer, client: Client) -> None:
    """T22: other work gets its turn between events."""
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while len(reflector.store) < 10_000:
            turns += 1
            await asyncio.sleep(0)

    async with following(cluster):
        server.inject(Fault.RESET_AFTER, when=on("watch"))
        for number in range(10_000):
            server.storage.create(MAPS, config_map(f"c{number}"))
        async with asyncio.timeout(20):
            await tick()
    assert turns > 50


async def test_garbage_collection_is_on_again_after_the_first_list(server: FaultServer, client: Client) -> None:
    """T23: memory of later cycles is given back."""
    for number in range(1100):
        server.storage.create(MAPS, config_map(f"c{number:04}"))
    cluster = Cluster(client, pace=BRISK)
    cluster.reflect(CONFIG_MAPS)
    cluster.reflect(CONFIG_MAPS, namespace="shop")
    server.inject(Fault.RESET, when=lambda request: request.verb == "list" and server.count("list") > 2)
    async with following(cluster):
        assert gc.isenabled()


async def test_a_reflector_of_one_namespace_holds_only_that(server: FaultServer, client: Client) -> None:
    """R14: a project's objects alone."""
    server.storage.create(MAPS, config_map("a", namespace="one"))
    server.storage.create(MAPS, config_map("a", namespace="two"))
    cluster = Cluster(client, pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS, namespace="one")
    async with following(cluster):
        assert list(reflector.store.keys()) == [("one", "a")]
        assert cluster.reflect(CONFIG_MAPS, namespace="one") is reflector


async def test_the_store_follows_through_a_rotated_token_and_a_swapped_ca(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T28, T17: the old token is revoked, then the server comes back under another authority; no restart."""
    monkeypatch.setattr("netclaim.kube.credentials.FORCED_REREAD_AFTER", 0.0)
    token, bundle = tmp_path / "token", tmp_path / "bundle.crt"
    authorities = [Authority.create(tmp_path / name, name) for name in ("old", "new")]
    bundle.write_bytes(authorities[0].bundle.read_bytes())
    token.write_text("first\n")
    server = await FaultServer(tokens={"first"}).start(serving_context(authorities[0], tmp_path))
    cluster = Cluster(await connect(server, token_file=str(token), ca=str(bundle)), pace=BRISK)
    reflector = cluster.reflect(CONFIG_MAPS)
    chance = random.Random(5)
    async with following(cluster):
        token.write_text("second\n")
        server.tokens = {"second"}
        await server.stop()
        churn(server, chance, 20)
        await server.start(serving_context(authorities[0], tmp_path))
        await until(lambda: equal(reflector, server), what="equal after the token was rotated")
        await server.stop()
        bundle.write_bytes(authorities[1].bundle.read_bytes())
        churn(server, chance, 20)
        await server.start(serving_context(authorities[1], tmp_path))
        await until(lambda: equal(reflector, server), what="equal after the authority was swapped")
    await server.stop()
