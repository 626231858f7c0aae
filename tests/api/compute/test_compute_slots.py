"""A slot keeps its claims whatever becomes of its instances (R1, R7, R8, R9, T06, T07)."""

from __future__ import annotations

import pytest

from netclaim.api import resources as r
from netclaim.api.conditions import message_of
from netclaim.kube.errors import Invalid
from tests.api.compute.world import PATIENCE, World, claim_template, pod_template
from tests.waiting import until


async def test_a_deleted_instance_is_replaced_on_the_same_claims_after_its_pod_is_gone(world: World) -> None:
    """R7: never two instances of a slot."""
    async with world.others():
        await world.workload()
        await world.ready("web-0")
        claims, instances = await world.uids(r.CLAIMS), await world.uids(r.INSTANCES)
        await world.hold(r.PODS, "web-0")
        await world.delete(r.INSTANCES, "web-0")
        await until(lambda: _gone_or_going(world, "web-0"), timeout=PATIENCE, what="the Pod is going")
        await world.says(r.WORKLOADS, "web", "Available", "False", "BeingReplaced")
        assert await world.all(r.INSTANCES) == {}
        await world.let_go(r.PODS, "web-0")
        await world.anew(r.INSTANCES, "web-0", instances["web-0"])
        await world.ready("web-0")
    assert await world.uids(r.CLAIMS) == claims


@pytest.mark.parametrize(("phase", "reason"), [("Failed", "Evicted"), ("Failed", "Error"), ("Succeeded", "Completed")])
async def test_a_pod_that_ended_is_replaced_in_the_same_slot(world: World, phase: str, reason: str) -> None:
    """R7: the instance and its claims stay."""
    async with world.others():
        await world.workload()
        await world.ready("web-0")
        claims, instances, pods = [await world.uids(kind) for kind in (r.CLAIMS, r.INSTANCES, r.PODS)]
        await world.run_pod("web-0", ready=False, phase=phase, reason=reason)
        await world.anew(r.PODS, "web-0", pods["web-0"], timeout=PATIENCE)
        await world.ready("web-0")
    assert await world.uids(r.CLAIMS) == claims
    assert await world.uids(r.INSTANCES) == instances


async def test_scaling_down_removes_the_highest_and_its_claims_and_up_makes_new_ones(world: World) -> None:
    """R8 under Delete: a new claim is a new interface. Scaling is kubectl's."""
    async with world.others():
        await world.workload(replicas=3)
        await world.ready("web-0", "web-1", "web-2")
        before = await world.uids(r.CLAIMS)
        world.plane.kubectl("scale", "workload/web", "--replicas=1", "-n", world.namespace)
        await world.there(r.INSTANCES, "web-0")
        await world.there(r.CLAIMS, "web-0-eth0")
        await world.there(r.PODS, "web-0")
        world.plane.kubectl("scale", "workload/web", "--replicas=3", "-n", world.namespace)
        await world.ready("web-0", "web-1", "web-2")
    after = await world.uids(r.CLAIMS)
    assert after["web-0-eth0"] == before["web-0-eth0"]
    assert after["web-1-eth0"] != before["web-1-eth0"]
    assert after["web-2-eth0"] != before["web-2-eth0"]


async def test_a_slots_claims_stay_until_nothing_runs_on_them(world: World) -> None:
    async with world.others():
        await world.workload(replicas=2)
        await world.ready("web-0", "web-1")
        await world.hold(r.PODS, "web-1")
        await world.change(replicas=1)
        await until(lambda: _gone_or_going(world, "web-1"), timeout=PATIENCE, what="the Pod is going")
        await world.says(r.WORKLOADS, "web", "Available", "True")
        claim = await world.get(r.CLAIMS, "web-1-eth0")
        assert claim is not None
        assert "deletionTimestamp" not in claim["metadata"]
        await world.let_go(r.PODS, "web-1")
        await world.there(r.CLAIMS, "web-0-eth0")


async def test_scaling_to_zero_leaves_nothing(world: World) -> None:
    async with world.others():
        await world.workload(replicas=2)
        await world.ready("web-0", "web-1")
        await world.change(replicas=0)
        for resource in (r.PODS, r.INSTANCES, r.CLAIMS):
            await world.there(resource)
    await world.says(r.WORKLOADS, "web", "Available", "True", "ScaledToZero")

    async def counted() -> bool:
        workload = await world.get(r.WORKLOADS, "web")
        return workload is not None and workload["status"]["replicas"] == 0

    await until(counted, timeout=PATIENCE, what="no instance is counted")


async def test_a_claim_that_is_deleted_under_a_running_pod_comes_back_pod_first(world: World) -> None:
    """T07: else claim, interface and Pod would wait for each other for ever."""
    async with world.others():
        await world.workload()
        await world.ready("web-0")
        claims, instances = await world.uids(r.CLAIMS), await world.uids(r.INSTANCES)
        await world.hold(r.CLAIMS, "web-0-eth0")
        await world.hold(r.PODS, "web-0")
        await world.delete(r.CLAIMS, "web-0-eth0")
        await until(lambda: _gone_or_going(world, "web-0"), timeout=PATIENCE, what="the Pod is going")
        await world.says(r.WORKLOADS, "web", "Available", "False")
        assert await world.uids(r.CLAIMS) == claims
        await world.let_go(r.PODS, "web-0")
        await world.there(r.INSTANCES)
        await world.says(r.WORKLOADS, "web", "Available", "False", "ClaimBeingDeleted")
        await world.let_go(r.CLAIMS, "web-0-eth0")
        await world.anew(r.CLAIMS, "web-0-eth0", claims["web-0-eth0"])
        await world.anew(r.INSTANCES, "web-0", instances["web-0"])
        await world.ready("web-0")


async def test_a_claim_that_is_another_one_by_now_replaces_the_instance(world: World) -> None:
    """T06: a namesake with another uid is another claim."""
    async with world.others():
        await world.workload()
        await world.ready("web-0")
        instances, pods = await world.uids(r.INSTANCES), await world.uids(r.PODS)
        await world.delete(r.CLAIMS, "web-0-eth0")
        await world.anew(r.INSTANCES, "web-0", instances["web-0"])
        await world.anew(r.PODS, "web-0", pods["web-0"])
        instance = (await world.ready("web-0"))["web-0"]
    claims = await world.uids(r.CLAIMS)
    assert instance["spec"]["networkInterfaces"][0]["claimRef"]["uid"] == claims["web-0-eth0"]


async def test_a_claim_that_goes_before_the_instance_started_leaves_the_instance_alone(world: World) -> None:
    await world.workload()
    claims = {name: raw["metadata"]["uid"] for name, raw in (await world.there(r.CLAIMS, "web-0-eth0")).items()}
    await world.there(r.INSTANCES, "web-0")
    instances = await world.uids(r.INSTANCES)
    await world.delete(r.CLAIMS, "web-0-eth0")
    await world.anew(r.CLAIMS, "web-0-eth0", claims["web-0-eth0"])
    async with world.others():
        await world.ready("web-0")
    assert await world.uids(r.INSTANCES) == instances


async def test_somebody_elses_claim_is_a_conflict_and_never_adopted(world: World) -> None:
    """The owner is named, and the slot is filled once the name is free."""
    foreign = {
        "metadata": {"name": "web-0-eth0", "namespace": world.namespace},
        "spec": claim_template()["spec"],
    }
    await world.cell.create(r.CLAIMS, foreign)
    uids = await world.uids(r.CLAIMS)
    await world.workload()
    workload = await world.says(r.WORKLOADS, "web", "Available", "False", "NameConflict")
    assert "NetworkInterfaceClaim web-0-eth0 is not this workload's" in message_of(workload, "Available")
    assert await world.uids(r.CLAIMS) == uids
    assert await world.all(r.INSTANCES) == {}
    await world.delete(r.CLAIMS, "web-0-eth0")
    async with world.others():
        await world.ready("web-0", timeout=PATIENCE)


async def test_a_claim_of_another_living_workload_is_a_conflict_that_names_it(world: World) -> None:
    other = await world.workload("other", replicas=0)
    owner = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "name": "other",
        "uid": other["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": "web-0-eth0", "namespace": world.namespace, "ownerReferences": [owner]}
    await world.cell.create(r.CLAIMS, {"metadata": metadata, "spec": claim_template()["spec"]})
    await world.workload()
    workload = await world.says(r.WORKLOADS, "web", "Available", "False", "NameConflict")
    assert "it belongs to Workload other" in message_of(workload, "Available")


async def test_somebody_elses_pod_is_a_conflict_and_is_left_alone(world: World) -> None:
    metadata = {"name": "web-0", "namespace": world.namespace}
    await world.cell.create(r.PODS, {"metadata": metadata, "spec": pod_template()["spec"]})
    pods = await world.uids(r.PODS)
    async with world.others():
        await world.workload()
        instance = await world.says(r.INSTANCES, "web-0", "Ready", "False", "NameConflict")
        assert "Pod web-0 is not this instance's" in message_of(instance, "Ready")
        assert await world.uids(r.PODS) == pods
        await world.delete(r.PODS, "web-0")
        await world.ready("web-0", timeout=PATIENCE)


async def test_orphans_of_a_deleted_workload_are_adopted_without_a_restart(world: World) -> None:
    """--cascade=orphan, then the same workload again: the same claims, instances and Pods."""
    async with world.others():
        await world.workload(replicas=2)
        await world.ready("web-0", "web-1")
        before = [await world.uids(kind) for kind in (r.CLAIMS, r.INSTANCES, r.PODS)]
        await world.delete(r.WORKLOADS, "web", propagation="Orphan")
        await world.there(r.WORKLOADS)
        workload = await world.workload(replicas=2)

        async def adopted() -> bool:
            owned = [*(await world.all(r.CLAIMS)).values(), *(await world.all(r.INSTANCES)).values()]
            owners = {ref["uid"] for raw in owned for ref in raw["metadata"].get("ownerReferences", [{"uid": ""}])}
            return owners == {workload["metadata"]["uid"]}

        await until(adopted, timeout=PATIENCE, what="all are the new workload's")
        await world.says(r.WORKLOADS, "web", "Available", "True", "AllReady")
    assert [await world.uids(kind) for kind in (r.CLAIMS, r.INSTANCES, r.PODS)] == before


async def test_a_workload_that_was_deleted_and_recreated_waits_for_the_old_one_to_be_collected(world: World) -> None:
    """R9 under Delete: new claims. The old ones are never adopted while they are being collected."""
    async with world.others():
        await world.workload(replicas=2)
        await world.ready("web-0", "web-1")
        claims = await world.uids(r.CLAIMS)
        await world.hold(r.CLAIMS, "web-0-eth0")
        await world.delete(r.WORKLOADS, "web", propagation="Background")
        await world.workload(replicas=2)
        await world.says(r.WORKLOADS, "web", "Available", "False")
        await world.ready("web-1")
        held = await world.get(r.CLAIMS, "web-0-eth0")
        assert held is not None
        assert held["metadata"]["uid"] == claims["web-0-eth0"]
        await world.let_go(r.CLAIMS, "web-0-eth0")
        await world.ready("web-0", "web-1")
    after = await world.uids(r.CLAIMS)
    assert not set(after.values()) & set(claims.values())


async def test_deleting_a_workload_leaves_nothing_behind(world: World) -> None:
    async with world.others():
        await world.workload(replicas=2, templates=("eth0", "net1"))
        await world.ready("web-0", "web-1")
        await world.delete(r.WORKLOADS, "web")
        for resource in (r.WORKLOADS, r.INSTANCES, r.PODS, r.CLAIMS):
            await world.there(resource)


async def test_a_used_up_quota_is_the_workloads_reason_and_cured_by_a_larger_one(world: World) -> None:
    """spec/ipam.md: count/networkinterfaceclaims limits a project."""
    name = "count/networkinterfaceclaims.networking.datumapis.com"
    quota = {"metadata": {"name": "claims", "namespace": world.namespace}, "spec": {"hard": {name: "1"}}}
    await world.cell.create(r.RESOURCE_QUOTAS, quota)

    async def counted() -> bool:
        found = await world.get(r.RESOURCE_QUOTAS, "claims")
        return name in ((found or {}).get("status") or {}).get("used", {})

    await until(counted, timeout=PATIENCE, what="the quota is counted")
    async with world.others():
        await world.workload(replicas=2)
        workload = await world.says(r.WORKLOADS, "web", "Available", "False", "QuotaExceeded")
        assert "exceeded quota: claims" in message_of(workload, "Available")
        found = await world.get(r.RESOURCE_QUOTAS, "claims")
        assert found is not None
        await world.cell.replace(r.RESOURCE_QUOTAS, {**found, "spec": {"hard": {name: "5"}}})
        await world.ready("web-0", "web-1", timeout=PATIENCE)


async def test_a_claim_in_use_cannot_be_changed(world: World) -> None:
    """R2: compute never needs to; a consumer who tries is told what to do."""
    await world.workload()
    claim = (await world.there(r.CLAIMS, "web-0-eth0"))["web-0-eth0"]
    claim["spec"]["reclaimPolicy"] = "Retain"
    with pytest.raises(Invalid, match="a claim never changes"):
        await world.cell.replace(r.CLAIMS, claim)


async def _gone_or_going(world: World, pod: str) -> bool:
    raw = await world.get(r.PODS, pod)
    return raw is None or "deletionTimestamp" in raw["metadata"]
