"""Real admission requests: Pods as the API server stored them, and refusals as it returned them (R29, R33, T19)."""

import json
from typing import Any

import pytest

from netclaim.api import resources
from netclaim.api.cni import DEFAULT_NETWORK_ANNOTATION, NETWORKS_ANNOTATION
from netclaim.api.networking import INJECT_LABEL, INJECTED_ANNOTATION
from netclaim.kube.errors import ApiError, Forbidden, ServerError
from tests.api.webhook.yard import Yard
from tests.control_plane import ControlPlane
from tests.waiting import until

Raw = dict[str, Any]


def refused(error: ApiError) -> tuple[int, str]:
    """Status code and cause of a refusal."""
    (cause,) = error.details["causes"]
    return error.status, cause["reason"]


async def test_an_opted_in_pod_is_stored_with_its_interfaces(yard: Yard) -> None:
    """R29: eth0 as default network, the rest as entries, the record, and the node requirement."""
    instance = await yard.instance("web-0", "eth0", "data")
    await yard.interface("web-0-eth0", "eth0")
    await yard.interface("web-0-data", "net1")
    stored = await yard.create(yard.pod(instance))
    annotations = stored["metadata"]["annotations"]
    assert annotations[DEFAULT_NETWORK_ANNOTATION] == f"{yard.namespace}/web-0-eth0"
    assert annotations[NETWORKS_ANNOTATION] == f"{yard.namespace}/web-0-data@net1"
    assert [one["interface"] for one in json.loads(annotations[INJECTED_ANNOTATION])] == ["web-0-eth0", "web-0-data"]
    required = stored["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
    ]


async def test_in_hypervisor_mode_the_cluster_keeps_eth0(yard: Yard) -> None:
    """R18: the mode is read from the VPCAttachment."""
    instance = await yard.instance("vm-0", "eth0")
    await yard.interface("vm-0-eth0", "eth0", mode="Hypervisor")
    annotations = (await yard.create(yard.pod(instance)))["metadata"]["annotations"]
    assert annotations[NETWORKS_ANNOTATION] == f"{yard.namespace}/vm-0-eth0@eth0"
    assert DEFAULT_NETWORK_ANNOTATION not in annotations


@pytest.mark.parametrize(
    ("present", "stored"),
    [
        ("a", "NS/a,NS/web-0-data@net1"),
        ("a,b", "NS/a,NS/b,NS/web-0-data@net1"),
        ("other/a@if0", "other/a@if0,NS/web-0-data@net1"),
        (
            '[{"name":"a"}]',
            '[{"name":"a","namespace":"NS"},{"name":"web-0-data","namespace":"NS","interface":"net1"}]',
        ),
    ],
)
async def test_the_networks_that_a_pod_brings_stay_in_their_form(yard: Yard, present: str, stored: str) -> None:
    """T19."""
    instance = await yard.instance("web-0", "data")
    await yard.interface("web-0-data", "net1")
    made = await yard.create(yard.pod(instance, {NETWORKS_ANNOTATION: present}))
    assert made["metadata"]["annotations"][NETWORKS_ANNOTATION] == stored.replace("NS", yard.namespace)


async def test_a_pod_without_the_label_is_not_looked_at(yard: Yard) -> None:
    """R29: an outage blocks exactly the Pods that need an interface."""
    pod = yard.pod(None)
    pod["metadata"]["labels"] = {}
    stored = await yard.create(pod)
    assert INJECTED_ANNOTATION not in stored["metadata"].get("annotations", {})
    assert "affinity" not in stored["spec"]


async def test_a_pod_nobody_owns_is_refused(yard: Yard) -> None:
    with pytest.raises(Forbidden) as caught:
        await yard.create(yard.pod(None))
    assert refused(caught.value) == (403, "NotOwnedByInstance")
    assert f"Pod {yard.namespace}/alone" in caught.value.message


async def test_a_pod_of_an_instance_that_is_gone_is_refused(yard: Yard) -> None:
    instance = await yard.instance("web-0", "eth0")
    await yard.cell.delete(resources.INSTANCES, yard.namespace, "web-0")
    with pytest.raises(Forbidden) as caught:
        await yard.create(yard.pod(instance))
    assert refused(caught.value) == (403, "InstanceNotFound")


async def test_a_pod_of_an_instance_that_was_replaced_is_refused(yard: Yard) -> None:
    """T06: a namesake with another uid is another instance."""
    instance = await yard.instance("web-0", "eth0")
    await yard.cell.delete(resources.INSTANCES, yard.namespace, "web-0")
    await yard.instance("web-0", "eth0")
    with pytest.raises(Forbidden) as caught:
        await yard.create(yard.pod(instance))
    assert refused(caught.value) == (403, "InstanceReplaced")


async def test_a_pod_whose_instance_declares_nothing_is_refused(yard: Yard) -> None:
    instance = await yard.instance("web-0")
    with pytest.raises(Forbidden) as caught:
        await yard.create(yard.pod(instance))
    assert refused(caught.value) == (403, "NoInterfaceDeclared")


async def test_a_pod_whose_interface_is_missing_is_told_to_wait(yard: Yard) -> None:
    instance = await yard.instance("web-0", "eth0")
    with pytest.raises(ServerError) as caught:
        await yard.create(yard.pod(instance))
    assert refused(caught.value) == (503, "InterfaceNotBound")
    assert "web-0-eth0" in caught.value.message


async def test_a_pod_whose_interface_is_not_prepared_is_told_why(yard: Yard) -> None:
    """R31: Prepared is what gates the Pod; the refusal repeats its reason."""
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0", prepared=False)
    with pytest.raises(ServerError) as caught:
        await yard.create(yard.pod(instance))
    assert refused(caught.value) == (503, "InterfaceNotPrepared")
    assert "AwaitingVPC: so it is" in caught.value.message


async def test_a_pod_whose_interface_is_prepared_a_moment_ago_is_admitted(yard: Yard) -> None:
    """T18: the cache may lag behind Prepared; one live read before a refusal for something missing."""
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0", prepared=False)
    for _ in range(10):
        await yard.prepare("web-0-eth0", "True", "Prepared")
        await yard.create(yard.pod(instance))
        await yard.cell.json_patch(
            resources.PODS,
            yard.namespace,
            "web-0",
            [{"op": "add", "path": "/metadata/annotations/touched", "value": "1"}],
        )
        await yard.cell.delete(resources.PODS, yard.namespace, "web-0")
        await yard.prepare("web-0-eth0", "False", "AwaitingVPC")


async def test_a_pod_whose_definition_is_missing_is_told_to_wait(yard: Yard) -> None:
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0")
    await yard.create(yard.pod(instance))
    await yard.cell.delete(resources.NADS, yard.namespace, "web-0-eth0")

    async def told_to_wait() -> bool:
        await yard.cell.delete(resources.PODS, yard.namespace, "web-0")
        try:
            await yard.create(yard.pod(instance))
        except ServerError as error:
            return refused(error) == (503, "NetworkAttachmentNotFound")
        return False

    await until(told_to_wait, what="a refusal, as soon as the webhook has seen the deletion")


async def test_a_definition_that_a_tenant_put_in_place_is_not_used(yard: Yard) -> None:
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0")
    await yard.cell.delete(resources.NADS, yard.namespace, "web-0-eth0")
    await yard._create(resources.NADS, "web-0-eth0", {"config": "{}"})
    with pytest.raises(ApiError) as caught:
        await yard.create(yard.pod(instance))
    assert refused(caught.value) in {(403, "NetworkAttachmentForeign"), (503, "NetworkAttachmentNotFound")}


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({NETWORKS_ANNOTATION: '[{"name":'}, "AnnotationUnreadable"),
        ({NETWORKS_ANNOTATION: "a@net1"}, "InterfaceNameTaken"),
        ({DEFAULT_NETWORK_ANNOTATION: "kube-system/fast"}, "DefaultNetworkConflict"),
    ],
)
async def test_annotations_that_stand_in_the_way_are_refused(
    yard: Yard, annotations: dict[str, str], reason: str
) -> None:
    """T19."""
    instance = await yard.instance("web-0", "eth0", "data")
    await yard.interface("web-0-eth0", "eth0")
    await yard.interface("web-0-data", "net1")
    with pytest.raises(Forbidden) as caught:
        await yard.create(yard.pod(instance, annotations))
    assert refused(caught.value) == (403, reason)


async def test_a_pod_on_the_hosts_network_is_refused(yard: Yard) -> None:
    """R33: no CNI call would come for it: it would boot unattached."""
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0")
    with pytest.raises(Forbidden) as caught:
        await yard.create(yard.pod(instance, hostNetwork=True))
    assert refused(caught.value) == (403, "HostNetwork")


async def test_kubectl_prints_the_refusal(yard: Yard, control_plane: ControlPlane) -> None:
    """R33: what a person sees names the Pod, the instance and what to do."""
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", **yard.pod(None)})
    printed = control_plane.kubectl("create", "-f", "-", stdin=pod, check=False)
    assert "Error from server" in printed
    assert f"Pod {yard.namespace}/alone" in printed
    assert "run the Pod through a Workload" in printed


@pytest.mark.parametrize(
    "patch",
    [
        {"op": "remove", "path": f"/metadata/labels/{INJECT_LABEL.replace('/', '~1')}"},
        {"op": "replace", "path": f"/metadata/annotations/{INJECTED_ANNOTATION.replace('/', '~1')}", "value": "[]"},
        {"op": "add", "path": f"/metadata/annotations/{NETWORKS_ANNOTATION.replace('/', '~1')}", "value": "other/net"},
        {"op": "remove", "path": f"/metadata/annotations/{DEFAULT_NETWORK_ANNOTATION.replace('/', '~1')}"},
    ],
)
@pytest.mark.parametrize("subresource", [None, "status"])
async def test_what_was_injected_never_changes(yard: Yard, patch: Raw, subresource: str | None) -> None:
    """The policy keeps label and annotations as they were; the rest of the Pod stays free."""
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0")
    await yard.create(yard.pod(instance))
    with pytest.raises(ApiError, match="never change"):
        await yard.cell.json_patch(resources.PODS, yard.namespace, "web-0", [patch], subresource=subresource)
    free = {"op": "add", "path": "/metadata/annotations/mine", "value": "1"}
    await yard.cell.json_patch(resources.PODS, yard.namespace, "web-0", [free], subresource=subresource)


async def test_a_pod_cannot_opt_in_afterwards(yard: Yard) -> None:
    """A label that nothing acted upon would claim interfaces that are not there."""
    pod = yard.pod(None)
    pod["metadata"]["labels"] = {"app": "web"}
    await yard.create(pod)
    opt_in = {"op": "add", "path": f"/metadata/labels/{INJECT_LABEL.replace('/', '~1')}", "value": "true"}
    with pytest.raises(ApiError, match="never change"):
        await yard.cell.json_patch(resources.PODS, yard.namespace, "alone", [opt_in])
