"""The webhook's decision about a Pod: what is injected, in which form, and why a Pod is refused (R29, R33, T19)."""

import json
from typing import Any

import pytest

from netclaim.api.cloud import VPCAttachment
from netclaim.api.cni import DEFAULT_NETWORK_ANNOTATION, NETWORKS_ANNOTATION, NetworkAttachmentDefinition
from netclaim.api.compute import Instance
from netclaim.api.networking import INJECT_LABEL, INJECTED_ANNOTATION, NetworkInterface
from webhook import refusals
from webhook.inject import Admission, Observed, decide
from webhook.refusals import Refusal

NODE_LABELS = {"kubernetes.io/os": "linux"}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
            ]
        }
    }
}


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "web-0",
            "labels": {INJECT_LABEL: "true"},
            **({"annotations": annotations} if annotations is not None else {}),
            "ownerReferences": [
                {
                    "apiVersion": "compute.datumapis.com/v1alpha",
                    "kind": "Instance",
                    "name": "web-0",
                    "uid": "u-instance",
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "web", "image": "web:1"}], **spec},
    }


def interface(name: str, inside: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"u-{name}"},
        "spec": {
            "network": {"name": "default"},
            "claimRef": {"name": name, "uid": f"c-{name}"},
            "interfaceName": inside,
            "mtu": 1460,
            "addresses": [{"family": "IPv4", "address": "10.0.0.7/32", "primary": True}],
        },
        "status": {
            "phase": "Bound",
            "attachmentRef": {"name": name},
            "conditions": [{"type": "Prepared", "status": "True", "reason": "Prepared"}],
            **status,
        },
    }


def observed(*names: tuple[str, str], mode: str = "Netns") -> dict[str, Any]:
    """Raw objects of an instance whose interfaces are (object name, name inside the Pod)."""
    return {
        "instance": {
            "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-instance"},
            "spec": {
                "workloadRef": {"name": "web", "uid": "u-workload"},
                "ordinal": 0,
                "templateHash": "x",
                "template": {"spec": {}},
                "networkInterfaces": [
                    {"name": name.rpartition("-")[2], "claimRef": {"name": name, "uid": f"c-{name}"}}
                    for name, _ in names
                ],
            },
        },
        "interfaces": {name: interface(name, inside) for name, inside in names},
        "attachments": {
            name: {
                "metadata": {"name": name, "namespace": "shop", "uid": f"a-{name}"},
                "spec": {"vpc": {"name": "default-home"}, "interface": {"name": inside, "mode": mode}},
            }
            for name, inside in names
        },
        "definitions": {
            name: {
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "ownerReferences": [
                        {
                            "apiVersion": "cloud.datumapis.com/v1alpha1",
                            "kind": "VPCAttachment",
                            "name": name,
                            "uid": f"a-{name}",
                            "controller": True,
                        }
                    ],
                },
                "spec": {"config": "{}"},
            }
            for name, _ in names
        },
    }


def decided(request: dict[str, Any], world: dict[str, Any]) -> Admission | Refusal:
    return decide(
        request,
        "shop",
        Observed(
            Instance.model_validate(world["instance"]) if world["instance"] else None,
            {name: NetworkInterface.model_validate(raw) for name, raw in world["interfaces"].items()},
            {("shop", name): VPCAttachment.model_validate(raw) for name, raw in world["attachments"].items()},
            {
                ("shop", name): NetworkAttachmentDefinition.model_validate(raw)
                for name, raw in world["definitions"].items()
            },
        ),
        NODE_LABELS,
    )


def patched(request: dict[str, Any], world: dict[str, Any]) -> dict[str, Any]:
    """The Pod as it would be stored; fails on a refusal. Understands the operations that the webhook sends."""
    verdict = decided(request, world)
    assert isinstance(verdict, Admission), verdict
    stored = json.loads(json.dumps(request))
    for operation in verdict.patch:
        assert operation["op"] == "add"
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].lstrip("/").split("/")
        ]
        target = stored
        for part in parents:
            target = target[part]
        target[last] = operation["value"]
    return stored


def refusal(request: dict[str, Any], world: dict[str, Any]) -> Refusal:
    verdict = decided(request, world)
    assert isinstance(verdict, Refusal), verdict
    return verdict


def test_an_eth0_in_netns_mode_becomes_the_pods_default_network_and_no_networks_entry() -> None:
    """R29: Multus gives eth0 to the default network; a second eth0 fails in the kernel."""
    stored = patched(pod(), observed(("web-0-eth0", "eth0")))
    annotations = stored["metadata"]["annotations"]
    assert annotations[DEFAULT_NETWORK_ANNOTATION] == "shop/web-0-eth0"
    assert NETWORKS_ANNOTATION not in annotations
    assert json.loads(annotations[INJECTED_ANNOTATION]) == [
        {
            "name": "eth0",
            "interface": "web-0-eth0",
            "interfaceName": "eth0",
            "network": "shop/web-0-eth0",
            "mode": "Netns",
            "defaultNetwork": True,
        }
    ]
    assert stored["spec"]["affinity"] == AFFINITY


def test_other_interfaces_become_networks_entries_under_their_own_names() -> None:
    """R29: one entry per interface with its name."""
    stored = patched(pod(), observed(("web-0-eth0", "eth0"), ("web-0-data", "data0"), ("web-0-x", "net7")))
    annotations = stored["metadata"]["annotations"]
    assert annotations[NETWORKS_ANNOTATION] == "shop/web-0-data@data0,shop/web-0-x@net7"
    assert annotations[DEFAULT_NETWORK_ANNOTATION] == "shop/web-0-eth0"


def test_in_hypervisor_mode_eth0_stays_the_clusters_and_the_interface_is_a_networks_entry() -> None:
    """A virtual machine has an eth0 of its own inside."""
    annotations = patched(pod(), observed(("web-0-eth0", "eth0"), mode="Hypervisor"))["metadata"]["annotations"]
    assert annotations[NETWORKS_ANNOTATION] == "shop/web-0-eth0@eth0"
    assert DEFAULT_NETWORK_ANNOTATION not in annotations


@pytest.mark.parametrize(
    ("present", "stored"),
    [
        ("", "shop/web-0-data@net1"),
        ("a", "shop/a,shop/web-0-data@net1"),
        ("a,b", "shop/a,shop/b,shop/web-0-data@net1"),
        ("other/a@if0", "other/a@if0,shop/web-0-data@net1"),
        ("web-0-data", "shop/web-0-data@net1"),
        ("a, shop/web-0-data@net1", "a, shop/web-0-data@net1"),
    ],
)
def test_a_comma_list_stays_a_comma_list(present: str, stored: str) -> None:
    """T19: the networks annotation is extended in the form that it is in, without duplicates."""
    after = patched(pod({NETWORKS_ANNOTATION: present}), observed(("web-0-data", "net1")))
    assert after["metadata"]["annotations"][NETWORKS_ANNOTATION] == stored


def test_a_json_list_stays_a_json_list_and_keeps_the_keys_that_are_not_ours() -> None:
    """T19."""
    present = '[{"name":"a","ips":["10.9.0.1/24"]},{"name":"web-0-data","namespace":"shop","mac":"02:00:00:00:00:09"}]'
    after = patched(pod({NETWORKS_ANNOTATION: present}), observed(("web-0-data", "net1"), ("web-0-b", "net2")))
    assert json.loads(after["metadata"]["annotations"][NETWORKS_ANNOTATION]) == [
        {"name": "a", "namespace": "shop", "ips": ["10.9.0.1/24"]},
        {"name": "web-0-data", "namespace": "shop", "interface": "net1", "mac": "02:00:00:00:00:09"},
        {"name": "web-0-b", "namespace": "shop", "interface": "net2"},
    ]


def test_a_name_with_a_dot_is_written_as_json_because_the_comma_form_cannot_say_it() -> None:
    """Multus refuses a comma entry whose name is not a DNS label."""
    annotations = patched(pod({NETWORKS_ANNOTATION: "a"}), observed(("a.b-0-x", "net1")))["metadata"]["annotations"]
    assert json.loads(annotations[NETWORKS_ANNOTATION]) == [
        {"name": "a", "namespace": "shop"},
        {"name": "a.b-0-x", "namespace": "shop", "interface": "net1"},
    ]
    annotations = patched(pod(), observed(("a.b-0-eth0", "eth0")))["metadata"]["annotations"]
    assert json.loads(annotations[DEFAULT_NETWORK_ANNOTATION]) == [{"name": "a.b-0-eth0", "namespace": "shop"}]


@pytest.mark.parametrize(
    "present",
    [
        '[{"name": ',
        '{"name":"a"}',
        '[{"namespace":"shop"}]',
        '[{"name":"a","interface":7}]',
        "a,,b",
        "a@b@c",
        "a/b/c",
        "A",
    ],
)
def test_an_annotation_that_multus_could_not_read_is_refused(present: str) -> None:
    """T19: broken JSON is refused, never replaced."""
    verdict = refusal(pod({NETWORKS_ANNOTATION: present}), observed(("web-0-data", "net1")))
    assert (verdict.reason, verdict.code) == (refusals.ANNOTATION_UNREADABLE, 403)
    assert NETWORKS_ANNOTATION in verdict.message


@pytest.mark.parametrize("mode", ["Netns", "Hypervisor"])
@pytest.mark.parametrize(
    "annotations", [None, {}, {NETWORKS_ANNOTATION: "a,b@x"}, {NETWORKS_ANNOTATION: '[{"name":"a"}]'}]
)
def test_a_second_invocation_changes_nothing(mode: str, annotations: dict[str, str] | None) -> None:
    """T19: reinvocationPolicy IfNeeded calls again on the Pod that we already patched."""
    world = observed(("web-0-eth0", "eth0"), ("web-0-data", "net1"), mode=mode)
    once = patched(pod(annotations), world)
    assert decided(once, world) == Admission(())


def test_a_pod_that_asks_for_another_default_network_is_refused() -> None:
    verdict = refusal(pod({DEFAULT_NETWORK_ANNOTATION: "kube-system/fast"}), observed(("web-0-eth0", "eth0")))
    assert (verdict.reason, verdict.code) == (refusals.DEFAULT_NETWORK_CONFLICT, 403)
    assert "kube-system/fast" in verdict.message


def test_a_default_network_of_the_pods_own_stays_when_no_interface_is_its_eth0() -> None:
    stored = patched(pod({DEFAULT_NETWORK_ANNOTATION: "kube-system/fast"}), observed(("web-0-data", "net1")))
    assert stored["metadata"]["annotations"][DEFAULT_NETWORK_ANNOTATION] == "kube-system/fast"


@pytest.mark.parametrize(
    ("names", "present", "taken_by"),
    [
        ([("web-0-data", "net1")], "a@net1", "shop/a@net1"),
        ([("web-0-data", "net1")], "web-0-data@net2", "shop/web-0-data@net2"),
        ([("web-0-data", "net1")], "web-0-data,web-0-data", "shop/web-0-data"),
        ([("web-0-eth0", "eth0")], "web-0-eth0", "shop/web-0-eth0"),
        ([("web-0-eth0", "eth0")], "a@eth0", "shop/a@eth0"),
        ([("web-0-eth0", "eth0"), ("web-0-b", "eth0")], "", "interface eth0"),
    ],
)
def test_two_interfaces_of_one_name_are_refused(names: list[tuple[str, str]], present: str, taken_by: str) -> None:
    verdict = refusal(pod({NETWORKS_ANNOTATION: present}), observed(*names))
    assert (verdict.reason, verdict.code) == (refusals.INTERFACE_NAME_TAKEN, 403)
    assert taken_by in verdict.message


def test_the_node_requirement_is_added_to_every_alternative_that_selects_a_node() -> None:
    """The terms are alternatives; a term without expressions selects nothing and must not begin to."""
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    ours = AFFINITY["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    before = {
        "podAffinity": {"x": 1},
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [],
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [zone]},
                    {},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
                ]
            },
        },
    }
    after = patched(pod(affinity=before), observed(("web-0-data", "net1")))["spec"]["affinity"]
    assert after["podAffinity"] == {"x": 1}
    assert after["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchExpressions": [zone, *ours["matchExpressions"]]},
        {},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}], **ours},
    ]


def _without_owner(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["metadata"]["ownerReferences"] = []


def _owned_by_replica_set(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["metadata"]["ownerReferences"][0] |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}


def _instance_of_another_group(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["metadata"]["ownerReferences"][0]["apiVersion"] = "compute.example.com/v1alpha"


def _owner_does_not_control(request: dict[str, Any], world: dict[str, Any]) -> None:
    del request["metadata"]["ownerReferences"][0]["controller"]


def _instance_gone(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"] = None


def _other_uid(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"]["metadata"]["uid"] = "u-new"


def _instance_going(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _nothing_declared(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"]["spec"]["networkInterfaces"] = []


def _no_interface(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"] = {}


def _available(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["status"]["phase"] = "Available"


def _other_claim(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["spec"]["claimRef"]["uid"] = "c-older"


def _not_prepared(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["status"]["conditions"] = [
        {"type": "Prepared", "status": "False", "reason": "AwaitingVPC", "message": "VPC default-home is not there"}
    ]


def _never_prepared(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["status"]["conditions"] = []


def _interface_going(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _no_attachment(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["attachments"] = {}


def _attachment_going(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["attachments"]["web-0-eth0"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _no_definition(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["definitions"] = {}


def _foreign_definition(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["definitions"]["web-0-eth0"]["metadata"]["ownerReferences"][0]["uid"] = "a-tenant"


def _host_network(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["spec"]["hostNetwork"] = True


@pytest.mark.parametrize(
    ("spoil", "reason", "code", "named", "rechecked"),
    [
        (_without_owner, refusals.NOT_OWNED_BY_INSTANCE, 403, "Workload", None),
        (_owned_by_replica_set, refusals.NOT_OWNED_BY_INSTANCE, 403, INJECT_LABEL, None),
        (_instance_of_another_group, refusals.NOT_OWNED_BY_INSTANCE, 403, INJECT_LABEL, None),
        (_owner_does_not_control, refusals.NOT_OWNED_BY_INSTANCE, 403, INJECT_LABEL, None),
        (_instance_gone, refusals.INSTANCE_NOT_FOUND, 403, "instance web-0", "Instance shop/web-0"),
        (_other_uid, refusals.INSTANCE_REPLACED, 403, "u-new", "Instance shop/web-0"),
        (_instance_going, refusals.INSTANCE_TERMINATING, 403, "instance web-0", None),
        (_nothing_declared, refusals.NO_INTERFACE_DECLARED, 403, "networkInterfaceClaimTemplate", None),
        (_no_interface, refusals.INTERFACE_NOT_BOUND, 503, "claim web-0-eth0", "NetworkInterface shop/web-0-eth0"),
        (_available, refusals.INTERFACE_NOT_BOUND, 503, "Available", "NetworkInterface shop/web-0-eth0"),
        (_other_claim, refusals.INTERFACE_NOT_BOUND, 503, "c-older", "NetworkInterface shop/web-0-eth0"),
        (_not_prepared, refusals.INTERFACE_NOT_PREPARED, 503, "AwaitingVPC", "NetworkInterface shop/web-0-eth0"),
        (_never_prepared, refusals.INTERFACE_NOT_PREPARED, 503, "web-0-eth0", "NetworkInterface shop/web-0-eth0"),
        (_interface_going, refusals.INTERFACE_NOT_PREPARED, 503, "deleted", "NetworkInterface shop/web-0-eth0"),
        (_no_attachment, refusals.ATTACHMENT_NOT_FOUND, 503, "VPCAttachment", "VPCAttachment shop/web-0-eth0"),
        (_attachment_going, refusals.ATTACHMENT_NOT_FOUND, 503, "deleted", "VPCAttachment shop/web-0-eth0"),
        (
            _no_definition,
            refusals.NETWORK_ATTACHMENT_NOT_FOUND,
            503,
            "web-0-eth0",
            "NetworkAttachmentDefinition shop/web-0-eth0",
        ),
        (
            _foreign_definition,
            refusals.NETWORK_ATTACHMENT_FOREIGN,
            403,
            "delete it",
            "NetworkAttachmentDefinition shop/web-0-eth0",
        ),
        (_host_network, refusals.HOST_NETWORK, 403, "host's network", None),
    ],
)
def test_a_pod_that_cannot_be_attached_is_refused_with_what_to_do(
    spoil: Any, reason: str, code: int, named: str, rechecked: str | None
) -> None:
    """R33: a Pod is never admitted unattached; what is missing is looked up live once before it is refused."""
    request, world = pod(), observed(("web-0-eth0", "eth0"))
    spoil(request, world)
    verdict = refusal(request, world)
    assert (verdict.reason, verdict.code) == (reason, code)
    assert verdict.message.startswith("Pod shop/web-0: ")
    assert named in verdict.message
    assert (str(verdict.recheck) if verdict.recheck else None) == rechecked


def test_every_reason_has_its_message() -> None:
    reasons = {
        value
        for name, value in vars(refusals).items()
        if name.isupper() and isinstance(value, str) and not name.startswith("_")
    }
    assert reasons == set(refusals.MESSAGES)
    assert reasons >= refusals.WAITING_HELPS
