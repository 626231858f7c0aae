"""A controller on a server that fails at random: what it keeps ends equal to what it should be."""

import asyncio
import random

import pytest

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import CONFIG_MAPS, SECRETS
from netclaim.kube import apply
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.objects import is_going, uid_of
from netclaim.kube.writes import AddFinalizer, Apply, Create, Delete, DropFinalizer, Write
from tests.faults.server import Fault, FaultServer
from tests.unit.kube.conftest import BRISK, config_map, following
from tests.unit.kube.test_reflector import MAPS, equal
from tests.waiting import until

COPIES = "/api/v1/secrets"
FINALIZER = "tests.netclaim/copy"


class Copier:
    """Keeps a Secret with the same data for every ConfigMap, under a finalizer: create, update, delete, release."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.maps = cluster.reflect(CONFIG_MAPS)
        self.copies = cluster.reflect(SECRETS)
        self.controller = Controller("copier", self.reconcile, backoff_max=0.2, resync=2.0, timeout=5.0)
        self.controller.watch(self.maps, own_key)
        self.controller.watch(self.copies, own_key)

    async def reconcile(self, key: Key) -> float | None:
        await apply.execute(self.cluster, plan(key, self.maps.store.get(key), self.copies.store.get(key)))
        return None


def plan(key: Key, original: Raw | None, copy: Raw | None) -> list[Write]:
    """What brings the copy in line with its original."""
    drop = [] if copy is None else [Delete(SECRETS, key, uid_of(copy))]
    if original is None:
        return [*drop]
    if is_going(original):
        return [*drop, DropFinalizer(CONFIG_MAPS, original, FINALIZER)]
    wanted = {"metadata": {"namespace": key[0], "name": key[1]}, "data": original["data"]}
    writes: list[Write] = [AddFinalizer(CONFIG_MAPS, original, FINALIZER)]
    if copy is None:
        return [*writes, Create(SECRETS, wanted)]
    if copy.get("data") != original["data"]:
        wanted["metadata"]["uid"] = uid_of(copy)
        return [*writes, Apply(SECRETS, wanted, "copier")]
    return writes


def mirrored(server: FaultServer) -> bool:
    """Whether each ConfigMap has its Secret, and no other Secret is there."""
    storage = server.storage
    wanted = {key: raw["data"] for key, raw in storage.collection(MAPS).items()}
    have = {key: raw["data"] for key, raw in storage.collection(COPIES).items()}
    held = all(raw["metadata"].get("finalizers") == [FINALIZER] for raw in storage.collection(MAPS).values())
    going = any(raw["metadata"].get("deletionTimestamp") for raw in storage.collection(MAPS).values())
    return wanted == have and held and not going


@pytest.mark.parametrize("seed", range(4))
async def test_cache_and_work_end_equal_to_the_server_through_random_faults(
    server: FaultServer, client: Client, seed: int
) -> None:
    """T02, T06, T22: every fault on every verb, deletions and recreations in between, a restart of the server."""
    chance = random.Random(seed)
    faults = list(Fault)

    def failing() -> None:
        share = 0.25
        fault = chance.choice(faults)
        server.inject(fault, times=3, when=lambda _: chance.random() < share)

    cluster = Cluster(client, pace=BRISK)
    copier = Copier(cluster)
    async with following(cluster):
        work = asyncio.create_task(copier.controller.run())
        for step in range(60):
            change(server, chance)
            failing()
            if step % 20 == 10:
                server.storage.compact()
            if step == 30:
                await server.stop()
                change(server, chance)
                await server.start()
            await asyncio.sleep(0.03)
        server.heal()
        await until(lambda: equal(copier.maps, server), timeout=60, what="cache equal to server")
        await until(lambda: mirrored(server), timeout=60, what="copies equal to originals")
        await until(lambda: equal(copier.maps, server), timeout=60, what="cache equal to server at the end")
        assert len(copier.copies.store) == len(server.storage.collection(COPIES))
        work.cancel()
        await asyncio.wait({work})


def change(server: FaultServer, chance: random.Random) -> None:
    """A few random changes by users, some of them of objects that are going."""
    storage = server.storage
    for _ in range(3):
        key = ("shop", f"c{chance.randrange(8)}")
        held = storage.collection(MAPS).get(key)
        if held is None:
            storage.create(MAPS, config_map(key[1], step=str(storage.version)))
        elif chance.random() < 0.4:
            storage.delete(MAPS, key, {})
        else:
            changed = {**held, "data": {"step": str(storage.version)}}
            changed["metadata"] = {k: v for k, v in held["metadata"].items() if k != "resourceVersion"}
            storage.replace(MAPS, key, changed)
