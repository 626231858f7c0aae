"""The controller: level-triggered, held until its writes show, and never stopped by one bad key."""

import asyncio
import contextlib
import gc
import logging
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import CONFIG_MAPS, SECRETS
from netclaim.kube import controller as controllers
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.errors import ConfigError, Conflict, LeadershipLost
from netclaim.kube.predicates import changed_meta_or_spec
from tests.faults.server import Fault, FaultServer
from tests.unit.kube.conftest import BRISK, config_map, following
from tests.waiting import until

MAPS = "/api/v1/configmaps"


@contextlib.asynccontextmanager
async def working(*running: Controller) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each.run()) for each in running]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_the_next_run_of_a_key_sees_what_the_last_one_wrote(server: FaultServer, client: Client) -> None:
    """T26: no run plans from a store that is older than its own writes, however often the key is added."""
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    server.storage.create(MAPS, config_map("a", count="0"))
    written = 0

    async def reconcile(key: Key) -> float | None:
        nonlocal written
        raw = maps.store.get(key)
        assert raw is not None
        assert int(raw["data"]["count"]) == written, "the store is behind our own write"
        if written < 50:
            written += 1
            await cluster.apply(CONFIG_MAPS, config_map("a", count=str(written)), manager="test")
            return 0.0
        return None

    counter = Controller("counter", reconcile)
    counter.watch(maps, own_key)
    async with following(cluster), working(counter):
        await until(lambda: written == 50 and counter.queue.at_rest, what="50 writes")
        assert counter.queue.at_rest


async def test_many_keys_that_need_nothing_leave_the_loop_to_the_lease_and_the_watches() -> None:
    """T21, T22: the pass over 10,000 objects after a restart waits for nothing, and still nobody starves."""
    done = 0

    async def reconcile(_: Key) -> None:
        nonlocal done
        done += 1

    idle = Controller("idle", reconcile, workers=4)
    for number in range(1000):
        idle.enqueue(("shop", str(number)))
    turns = 0
    async with working(idle):
        while done < 1000:
            await asyncio.sleep(0)
            turns += 1
    assert turns >= 1000 / idle.workers


async def test_a_key_whose_watch_is_late_is_read_live(
    server: FaultServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T22: a stream that fell silent holds a key for 5 seconds at most, and even then it sees its write."""
    monkeypatch.setattr(controllers, "HOLD", 0.2)
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    server.storage.create(MAPS, config_map("a"))
    seen: list[str] = []

    async def reconcile(key: Key) -> float | None:
        raw = maps.store.get(key)
        assert raw is not None
        seen.append(raw.get("data", {}).get("done", ""))
        if not seen[-1]:
            await cluster.apply(CONFIG_MAPS, config_map("a", done="yes"), manager="test")
            return 0.0
        return None

    late = Controller("late", reconcile)
    late.watch(maps, own_key)
    server.bookmark_every = 60.0
    server.inject(Fault.SILENT, when=lambda request: request.verb == "watch")
    async with following(cluster), working(late):
        await until(lambda: "yes" in seen, timeout=1.2, what="the write seen before the watch came back")
    assert seen == ["", "yes"]


async def test_a_deleted_object_is_seen_as_gone_by_the_next_run(server: FaultServer, client: Client) -> None:
    """T06: a key that deleted its object does not delete twice."""
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    server.storage.create(MAPS, config_map("a"))

    async def reconcile(key: Key) -> float | None:
        raw = maps.store.get(key)
        if raw is None:
            return None
        assert await cluster.delete_if_present(CONFIG_MAPS, raw)
        return 0.0

    deleter = Controller("deleter", reconcile)
    deleter.watch(maps, own_key)
    async with following(cluster), working(deleter):
        await until(lambda: not len(maps.store) and deleter.queue.at_rest, what="gone")
    assert server.count("delete") == 1


async def test_one_failing_key_is_logged_once_and_stops_no_other(
    server: FaultServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """T24, T32: each reason once per key, however often it is tried."""
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    for name in ("bad", "good"):
        server.storage.create(MAPS, config_map(name))
    runs: list[str] = []

    async def reconcile(key: Key) -> float | None:
        runs.append(key[1])
        if key[1] == "bad":
            raise ConfigError("the pool has no prefix")
        return None

    failing = Controller("failing", reconcile, backoff_max=0.02)
    failing.watch(maps, own_key)
    with caplog.at_level(logging.INFO, "netclaim.kube.controller"):
        async with following(cluster), working(failing):
            await until(lambda: runs.count("bad") >= 6, what="six tries")
    assert "good" in runs
    assert caplog.text.count("the pool has no prefix") - caplog.text.count("ConfigError: the pool") <= 1
    assert sum("tried again with growing delays" in record.getMessage() for record in caplog.records) == 1


async def test_conflicts_are_tried_again_quietly(
    server: FaultServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """T20: that somebody was faster is nothing to report."""
    runs = 0

    async def reconcile(_: Key) -> float | None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise Conflict("modified")
        return None

    quiet = Controller("quiet", reconcile)
    with caplog.at_level(logging.INFO):
        async with working(quiet):
            quiet.enqueue(("", "a"))
            await until(lambda: runs == 3 and quiet.queue.at_rest)
    assert "modified" not in caplog.text


async def test_a_run_that_hangs_is_stopped_and_the_key_comes_again() -> None:
    """T24: nothing blocks a worker for ever."""
    runs = 0

    async def reconcile(_: Key) -> float | None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await asyncio.Event().wait()
        return None

    hanging = Controller("hanging", reconcile, workers=1, timeout=0.05)
    async with working(hanging):
        hanging.enqueue(("", "a"))
        await until(lambda: runs == 2, timeout=20)


async def test_a_cancelled_run_frees_its_key() -> None:
    """T03: after a lost lead the key can run again."""
    started = asyncio.Event()
    runs = 0

    async def reconcile(_: Key) -> float | None:
        nonlocal runs
        runs += 1
        started.set()
        if runs == 1:
            await asyncio.Event().wait()
        return None

    again = Controller("again", reconcile)
    task = asyncio.create_task(again.run())
    again.enqueue(("", "a"))
    await started.wait()
    task.cancel()
    await asyncio.wait({task})
    assert again.queue.processing == 0
    async with working(again):
        again.enqueue(("", "a"))
        await until(lambda: runs == 2, timeout=20)


async def test_every_known_key_is_looked_at_again_after_another_leader_worked(
    server: FaultServer, client: Client
) -> None:
    """T03: a regained lead begins with a full pass."""
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    for number in range(5):
        server.storage.create(MAPS, config_map(f"c{number}"))
    runs: list[Key] = []

    async def reconcile(key: Key) -> float | None:
        runs.append(key)
        return None

    leader = Controller("leader", reconcile)
    leader.watch(maps, own_key)
    async with following(cluster):
        for _ in range(2):
            runs.clear()
            async with working(leader):
                await until(lambda: len(set(runs)) == 5, what="a full pass")


async def test_resync_looks_at_every_key_again_without_a_burst(server: FaultServer, client: Client) -> None:
    """T26: a periodic full compare heals what no event tells."""
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    for number in range(10):
        server.storage.create(MAPS, config_map(f"c{number}"))
    runs: list[Key] = []

    async def reconcile(key: Key) -> float | None:
        runs.append(key)
        return None

    slow = Controller("slow", reconcile, resync=0.3)
    slow.watch(maps, own_key)
    async with following(cluster), working(slow):
        await until(lambda: all(runs.count(("shop", f"c{number}")) >= 3 for number in range(10)), timeout=30)


async def test_an_object_that_moves_from_one_key_to_another_wakes_both(server: FaultServer, client: Client) -> None:
    """T26: the one it left counts again too."""
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    server.storage.create(MAPS, config_map("a", owner="x"))
    runs: list[str] = []

    async def reconcile(key: Key) -> float | None:
        runs.append(key[1])
        return None

    moved = Controller("moved", reconcile)
    moved.watch(maps, lambda raw: [("", raw["data"]["owner"])])
    async with following(cluster), working(moved):
        await until(lambda: runs == ["x"])
        runs.clear()
        server.storage.replace(MAPS, ("shop", "a"), config_map("a", owner="y"))
        await until(lambda: sorted(runs) == ["x", "y"])
        server.storage.create(MAPS, {"metadata": {"namespace": "shop", "name": "malformed"}})
        server.storage.delete(MAPS, ("shop", "a"), {})
        await until(lambda: sorted(runs) == ["x", "y", "y"])


async def test_a_predicate_keeps_changes_of_the_status_away(server: FaultServer, client: Client) -> None:
    """T32: our own status writes do not wake us."""
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    obj: Raw = {**config_map("a"), "status": {"n": 0}}
    obj["metadata"]["generation"] = 1
    server.storage.create(MAPS, obj)
    runs = 0

    async def reconcile(_: Key) -> float | None:
        nonlocal runs
        runs += 1
        return None

    picky = Controller("picky", reconcile)
    picky.watch(maps, own_key, when=changed_meta_or_spec)
    async with following(cluster), working(picky):
        await until(lambda: runs == 1)
        for number in range(5):
            server.storage.replace(MAPS, ("shop", "a"), {**obj, "status": {"n": number}})
        obj["metadata"]["labels"] = {"changed": "yes"}
        server.storage.replace(MAPS, ("shop", "a"), obj)
        await until(lambda: runs == 2 and picky.queue.at_rest)
    assert runs == 2


async def test_no_write_is_sent_by_a_leader_that_was_replaced(server: FaultServer, client: Client) -> None:
    """T01, T02: a process that was paused and wakes up in the middle of a reconcile writes nothing more."""
    cluster = Cluster(client, pace=BRISK)
    leads = True
    refused: list[LeadershipLost] = []

    async def reconcile(key: Key) -> float | None:
        nonlocal leads
        await cluster.create(CONFIG_MAPS, config_map("first"))
        leads = False
        try:
            await cluster.create(CONFIG_MAPS, config_map("second"))
        except LeadershipLost as error:
            refused.append(error)
            raise
        return None

    paused = Controller("paused", reconcile)
    task = asyncio.create_task(paused.run(lambda: leads))
    paused.enqueue(("", "a"))
    await until(lambda: refused, what="the refusal")
    task.cancel()
    await asyncio.wait({task})
    assert list(server.storage.collection(MAPS)) == [("shop", "first")]
    guarded = Cluster(client, leads=lambda: False)
    with pytest.raises(LeadershipLost):
        await guarded.create(CONFIG_MAPS, config_map("third"), guarded=True)


async def test_a_controller_follows_a_kind_that_is_added_while_it_runs(server: FaultServer, client: Client) -> None:
    """The agent follows the advertisements of networks as they come to its node, and forgets them again."""
    server.storage.create(MAPS, config_map("a"))
    cluster = Cluster(client, pace=BRISK)
    runs: list[Any] = []

    async def reconcile(key: Key) -> float | None:
        runs.append(key)
        return None

    growing = Controller("growing", reconcile)
    async with working(growing):
        maps = cluster.reflect(CONFIG_MAPS, label_selector="a=b")
        growing.watch(maps, own_key)
        async with following(cluster):
            await until(lambda: ("shop", "a") in runs)
            await cluster.forget(maps)
            assert growing.sources == []
            assert cluster.reflect(CONFIG_MAPS, label_selector="a=b") is not maps


async def test_writes_of_kinds_that_nobody_follows_hold_nothing(server: FaultServer, client: Client) -> None:
    """No key waits for a stream that does not exist."""
    cluster = Cluster(client, pace=BRISK)
    runs = 0

    async def reconcile(_: Key) -> float | None:
        nonlocal runs
        runs += 1
        await cluster.create(SECRETS, {"metadata": {"namespace": "shop", "name": f"s{runs}"}})
        return 0.0 if runs < 3 else None

    free = Controller("free", reconcile)
    async with working(free):
        free.enqueue(("", "a"))
        await until(lambda: runs == 3 and free.queue.at_rest, timeout=20)


async def test_what_comes_and_goes_for_ever_is_held_while_it_is_followed_and_no_longer(client: Client) -> None:
    """B9: a node follows each of its VPCs; thousands of them in a day leave nothing behind in its agent."""
    cluster = Cluster(client)
    controller = Controller("coming-and-going", _never)
    seen: list[weakref.ref[Any]] = []
    for number in range(50):
        reflector = cluster.reflect(CONFIG_MAPS, label_selector=f"vpc={number}")
        controller.watch(reflector, own_key)
        await cluster.forget(reflector)
        seen.append(weakref.ref(reflector))
    del reflector
    gc.collect()
    assert [held for held in seen[:-1] if held() is not None] == []


async def _never(_: Key) -> None:
    raise AssertionError("nothing was there to be looked at")
