"""What the webhook injects into a Pod, and in which form (R29, T19)."""

import json

import pytest

from netclaim.api.cni import DEFAULT_NETWORK_ANNOTATION, NETWORKS_ANNOTATION
from netclaim.api.networking import INJECTED_ANNOTATION
from tests.unit.webhook.pods import AFFINITY, decided, observed, patched, pod, refusal
from webhook import refusals
from webhook.inject import Admission


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
