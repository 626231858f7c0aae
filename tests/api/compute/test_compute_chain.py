"""From a Workload to ready instances: claims, gate, Pod, status (R1, R4, R5, R10, R11, R12, R31)."""

from __future__ import annotations

import pytest

from netclaim.api import resources as r
from netclaim.api.conditions import message_of
from netclaim.kube.errors import Invalid
from tests.api.compute.world import PATIENCE, World, pod_template
from tests.waiting import until


async def test_every_slot_gets_one_claim_per_template_owned_by_the_workload(world: World) -> None:
    """R1, R2, R11: named <instance>-<template>; the claim is the template's spec and outlives instances."""
    workload = await world.workload(replicas=2, templates=("eth0", "net1"))
    claims = await world.there(r.CLAIMS, "web-0-eth0", "web-0-net1", "web-1-eth0", "web-1-net1")
    await world.there(r.INSTANCES, "web-0", "web-1")
    for name, claim in claims.items():
        assert claim["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "compute.datumapis.com/v1alpha",
                "kind": "Workload",
                "name": "web",
                "uid": workload["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert claim["spec"] == {
            "network": {"name": "default"},
            "interfaceName": name.rsplit("-", 1)[1],
            "ipFamilies": ["IPv6", "IPv4"],
            "reclaimPolicy": "Delete",
        }


async def test_compute_makes_no_binding_no_subnet_claim_and_no_context(world: World) -> None:
    """R10."""
    async with world.others():
        await world.workload()
        await world.ready("web-0")
    for resource in (r.NETWORK_BINDINGS, r.SUBNET_CLAIMS, r.NETWORK_CONTEXTS, r.SUBNETS, r.NETWORKS, r.ATTACHMENTS):
        assert await world.all(resource) == {}


async def test_the_pod_waits_for_bound_allocated_and_prepared_and_never_for_programmed(world: World) -> None:
    """R5, R31: gating on Programmed would wait for ever, since that needs the Pod."""
    await world.workload()
    await world.there(r.CLAIMS, "web-0-eth0")
    gated = await world.says(r.INSTANCES, "web-0", "Ready", "False", "AwaitingNetwork")
    assert gated["spec"]["schedulingGates"] == [{"name": "Network"}]
    await world.bind("web-0-eth0")
    await world.says(r.INSTANCES, "web-0", "Ready", "False", "NotPrepared")
    assert await world.all(r.PODS) == {}
    await world.prepare("web-0-eth0")
    pods = await world.there(r.PODS, "web-0")
    instance = await world.get(r.INSTANCES, "web-0")
    claim = await world.get(r.CLAIMS, "web-0-eth0")
    assert instance is not None
    assert claim is not None
    assert instance["spec"]["schedulingGates"] == []
    assert instance["spec"]["networkInterfaces"] == [
        {"name": "eth0", "claimRef": {"name": "web-0-eth0", "uid": claim["metadata"]["uid"]}}
    ]
    metadata = pods["web-0"]["metadata"]
    assert metadata["labels"]["networking.datumapis.com/inject-interfaces"] == "true"
    assert metadata["labels"]["app"] == "web"
    assert metadata["ownerReferences"][0]["uid"] == instance["metadata"]["uid"]
    assert metadata["ownerReferences"][0]["controller"] is True
    assert "k8s.v1.cni.cncf.io/networks" not in metadata.get("annotations", {})


async def test_an_instance_is_ready_when_its_pod_and_all_its_claims_are(world: World) -> None:
    """R5."""
    await world.workload()
    await world.there(r.CLAIMS, "web-0-eth0")
    await world.bind("web-0-eth0")
    await world.prepare("web-0-eth0")
    await world.there(r.PODS, "web-0")
    await world.bind("web-0-eth0")
    await world.says(r.INSTANCES, "web-0", "Ready", "False", "PodPending")
    await world.run_pod("web-0", ready=False, phase="Running")
    await world.says(r.INSTANCES, "web-0", "Ready", "False", "PodNotReady")
    await world.run_pod("web-0")
    await world.says(r.INSTANCES, "web-0", "Available", "True")
    await world.says(r.INSTANCES, "web-0", "Ready", "False", "NotProgrammed")
    await world.program("web-0-eth0")
    await world.says(r.INSTANCES, "web-0", "Programmed", "True")
    await world.bind("web-0-eth0")
    instance = (await world.ready("web-0"))["web-0"]
    assert instance["status"]["firstReadyTime"]
    await world.says(r.WORKLOADS, "web", "Available", "True", "AllReady")


async def test_the_instance_shows_what_its_claims_hold(world: World) -> None:
    """R3, R4: the addresses land on the object that a consumer looks at."""
    async with world.others():
        await world.workload(templates=("eth0", "net1"))
        instance = (await world.ready("web-0"))["web-0"]
    interfaces = {one["name"]: one for one in instance["status"]["networkInterfaces"]}
    assert list(interfaces) == ["eth0", "net1"]
    for name, one in interfaces.items():
        claim = await world.get(r.CLAIMS, f"web-0-{name}")
        assert claim is not None
        assert one["networkInterfaceRef"] == {"name": f"web-0-{name}"}
        assert one["addresses"] == claim["status"]["addresses"]
        assert one["externalAddresses"] == claim["status"]["externalAddresses"]
        assert {said["type"]: said["status"] for said in one["conditions"]} == dict.fromkeys(
            ("Allocated", "Bound", "Prepared", "Programmed", "Ready"), "True"
        )
    assert interfaces["eth0"]["assignments"] == {"networkIP": "fd20:1000:0:1:0:2:0:1", "externalIP": "198.51.100.2"}
    assert instance["status"]["podRef"]["name"] == "web-0"


async def test_kubectl_prints_the_addresses_of_every_instance(world: World) -> None:
    """R4: Age, Ready, Reason, Network IP, External IP, in this order."""
    async with world.others():
        await world.workload(replicas=2)
        await world.ready("web-0", "web-1")
    header, *rows = world.plane.kubectl("get", "instances", "-n", world.namespace).splitlines()
    assert header.split() == ["NAME", "AGE", "READY", "REASON", "NETWORK", "IP", "EXTERNAL", "IP"]
    assert [row.split()[2:] for row in rows] == [
        ["True", "Ready", "fd20:1000:0:1:0:2:0:1", "198.51.100.2"],
        ["True", "Ready", "fd20:1000:0:1:0:3:0:1", "198.51.100.3"],
    ]
    assert "MESSAGE" in world.plane.kubectl("get", "instances", "-n", world.namespace, "-o", "wide")
    header, row = world.plane.kubectl("get", "workloads", "-n", world.namespace).splitlines()
    assert header.split() == ["NAME", "DESIRED", "REPLICAS", "READY", "UP-TO-DATE", "AVAILABLE", "REASON", "AGE"]
    assert row.split()[:7] == ["web", "2", "2", "2", "2", "True", "AllReady"]


async def test_an_address_shows_as_soon_as_the_claim_is_allocated(world: World) -> None:
    """R4: never blank once the claim is Allocated, though nothing runs yet."""
    await world.workload()
    await world.there(r.CLAIMS, "web-0-eth0")
    await world.bind("web-0-eth0")

    async def address() -> str | None:
        instance = await world.get(r.INSTANCES, "web-0")
        interfaces = ((instance or {}).get("status") or {}).get("networkInterfaces") or [{}]
        return (interfaces[0].get("assignments") or {}).get("networkIP")

    assert await until(address, timeout=PATIENCE, what="the address") == "fd20:1000:0:1:0:2:0:1"


async def test_an_unsatisfiable_claim_is_the_instances_and_the_workloads_reason_and_leaves_no_trace(
    world: World,
) -> None:
    """R12, T26."""
    await world.workload()
    await world.there(r.CLAIMS, "web-0-eth0")
    message = "pool private-ipv4 of class endpoint-ipv4 has no IPv4 block left (4092/4092)"
    await world.refuse("web-0-eth0", "AddressPoolExhausted", message)
    instance = await world.says(r.INSTANCES, "web-0", "Ready", "False", "AddressPoolExhausted")
    assert message_of(instance, "Ready") == message
    workload = await world.says(r.WORKLOADS, "web", "Available", "False", "AddressPoolExhausted")
    assert "web-0: AddressPoolExhausted: " + message in message_of(workload, "Available")
    async with world.others():
        instance = (await world.ready("web-0"))["web-0"]
    workload = await world.says(r.WORKLOADS, "web", "Available", "True")
    assert "Exhausted" not in str(instance["status"]) + str(workload["status"])


async def test_a_claim_that_loses_its_allocation_is_shown_on_a_running_instance(world: World) -> None:
    async with world.others():
        await world.workload()
        await world.ready("web-0")
    lost = ("False", "AddressAllocationMissing", "10.128.0.2/32 has no allocation any more")
    await world.bind("web-0-eth0", ready=lost)
    await world.says(r.INSTANCES, "web-0", "Ready", "False", "AddressAllocationMissing")
    assert set(await world.all(r.PODS)) == {"web-0"}


async def test_status_is_compute_s_alone_and_the_claims_is_never_touched(world: World) -> None:
    """T20: managedFields after a whole life."""
    async with world.others():
        await world.workload()
        await world.ready("web-0")
    for resource, name in ((r.INSTANCES, "web-0"), (r.WORKLOADS, "web")):
        raw = await world.get(resource, name)
        assert raw is not None
        owners = {one["manager"] for one in raw["metadata"]["managedFields"] if one.get("subresource") == "status"}
        assert owners == {"compute"}
    claim = await world.get(r.CLAIMS, "web-0-eth0")
    assert claim is not None
    owners = {one["manager"] for one in claim["metadata"]["managedFields"] if one.get("subresource") == "status"}
    assert owners == {"nso", "vpc-controller", "vpc-controller-programmed"}


async def test_a_pod_template_that_no_api_server_takes_is_the_instances_reason(world: World) -> None:
    async with world.others():
        await world.workload(template=pod_template(image="", restartPolicy="Sometimes"))
        instance = await world.says(r.INSTANCES, "web-0", "Ready", "False", "PodInvalid")
    assert "restartPolicy" in message_of(instance, "Ready")


async def test_a_workload_that_breaks_a_rule_is_refused_when_it_is_written(world: World) -> None:
    with pytest.raises(Invalid, match="name the template with a lower-case letter"):
        await world.workload(templates=("eth-0",))
