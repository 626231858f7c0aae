"""The node agent of a real node goes away, or the node does: Pods wait, and all converges (R37, T09, T12)."""

import asyncio
import os
import time

from netclaim.api.resources import EVENTS, PODS
from tests.e2e.conftest import Tenant
from tests.e2e.nodes import nodes_are_sound
from tests.e2e.stack import Stack, addresses_of, network, workload
from tests.waiting import until

AWAY = float(os.environ.get("NETCLAIM_AGENT_AWAY", "10"))
"""Seconds that the agents are away at least; a minute when it is run by hand."""
AGENTS = ("netclaim-agent-node1", "netclaim-agent-node2")


async def test_pods_are_deleted_while_the_agents_are_away_and_new_ones_wait_with_an_event(
    stack: Stack, tenant: Tenant
) -> None:
    """T12: deletions succeed, creations wait and say why, all converges when the agents are back; addresses stay."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=4))
    ready = await stack.ready(tenant.namespace, "web", 4)
    before = {name: addresses_of(instance) for name, instance in ready.items()}
    for agent in AGENTS:
        stack.cluster.stop(agent)
    try:
        await _churn(stack, tenant)
    finally:
        for agent in AGENTS:
            stack.cluster.restart(agent)
    again = await stack.ready(tenant.namespace, "web", 4, timeout=180)
    assert {name: addresses_of(instance) for name, instance in again.items()} == before
    peers = [address for name, pair in before.items() if name != "web-0" for address in pair.values()]
    await until(
        lambda: not stack.unanswered(tenant.namespace, "web-0", peers), timeout=60, what="web-0 reaches all", interval=1
    )
    await nodes_are_sound(stack.cluster)


async def _churn(stack: Stack, tenant: Tenant) -> None:
    """Delete two Pods without an agent: they go, and their successors say what they wait for."""
    began = time.monotonic()
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in await stack.cell.list(PODS, tenant.namespace)}
    stack.kubectl("delete", "pod", "-n", tenant.namespace, "web-0", "web-1", "--wait=false")
    for name in ("web-0", "web-1"):
        await until(
            lambda name=name: stack.pod_is_gone(tenant.namespace, name, pods[name]), timeout=90, what=f"{name} is gone"
        )

    async def told() -> bool:
        events = await stack.cell.list(EVENTS, tenant.namespace)
        said = [event.get("note") or "" for event in events if event.get("reason") == "FailedCreatePodSandBox"]
        assert any("node agent does not answer" in text for text in said), said
        return True

    await until(told, timeout=120, what="an event that says why the new Pods wait", interval=0.5)
    await asyncio.sleep(max(0.0, began + AWAY - time.monotonic()))


async def test_a_node_that_lost_power_brings_its_pods_back_with_their_addresses(stack: Stack, tenant: Tenant) -> None:
    """T09: namespaces and links are gone, the journal is kept: nothing stale is left, every address is the same."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=4))
    ready = await stack.ready(tenant.namespace, "web", 4)
    before = {name: addresses_of(instance) for name, instance in ready.items()}
    restarted = {name for name, pod in (await _pods(stack, tenant)).items() if pod["spec"]["nodeName"] == "node2"}
    assert restarted, "no replica on node2"
    old = await _containers(stack, tenant)
    stack.cluster.power_off("node2")
    stack.cluster.power_on("node2")
    stack.cluster.restart("netclaim-agent-node2")

    async def back() -> bool:
        now = await _containers(stack, tenant)
        left = [name for name in restarted if now.get(name) in (None, old[name])]
        assert not left, f"still waiting for {left}"
        return True

    await until(back, timeout=240, what="every Pod of the node runs in a new sandbox", interval=1)
    again = await stack.ready(tenant.namespace, "web", 4, timeout=180)
    assert {name: addresses_of(instance) for name, instance in again.items()} == before
    source = next(iter(before.keys() - restarted), min(before))
    peers = [address for name, pair in before.items() if name != source for address in pair.values()]
    await until(
        lambda: not stack.unanswered(tenant.namespace, source, peers), timeout=60, what="all answer", interval=1
    )
    await nodes_are_sound(stack.cluster)


async def _pods(stack: Stack, tenant: Tenant) -> dict[str, dict]:  # type: ignore[type-arg]
    return {pod["metadata"]["name"]: pod for pod in await stack.cell.list(PODS, tenant.namespace)}


async def _containers(stack: Stack, tenant: Tenant) -> dict[str, str]:
    """Container that each attachment records, by instance."""
    from netclaim.api.resources import ATTACHMENTS

    listed = await stack.cell.list(ATTACHMENTS, tenant.namespace)
    return {
        raw["metadata"]["name"].removesuffix("-eth0"): raw["status"]["containerID"]
        for raw in listed
        if (raw.get("status") or {}).get("containerID")
    }
