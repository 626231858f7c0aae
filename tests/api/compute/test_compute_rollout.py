"""Another template: from the highest slot, few at a time, never stuck behind what was never ready."""

from __future__ import annotations

from netclaim.api import resources as r
from tests.api.compute.world import PATIENCE, World, claim_template, pod_template
from tests.waiting import until

NEW = pod_template("node.local/busybox:2")


async def _images(world: World) -> dict[str, str]:
    return {name: raw["spec"]["containers"][0]["image"][-1] for name, raw in (await world.all(r.PODS)).items()}


async def test_a_changed_template_rolls_from_the_highest_slot_one_at_a_time(world: World) -> None:
    seen: list[dict[str, str]] = []
    async with world.others():
        await world.workload(replicas=3)
        await world.ready("web-0", "web-1", "web-2")
        claims = await world.uids(r.CLAIMS)
        await world.change(template=NEW)

        async def rolled() -> bool:
            images = await _images(world)
            if not seen or seen[-1] != images:
                seen.append(images)
            return set(images.values()) == {"2"} and len(images) == 3

        await until(rolled, timeout=PATIENCE, what="all Pods are of the new template")
        await world.ready("web-0", "web-1", "web-2")
    assert await world.uids(r.CLAIMS) == claims
    assert all(len(images) >= 2 for images in seen), seen
    order = [max(name for name, image in images.items() if image == "1") for images in seen if "1" in images.values()]
    assert order == sorted(order, reverse=True), seen
    workload = await world.says(r.WORKLOADS, "web", "Available", "True")
    assert workload["status"]["updatedReplicas"] == 3
    assert workload["status"]["observedGeneration"] == workload["metadata"]["generation"]


async def test_a_rollout_stops_at_what_does_not_become_ready_and_the_next_template_cures_it(world: World) -> None:
    """The known trap of ordered rollouts: a broken template must not hold up the one that cures it."""
    async with world.others():
        await world.workload(replicas=3)
        await world.ready("web-0", "web-1", "web-2")
        await world.change(template=pod_template(image="", restartPolicy="Sometimes"))
        await world.says(r.INSTANCES, "web-2", "Ready", "False", "PodInvalid")
        await world.says(r.INSTANCES, "web-1", "Ready", "True")
        assert set((await _images(world)).values()) == {"1"}
        assert set(await _images(world)) == {"web-0", "web-1"}
        await world.change(template=NEW)
        await until(lambda: _all_new(world, 3), timeout=PATIENCE, what="all Pods are of the third template")
        await world.ready("web-0", "web-1", "web-2")


async def test_a_paused_workload_scales_but_does_not_roll(world: World) -> None:
    async with world.others():
        await world.workload(replicas=1)
        await world.ready("web-0")
        pods = await world.uids(r.PODS)
        await world.change(paused=True, template=NEW, replicas=2)
        await world.ready("web-0", "web-1")
        assert (await world.uids(r.PODS))["web-0"] == pods["web-0"]
        await world.change(paused=False)
        await until(lambda: _all_new(world, 2), timeout=PATIENCE, what="all Pods are of the new template")


async def test_an_added_interface_rolls_and_a_removed_ones_claims_go_after_the_roll(world: World) -> None:
    async with world.others():
        await world.workload(replicas=2)
        await world.ready("web-0", "web-1")
        first = await world.uids(r.CLAIMS)
        both = [claim_template("eth0"), claim_template("net1")]
        await world.change(networkInterfaceClaimTemplates=both)
        await world.there(r.CLAIMS, "web-0-eth0", "web-0-net1", "web-1-eth0", "web-1-net1", timeout=PATIENCE)
        await until(lambda: _interfaces(world, {"eth0", "net1"}), timeout=PATIENCE, what="both interfaces everywhere")
        await world.ready("web-0", "web-1")
        assert first.items() <= (await world.uids(r.CLAIMS)).items()
        await world.change(networkInterfaceClaimTemplates=[claim_template("net1")])
        await until(lambda: _interfaces(world, {"net1"}), timeout=PATIENCE, what="one interface everywhere")
        await world.there(r.CLAIMS, "web-0-net1", "web-1-net1", timeout=PATIENCE)
        await world.ready("web-0", "web-1")


async def test_ordered_slots_are_filled_one_after_the_other_and_emptied_from_the_top(world: World) -> None:
    await world.workload(replicas=2, podManagementPolicy="OrderedReady")
    await world.there(r.INSTANCES, "web-0")
    await world.says(r.WORKLOADS, "web", "Available", "False", "AwaitingNetwork")
    assert set(await world.all(r.CLAIMS)) == {"web-0-eth0"}
    async with world.others():
        await world.ready("web-0", "web-1")
        await world.hold(r.PODS, "web-1")
        await world.change(replicas=0)

        async def highest_goes() -> bool:
            instance = await world.get(r.INSTANCES, "web-1")
            return instance is not None and "deletionTimestamp" in instance["metadata"]

        await until(highest_goes, timeout=PATIENCE, what="web-1 goes")
        lowest = await world.get(r.INSTANCES, "web-0")
        assert lowest is not None
        assert "deletionTimestamp" not in lowest["metadata"]
        await world.let_go(r.PODS, "web-1")
        await world.there(r.INSTANCES)
        await world.there(r.CLAIMS)


async def test_slots_of_a_parallel_workload_are_filled_at_once(world: World) -> None:
    await world.workload(replicas=20)
    names = [f"web-{n}" for n in range(20)]
    await world.there(r.INSTANCES, *names)
    await world.there(r.CLAIMS, *(f"{name}-eth0" for name in names))


async def _all_new(world: World, count: int) -> bool:
    images = await _images(world)
    return len(images) == count and set(images.values()) == {"2"}


async def _interfaces(world: World, names: set[str]) -> bool:
    instances = await world.all(r.INSTANCES)
    return len(instances) == 2 and all(
        {one["name"] for one in raw["spec"]["networkInterfaces"]} == names and not raw["spec"]["schedulingGates"]
        for raw in instances.values()
    )
