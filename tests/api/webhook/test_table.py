"""Each refusal and each admission of the table, as real requests through a real API server (R29, R33)."""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from netclaim.api import resources
from netclaim.api.cni import DEFAULT_NETWORK_ANNOTATION, NETWORKS_ANNOTATION
from netclaim.api.networking import INJECTED_ANNOTATION
from netclaim.kube.errors import ApiError
from netclaim.kube.objects import uid_of
from tests.api.webhook.yard import Yard
from tests.waiting import until
from webhook import refusals

Raw = dict[str, Any]
Case = Callable[[Yard], Awaitable[Raw]]
HOLD = [{"op": "add", "path": "/metadata/finalizers", "value": ["tests.netclaim/hold"]}]


async def _prepared(yard: Yard) -> Raw:
    """An instance with all that its Pod needs."""
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0")
    return instance


async def _patched(yard: Yard, kind: Any, name: str, *ops: Raw) -> None:
    await yard.cell.json_patch(kind, yard.namespace, name, ops)


async def _going(yard: Yard, kind: Any, name: str) -> None:
    await _patched(yard, kind, name, *HOLD)
    await yard.cell.delete(kind, yard.namespace, name)


async def replica_set_pod(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    pod["metadata"]["ownerReferences"][0] |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    return pod


async def foreign_group(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = "compute.example.com/v1alpha"
    return pod


async def no_controller(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    del pod["metadata"]["ownerReferences"][0]["controller"]
    return pod


async def elsewhere(yard: Yard) -> Raw:
    """Its instance is one of another namespace: the reference is looked up where the Pod is."""
    pod = yard.pod(await _prepared(yard))
    pod["metadata"]["ownerReferences"][0]["name"] = "web-7"
    return pod


async def instance_going(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    await _going(yard, resources.INSTANCES, "web-0")
    return pod


async def interface_available(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    await yard.prepare("web-0-eth0", "True", "Prepared", phase="Available")
    return pod


async def held_by_another_claim(yard: Yard) -> Raw:
    """A claim of the same name that was made anew does not have what its predecessor had (T06)."""
    instance = await yard.instance("web-0", "eth0", claim_uid="c-newer")
    await yard.interface("web-0-eth0", "eth0")
    return yard.pod(instance)


async def prepared_for_its_previous_claim(yard: Yard) -> Raw:
    """The interface has gone over to the claim that was made anew, and the VPC controller has not seen it yet (T06)."""
    pod = yard.pod(await _prepared(yard))
    op = {"op": "replace", "path": "/spec/claimRef/uid", "value": "c-newer"}
    await yard.cell.json_patch(resources.INTERFACES, yard.namespace, "web-0-eth0", [op])
    return pod


async def interface_going(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    await _going(yard, resources.INTERFACES, "web-0-eth0")
    return pod


async def attachment_missing(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    await yard.cell.delete(resources.ATTACHMENTS, yard.namespace, "web-0-eth0")
    return pod


async def attachment_going(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    await _going(yard, resources.ATTACHMENTS, "web-0-eth0")
    return pod


async def definition_going(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    await _going(yard, resources.NADS, "web-0-eth0")
    return pod


async def foreign_definition(yard: Yard) -> Raw:
    pod = yard.pod(await _prepared(yard))
    await yard.cell.delete(resources.NADS, yard.namespace, "web-0-eth0")
    await yard._create(resources.NADS, "web-0-eth0", {"config": "{}"})
    return pod


async def listed_twice(yard: Yard) -> Raw:
    networks = {NETWORKS_ANNOTATION: f"{yard.namespace}/web-0-eth0"}
    return yard.pod(await _prepared(yard), networks)


async def json_of_another_shape(yard: Yard) -> Raw:
    return yard.pod(await _prepared(yard), {NETWORKS_ANNOTATION: '{"name":"a"}'})


async def unreadable_default(yard: Yard) -> Raw:
    return yard.pod(await _prepared(yard), {DEFAULT_NETWORK_ANNOTATION: "a b"})


@pytest.mark.parametrize(
    ("case", "code", "reason", "named"),
    [
        (replica_set_pod, 403, "NotOwnedByInstance", "run the Pod through a Workload"),
        (foreign_group, 403, "NotOwnedByInstance", "run the Pod through a Workload"),
        (no_controller, 403, "NotOwnedByInstance", "run the Pod through a Workload"),
        (elsewhere, 403, "InstanceNotFound", "web-7"),
        (instance_going, 403, "InstanceTerminating", "wait for the replacement"),
        (interface_available, 503, "InterfaceNotBound", "Available"),
        (held_by_another_claim, 503, "InterfaceNotBound", "held by claim web-0-eth0 with uid c-web-0-eth0"),
        (prepared_for_its_previous_claim, 503, "InterfaceNotPrepared", "changed after it had been prepared"),
        (interface_going, 503, "InterfaceNotPrepared", "it is being deleted"),
        (attachment_missing, 503, "AttachmentNotFound", "VPCAttachment web-0-eth0"),
        (attachment_going, 503, "AttachmentNotFound", "it is being deleted"),
        (definition_going, 503, "NetworkAttachmentNotFound", "NetworkAttachmentDefinition web-0-eth0"),
        (foreign_definition, 403, "NetworkAttachmentForeign", "delete it"),
        (listed_twice, 403, "InterfaceNameTaken", "entry"),
        (json_of_another_shape, 403, "AnnotationUnreadable", "not a list"),
        (unreadable_default, 403, "AnnotationUnreadable", DEFAULT_NETWORK_ANNOTATION),
    ],
)
async def test_a_pod_that_cannot_be_attached_is_refused(
    yard: Yard, case: Case, code: int, reason: str, named: str
) -> None:
    """R33, T19: as soon as the webhook has seen it, with the Pod, the instance and what to do in the message."""
    pod = await case(yard)

    async def refused() -> ApiError | None:
        try:
            await yard.try_out(pod)
        except ApiError as error:
            (cause,) = error.details["causes"]
            return error if (error.status, cause["reason"]) == (code, reason) else None
        return None

    error = await until(refused, what=f"a refusal with {reason}")
    assert f"Pod {yard.namespace}/web-0: " in error.message
    assert named in error.message
    for kind, name in ((resources.INSTANCES, "web-0"), *((kind, "web-0-eth0") for kind in yard.KINDS)):
        await yard.let_go(kind, name)


def test_every_reason_is_shown_by_a_request_through_a_real_api_server() -> None:
    """The gap that no table must have again: a reason that only ever was a function's return value."""
    shown = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [reason for reason in refusals.MESSAGES if not re.search(rf"\b{reason}\b", shown)] == []


@pytest.mark.parametrize(
    ("present", "stored"),
    [
        ("", "NS/web-0-data@net1"),
        ("web-0-data", "NS/web-0-data@net1"),
        ("NS/web-0-data@net1", "NS/web-0-data@net1"),
        (
            '[{"name":"a","ips":["10.0.0.9/24"],"mac":"02:00:00:00:00:01"}]',
            (
                '[{"name":"a","namespace":"NS","ips":["10.0.0.9/24"],"mac":"02:00:00:00:00:01"},'
                '{"name":"web-0-data","namespace":"NS","interface":"net1"}]'
            ),
        ),
    ],
)
async def test_an_interface_is_listed_once_whatever_the_pod_brings(yard: Yard, present: str, stored: str) -> None:
    """T19: empty, ours without or with its name, and JSON with keys that are not ours."""
    instance = await yard.instance("web-0", "data")
    await yard.interface("web-0-data", "net1")
    networks = {NETWORKS_ANNOTATION: present.replace("NS", yard.namespace)}
    made = await yard.try_out(yard.pod(instance, networks))
    assert made["metadata"]["annotations"][NETWORKS_ANNOTATION] == stored.replace("NS", yard.namespace)


async def test_a_pod_whose_name_the_api_server_makes_is_admitted(yard: Yard) -> None:
    """R29: at admission it has a prefix only."""
    pod = yard.pod(await _prepared(yard))
    pod["metadata"]["generateName"] = f"{pod['metadata'].pop('name')}-"
    made = await yard.try_out(pod)
    assert made["metadata"]["name"].startswith("web-0-")
    assert made["metadata"]["annotations"][DEFAULT_NETWORK_ANNOTATION] == f"{yard.namespace}/web-0-eth0"


async def test_a_default_network_that_is_ours_already_stays(yard: Yard) -> None:
    """R29: what was injected before is not a conflict."""
    default = {DEFAULT_NETWORK_ANNOTATION: "web-0-eth0"}
    made = await yard.try_out(yard.pod(await _prepared(yard), default))
    assert made["metadata"]["annotations"][DEFAULT_NETWORK_ANNOTATION] == "web-0-eth0"
    assert json.loads(made["metadata"]["annotations"][INJECTED_ANNOTATION])[0]["defaultNetwork"] is True


async def test_the_node_requirement_of_a_pod_is_narrowed_and_not_replaced(yard: Yard) -> None:
    """R31: a node without the agent must not run the Pod; the Pod's own alternatives stay alternatives."""
    zones = [{"key": "zone", "operator": "In", "values": [zone]} for zone in ("a", "b")]
    terms = [{"matchExpressions": [zone]} for zone in zones]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = yard.pod(await _prepared(yard), affinity={"nodeAffinity": required})
    affinity = (await yard.try_out(pod))["spec"]["affinity"]["nodeAffinity"]
    ours = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchExpressions": [zone, ours]} for zone in zones
    ]


async def test_an_instance_of_another_namespace_gives_its_interfaces_to_no_pod_here(yard: Yard) -> None:
    """R33, T06: a reference carries no namespace, so the uid of a stranger's instance opens nothing."""
    other = Yard(yard.cell, f"{yard.namespace}-b")
    await yard.cell.create(resources.NAMESPACES, {"metadata": {"name": other.namespace}})
    stranger = await _prepared(other)
    await _prepared(yard)
    with pytest.raises(ApiError) as caught:
        await yard.try_out(yard.pod(stranger))
    assert caught.value.details["causes"][0]["reason"] == "InstanceReplaced"
    assert uid_of(stranger) in caught.value.message
    await yard.cell.delete(resources.NAMESPACES, None, other.namespace)
