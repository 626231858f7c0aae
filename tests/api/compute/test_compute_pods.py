"""A Pod that is refused: shown, retried, and at rest nothing is written (R33, T21, T32)."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from netclaim.api import resources as r
from netclaim.api.conditions import message_of
from tests.api.compute.world import PATIENCE, ROOT, Program, World
from tests.waiting import until

Raw = dict[str, Any]


@pytest.fixture
async def policy(world: World) -> AsyncIterator[str]:
    """The API server refuses every Pod of the namespace."""
    name = f"no-pods-{secrets.token_hex(3)}"
    await world.cell.create(
        r.ADMISSION_POLICIES,
        {
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ]
                },
                "validations": [{"expression": "false", "message": "no Pods today", "reason": "Forbidden"}],
            },
        },
    )
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": selector}
    await world.cell.create(r.ADMISSION_POLICY_BINDINGS, {"metadata": {"name": name}, "spec": binding})
    yield name
    for resource in (r.ADMISSION_POLICY_BINDINGS, r.ADMISSION_POLICIES):
        if await world.get_cluster_scoped(resource, name):
            await world.cell.delete(resource, None, name)


async def test_a_refused_pod_is_the_instances_reason_and_comes_when_it_is_allowed(world: World, policy: str) -> None:
    """R33: in the words of whoever refused it; retried, at most every 30 s."""
    await until(lambda: _refuses(world), timeout=PATIENCE, what="the policy works")
    async with world.others():
        await world.workload()
        instance = await world.says(r.INSTANCES, "web-0", "Ready", "False", "PodRefused")
        assert "no Pods today" in message_of(instance, "Ready")
        await world.cell.delete(r.ADMISSION_POLICY_BINDINGS, None, policy)
        instance = (await world.ready("web-0", timeout=PATIENCE))["web-0"]
    assert "no Pods today" not in str(instance["status"])


async def test_a_pod_is_not_tried_while_its_interface_is_not_prepared(world: World) -> None:
    """R31: a Pod that ended waits for Prepared like the first one: the webhook would refuse it."""
    async with world.others():
        await world.workload()
        await world.ready("web-0")
    await world.prepare("web-0-eth0", status="False")
    await world.run_pod("web-0", ready=False, phase="Failed")
    await world.there(r.PODS, timeout=PATIENCE)
    await world.bind("web-0-eth0", ready=("False", "PreviousHolderAttached", "Pod web-0 on node-1 still holds it"))
    await world.says(r.INSTANCES, "web-0", "Ready", "False", "PreviousHolderAttached")
    assert await world.all(r.PODS) == {}
    await world.prepare("web-0-eth0")
    await world.there(r.PODS, "web-0", timeout=15)


async def test_a_webhook_that_cannot_be_asked_blocks_the_pod_and_says_so(world: World) -> None:
    """R33: never admitted unattached; retried at once when Prepared changes, not after the growing pause."""
    name = f"dead-{secrets.token_hex(3)}"
    await world.cell.create(r.MUTATING_WEBHOOKS, _dead_webhook(name, world.namespace))
    await until(lambda: _refuses(world), timeout=PATIENCE, what="the webhook is asked")
    try:
        async with world.others():
            await world.workload()
            instance = await world.says(r.INSTANCES, "web-0", "Ready", "False", "PodRefused")
            assert "failed calling webhook" in message_of(instance, "Ready")
    finally:
        await world.cell.delete(r.MUTATING_WEBHOOKS, None, name)
    await until(lambda: _accepts(world), timeout=PATIENCE, what="the webhook is no longer asked")
    await world.prepare("web-0-eth0", status="False")
    await world.prepare("web-0-eth0")
    await world.there(r.PODS, "web-0", timeout=PATIENCE)


async def test_a_restart_writes_nothing(world: World, program: Program) -> None:
    """T21, T32: everything is as it should be already."""
    kinds = (r.WORKLOADS, r.INSTANCES, r.CLAIMS, r.PODS)
    async with world.others():
        await world.workload(replicas=3, templates=("eth0", "net1"))
        await world.ready("web-0", "web-1", "web-2")
        await world.says(r.WORKLOADS, "web", "Available", "True")
    before = await world.versions(*kinds)
    program.stop()
    await program.start()
    await world.workload("late")
    await world.there(r.INSTANCES, "web-0", "web-1", "web-2", "late-0")
    after = await world.versions(*kinds)
    assert {name: version for name, version in after.items() if "late" not in name} == before


async def test_without_the_pod_provider_the_network_alone_makes_an_instance_ready(
    world: World, program: Program
) -> None:
    """--pod-provider=false: another provider runs instances; compute makes no Pod."""
    program.stop()
    other = Program(world.plane.cell_kubeconfig, program.log, "--pod-provider=false")
    try:
        await other.start()
        await world.workload()
        await world.there(r.CLAIMS, "web-0-eth0")
        await world.bind("web-0-eth0")
        await world.prepare("web-0-eth0")
        await world.program("web-0-eth0")
        await world.bind("web-0-eth0")
        instance = (await world.ready("web-0"))["web-0"]
        assert instance["spec"]["schedulingGates"] == []
        assert (await world.says(r.INSTANCES, "web-0", "Available", "Unknown", "NoPodProvider"))["status"]
        assert await world.all(r.PODS) == {}
    finally:
        other.stop()
        await program.start()


def test_the_pod_provider_refuses_to_start_for_virtual_machines(world: World) -> None:
    """spec/compute.md: a tap lies in the host's namespace, a plain Pod cannot use it."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "nso", "--controllers=compute", "--location=here", "--attachment-mode=Hypervisor"),
            f"--kubeconfig={world.plane.cell_kubeconfig}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 2
    assert "nso: error: --attachment-mode=Hypervisor needs --pod-provider=false" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def _dead_webhook(name: str, namespace: str) -> Raw:
    return {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "dead.netclaim.test",
                "clientConfig": {"url": "https://127.0.0.1:1/mutate"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def _refuses(world: World) -> bool:
    return "denied" in (answer := _dry_run(world)) or "failed calling webhook" in answer


async def _accepts(world: World) -> bool:
    return "created" in _dry_run(world)


def _dry_run(world: World) -> str:
    return world.plane.kubectl(*("run", "probe", "--image=x", "-n", world.namespace, "--dry-run=server"), check=False)
