"""Carrying out plans: only what changes something is sent."""

from typing import Any

import pytest

from netclaim.api.meta import Raw
from netclaim.api.resources import CONFIG_MAPS
from netclaim.kube import apply
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists, Conflict
from netclaim.kube.objects import uid_of
from netclaim.kube.writes import (
    AddFinalizer,
    ApplyStatus,
    Create,
    Delete,
    DropFinalizer,
    JsonPatch,
    Owned,
    Write,
)
from tests.faults.server import Fault, FaultServer
from tests.unit.kube.conftest import BRISK, config_map, following
from tests.waiting import until

MAPS = "/api/v1/configmaps"
KEY = ("shop", "a")
OWNS = Owned(frozenset({"addresses", "phase"}), frozenset({"Bound"}))


def _condition(status: str, reason: str = "Because", **more: Any) -> Raw:
    return {"type": "Bound", "status": status, "reason": reason, **more}


@pytest.mark.parametrize(
    ("actual", "wanted", "differs"),
    [
        ({}, {}, False),
        ({"phase": "Bound"}, {"phase": "Bound"}, False),
        ({"phase": "Bound", "vpc": "zz"}, {"phase": "Bound"}, False),
        ({"phase": "Bound"}, {"phase": "Available"}, True),
        ({"phase": "Bound", "addresses": [{"family": "IPv6"}]}, {"phase": "Bound"}, True),
        ({"phase": "Bound"}, {"phase": "Bound", "addresses": None}, False),
        ({"conditions": [_condition("True")]}, {}, True),
        (
            {"conditions": [_condition("True", lastTransitionTime="2026-01-01T00:00:00Z")]},
            {"conditions": [_condition("True")]},
            False,
        ),
        ({"conditions": [_condition("True")]}, {"conditions": [_condition("True", message="new")]}, True),
        (
            {"conditions": [{"type": "Bound", "status": "Unknown", "reason": "Pending"}]},
            {"conditions": [{"type": "Bound"}]},
            False,
        ),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, {}, False),
    ],
)
def test_a_status_differs_when_its_owned_part_does(actual: Raw, wanted: Raw, differs: bool) -> None:
    """R21, T32: another owner's fields do not count, an owned field that is now omitted does."""
    assert apply.differs(actual, wanted, OWNS) is differs


def test_the_transition_time_changes_only_when_the_status_flips() -> None:
    """T26."""
    before = {"conditions": [_condition("False", "Waiting", lastTransitionTime="then")]}
    same = apply.stamped({"conditions": [_condition("False", "PoolExhausted")]}, before, "now")
    flipped = apply.stamped({"conditions": [_condition("True")]}, before, "now")
    assert same["conditions"][0]["lastTransitionTime"] == "then"
    assert flipped["conditions"][0]["lastTransitionTime"] == "now"


async def test_a_status_that_the_cache_shows_already_is_not_written(server: FaultServer, client: Client) -> None:
    """T32: zero writes at rest."""
    server.storage.create(MAPS, config_map("a"))
    cluster = Cluster(client, pace=BRISK)
    maps = cluster.reflect(CONFIG_MAPS)
    write = ApplyStatus(CONFIG_MAPS, KEY, {"phase": "Bound", "conditions": [_condition("True")]}, "nso", OWNS)
    async with following(cluster):
        await apply.execute(cluster, [write])
        await until(lambda: "status" in (maps.store.get(KEY) or {}))
        await apply.execute(cluster, [write, write])
        assert server.count("patch") == 1
        missing = ApplyStatus(CONFIG_MAPS, ("shop", "missing"), {"phase": "Bound"}, "nso", OWNS)
        await apply.execute(cluster, [missing])
        assert ("shop", "missing") not in server.storage.collection(MAPS)


async def test_finalizers_are_added_and_dropped_against_changes_of_others(server: FaultServer, client: Client) -> None:
    """T20: a stale object is read again; a finalizer of somebody else is never touched."""
    cluster = Cluster(client, pace=BRISK)
    stale = await client.create(CONFIG_MAPS, config_map("a"))
    await cluster.add_finalizer(CONFIG_MAPS, stale, "other/one")
    await apply.execute(cluster, [AddFinalizer(CONFIG_MAPS, stale, "ours/two")])
    assert (await client.get(CONFIG_MAPS, *KEY))["metadata"]["finalizers"] == ["other/one", "ours/two"]
    held = await client.get(CONFIG_MAPS, *KEY)
    await cluster.add_finalizer(CONFIG_MAPS, held, "third/three")
    with pytest.raises(Conflict):
        await apply.execute(cluster, [DropFinalizer(CONFIG_MAPS, held, "ours/two", exact=True)])
    await apply.execute(cluster, [DropFinalizer(CONFIG_MAPS, held, "ours/two")])
    assert (await client.get(CONFIG_MAPS, *KEY))["metadata"]["finalizers"] == ["other/one", "third/three"]


async def test_an_object_that_is_going_gets_no_finalizer(server: FaultServer, client: Client) -> None:
    """T07."""
    cluster = Cluster(client, pace=BRISK)
    created = await client.create(CONFIG_MAPS, config_map("a"))
    held = await cluster.add_finalizer(CONFIG_MAPS, created, "other/one")
    assert held is not None
    await client.delete(CONFIG_MAPS, *KEY)
    assert await cluster.add_finalizer(CONFIG_MAPS, created, "ours/two") is None
    await cluster.drop_finalizer(CONFIG_MAPS, held, "other/one")
    assert KEY not in server.storage.collection(MAPS)
    await cluster.drop_finalizer(CONFIG_MAPS, held, "other/one")


async def test_deleting_what_is_gone_or_another_is_success_and_touches_nothing(
    server: FaultServer, client: Client
) -> None:
    """T06: a namesake with another uid stays."""
    cluster = Cluster(client, pace=BRISK)
    created = await client.create(CONFIG_MAPS, config_map("a"))
    await apply.execute(cluster, [Delete(CONFIG_MAPS, KEY, "another"), Delete(CONFIG_MAPS, ("shop", "b"), "x")])
    assert KEY in server.storage.collection(MAPS)
    await apply.execute(cluster, [Delete(CONFIG_MAPS, KEY, uid_of(created))])
    assert KEY not in server.storage.collection(MAPS)


async def test_a_deletion_that_was_refused_for_any_other_reason_is_not_taken_for_done(
    server: FaultServer, client: Client
) -> None:
    """T02: a 409 is success only when a namesake has taken the place; else the deletion is to be asked for again."""
    cluster = Cluster(client, pace=BRISK)
    created = await client.create(CONFIG_MAPS, config_map("a"))
    server.inject(Fault.CONFLICT, when=lambda request: request.verb == "delete")
    with pytest.raises(Conflict):
        await cluster.delete_if_present(CONFIG_MAPS, created)
    assert await cluster.delete_if_present(CONFIG_MAPS, created)
    assert KEY not in server.storage.collection(MAPS)


async def test_creating_what_exists_is_an_error_unless_the_plan_says_otherwise(client: Client) -> None:
    """T31: create-if-absent is how identifiers are drawn."""
    cluster = Cluster(client, pace=BRISK)
    await apply.execute(cluster, [Create(CONFIG_MAPS, config_map("a"))])
    with pytest.raises(AlreadyExists):
        await apply.execute(cluster, [Create(CONFIG_MAPS, config_map("a"))])
    await apply.execute(cluster, [Create(CONFIG_MAPS, config_map("a"), ok_if_exists=True)])


def test_plans_print_as_sentences() -> None:
    """A plan can be read in a log and in --dry-run."""
    plan: list[Write] = [
        Create(CONFIG_MAPS, config_map("a")),
        ApplyStatus(CONFIG_MAPS, KEY, {"phase": "Bound", "conditions": [_condition("True")]}, "nso", OWNS),
        Delete(CONFIG_MAPS, KEY, "u1"),
        DropFinalizer(CONFIG_MAPS, config_map("a"), "x/y"),
        JsonPatch(CONFIG_MAPS, KEY, ({"op": "remove", "path": "/spec/claimRef"},)),
    ]
    assert [str(write) for write in plan] == [
        "create ConfigMap shop/a",
        "status of ConfigMap shop/a as nso: phase, Bound=True(Because)",
        "delete ConfigMap shop/a (uid u1)",
        "drop x/y from ConfigMap shop/a",
        "patch ConfigMap shop/a: remove /spec/claimRef",
    ]
