"""What survives what: replacement, scale down and up, a recreated workload, a claim deleted under its Pod."""

import pytest

from netclaim.api.resources import CLAIMS, INTERFACES, PODS
from netclaim.kube.errors import NotFound
from tests.e2e.conftest import Tenant
from tests.e2e.stack import Stack, network, workload
from tests.waiting import until

Held = dict[str, dict[str, str]]


async def _interfaces(stack: Stack, namespace: str) -> dict[str, str]:
    return {i["metadata"]["name"]: i["metadata"]["uid"] for i in await stack.cell.list(INTERFACES, namespace)}


async def _allocations(stack: Stack, tenant: Tenant, claim: str) -> dict[str, str]:
    """Block -> uid of the IPAllocation that holds it for the claim."""
    held = (await stack.held(tenant.project)).get((tenant.namespace, claim), {})
    return {block: allocation["metadata"]["uid"] for block, allocation in held.items()}


async def _scale(stack: Stack, tenant: Tenant, replicas: int) -> None:
    stack.kubectl("scale", "workload", "web", f"--replicas={replicas}", "-n", tenant.namespace)
    await stack.ready(tenant.namespace, "web", replicas) if replicas else None


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_a_replaced_instance_keeps_its_interface_and_its_addresses(
    stack: Stack, tenant: Tenant, policy: str
) -> None:
    """R7, R28: under both policies; identifier and device name stay the same too."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, policy=policy))
    first = (await stack.ready(tenant.namespace, "web", 1))["web-0"]
    before = (
        await stack.published(tenant.namespace),
        await _interfaces(stack, tenant.namespace),
        await _allocations(stack, tenant, "web-0-eth0"),
        await _identity(stack, tenant),
    )

    stack.kubectl("delete", "instance", "web-0", "-n", tenant.namespace, "--timeout=60s")

    async def replaced() -> bool:
        found = await stack.instances(tenant.namespace, "web")
        return "web-0" in found and found["web-0"]["metadata"]["uid"] != first["metadata"]["uid"]

    await until(replaced, timeout=60, what="web-0 replaced")
    second = (await stack.ready(tenant.namespace, "web", 1))["web-0"]
    after = (
        await stack.published(tenant.namespace),
        await _interfaces(stack, tenant.namespace),
        await _allocations(stack, tenant, "web-0-eth0"),
        await _identity(stack, tenant),
    )
    assert after == before
    assert stack.pings(tenant.namespace, "web-0", second["status"]["networkInterfaces"][0]["assignments"]["networkIP"])
    await stack.assert_published_is_held(tenant.namespace, tenant.project)


async def _identity(stack: Stack, tenant: Tenant) -> tuple[str, str, str]:
    from netclaim.api.resources import ATTACHMENTS

    status = (await stack.cell.get(ATTACHMENTS, tenant.namespace, "web-0-eth0"))["status"]
    return status["vpc"], status["vpcAttachment"], status["hostInterface"]


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_scaling_down_and_up_follows_the_reclaim_policy(stack: Stack, tenant: Tenant, policy: str) -> None:
    """R8: new interface and new allocations (by uid) under Delete; the same under Retain."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=2, policy=policy))
    await stack.ready(tenant.namespace, "web", 2)
    interface = (await _interfaces(stack, tenant.namespace))["web-1-eth0"]
    allocations = await _allocations(stack, tenant, "web-1-eth0")
    published = (await stack.published(tenant.namespace))["web-1-eth0"]

    await _scale(stack, tenant, 1)
    await until(lambda: _claim_is_gone(stack, tenant, "web-1-eth0"), timeout=60, what="claim of the slot gone")
    if policy == "Delete":
        await until(lambda: _interface_is_gone(stack, tenant, "web-1-eth0"), timeout=30, what="interface gone")
        assert not await _allocations(stack, tenant, "web-1-eth0")
    await _scale(stack, tenant, 2)

    again = (await _interfaces(stack, tenant.namespace))["web-1-eth0"], await _allocations(stack, tenant, "web-1-eth0")
    if policy == "Retain":
        assert again == (interface, allocations)
        assert (await stack.published(tenant.namespace))["web-1-eth0"] == published
    else:
        assert again[0] != interface
        assert not set(again[1].values()) & set(allocations.values())
    await stack.assert_published_is_held(tenant.namespace, tenant.project)


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_deleting_and_recreating_the_workload_follows_the_reclaim_policy(
    stack: Stack, tenant: Tenant, policy: str
) -> None:
    """R9: new under Delete; the same interface and the same addresses under Retain."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, policy=policy))
    await stack.ready(tenant.namespace, "web", 1)
    interface, allocations = await _interfaces(stack, tenant.namespace), await _allocations(stack, tenant, "web-0-eth0")

    stack.kubectl("delete", "workload", "web", "-n", tenant.namespace, "--timeout=60s")
    await until(lambda: _claim_is_gone(stack, tenant, "web-0-eth0"), timeout=60, what="claim gone")
    if policy == "Delete":
        await until(lambda: _interface_is_gone(stack, tenant, "web-0-eth0"), timeout=30, what="interface gone")
    stack.apply(workload("web", tenant.namespace, policy=policy))
    await stack.ready(tenant.namespace, "web", 1)

    same = (await _interfaces(stack, tenant.namespace), await _allocations(stack, tenant, "web-0-eth0")) == (
        interface,
        allocations,
    )
    assert same is (policy == "Retain")


async def test_a_claim_deleted_under_a_running_pod_frees_its_addresses_only_when_the_pod_is_gone(
    stack: Stack, tenant: Tenant
) -> None:
    """R15, T07: finalizers hold the allocation as long as packets of the old Pod can flow; then a new claim comes."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace))
    await stack.ready(tenant.namespace, "web", 1)
    allocations = await _allocations(stack, tenant, "web-0-eth0")
    old = (await stack.cell.get(PODS, tenant.namespace, "web-0"))["metadata"]["uid"]
    claim = (await stack.cell.get(CLAIMS, tenant.namespace, "web-0-eth0"))["metadata"]["uid"]

    stack.kubectl("delete", "networkinterfaceclaim", "web-0-eth0", "-n", tenant.namespace, "--wait=false")

    async def freed() -> bool:
        # Order matters: the Pod is looked at before IPAM, so a Pod that was there had to keep what is read afterwards.
        gone = await stack.pod_is_gone(tenant.namespace, "web-0", old)
        left = set((await _all_allocations(stack, tenant)).values())
        assert gone or set(allocations.values()) <= left, "an address was released while its Pod still ran"
        if set(allocations.values()) & left:
            return False
        assert gone
        return True

    await until(freed, timeout=60, what="the old allocations freed", interval=0.02)
    await until(lambda: _has_other_claim(stack, tenant, claim), timeout=60, what="a new claim for the slot")
    await stack.ready(tenant.namespace, "web", 1)
    await stack.assert_published_is_held(tenant.namespace, tenant.project)


async def _all_allocations(stack: Stack, tenant: Tenant) -> dict[str, str]:
    from netclaim.api.resources import IP_ALLOCATIONS

    return {a["metadata"]["name"]: a["metadata"]["uid"] for a in await stack.ipam.list(IP_ALLOCATIONS, tenant.project)}


async def _has_other_claim(stack: Stack, tenant: Tenant, uid: str) -> bool:
    claim = await stack.claim(tenant.namespace, "web-0-eth0")
    return claim is not None and claim["metadata"]["uid"] != uid


async def _claim_is_gone(stack: Stack, tenant: Tenant, name: str) -> bool:
    return await stack.claim(tenant.namespace, name) is None


async def _interface_is_gone(stack: Stack, tenant: Tenant, name: str) -> bool:
    try:
        await stack.cell.get(INTERFACES, tenant.namespace, name)
    except NotFound:
        return True
    return False
