"""May this call have the attachment, and what is programmed and reported for it."""

from typing import Any

import pytest

from node_agent.cni import refusals
from node_agent.cni.attachment import (
    Identity,
    check_free,
    check_identity,
    check_namespace,
    check_pod,
    node_facts,
    plan_attachment,
    read_attachment,
)
from node_agent.cni.refusals import Reason, Refusal
from node_agent.cni.result import cni_result
from node_agent.datapath.plan import guest_mac
from tests.unit.agent.objects import a_call, an_attachment

CALL = a_call()
POINTER = CALL.pointer()


def planned(raw: dict[str, Any], call: Any = CALL) -> Any:
    model = read_attachment(POINTER, raw)
    return plan_attachment(call, POINTER, model, check_identity(POINTER, model), 3)


def refused(reason: Reason, *values: str) -> Any:
    return pytest.raises(Refusal, match=".*".join([reason.word, *values]))


def test_the_plan_takes_everything_from_the_attachment_and_nothing_from_the_configuration() -> None:
    """vpc.md, NetworkAttachmentDefinition: it is a pointer; a tenant may have written it."""
    lying = a_call(config={**CALL.config, "mtu": 9000, "addresses": ["10.0.0.9/32"], "mode": "Hypervisor"})
    attachment = planned(an_attachment(), lying)
    assert attachment == planned(an_attachment())
    assert (attachment.mtu, attachment.device, attachment.owner) == (1460, "G00000000A013H", "sandbox-1/eth0")
    assert [str(a.interface) for a in attachment.addresses] == ["fd20:0:1:2::1/96", "10.128.0.2/32"]
    assert [str(a.gateway) for a in attachment.addresses] == ["fd20:0:1::1", "10.128.0.1"]


def test_a_pod_of_another_namespace_is_refused() -> None:
    """node-agent.md, Isolation 8: a Pod that names another namespace's NAD."""
    thief = a_call(args={"K8S_POD_NAMESPACE": "other", "K8S_POD_NAME": "thief"})
    with refused(refusals.OTHER_NAMESPACE, "other/thief", "shop/web-0-eth0"):
        check_namespace(thief, POINTER)


def test_a_netns_call_that_names_no_pod_is_refused_and_a_tap_call_is_not() -> None:
    with refused(refusals.NO_POD):
        check_pod(a_call(args={}), "Netns")
    check_pod(a_call(args={}), "Hypervisor")


def test_an_attachment_of_another_identity_is_refused_with_the_difference() -> None:
    """node-agent.md, Isolation 8: a hand-written NAD with another tenant's identity."""
    with refused(refusals.IDENTITY_DIFFERS, "VPC A attachment 13", "is VPC A attachment 1D"):
        check_identity(POINTER, read_attachment(POINTER, an_attachment(vpcAttachment="1D")))


def test_an_attachment_that_is_going_or_has_no_identity_yet_is_worth_another_try() -> None:
    going = an_attachment()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for raw, reason in ((going, refusals.ATTACHMENT_GOING), (an_attachment(vpc=None), refusals.NO_IDENTITY)):
        with refused(reason) as caught:
            check_identity(POINTER, read_attachment(POINTER, raw))
        assert caught.value.reason.code == refusals.TRY_AGAIN


def test_an_attachment_with_another_container_is_refused_unless_this_node_has_detached_that_one() -> None:
    model = read_attachment(POINTER, an_attachment(containerID="sandbox-0", podName="web-0", node="node-b"))
    with refused(refusals.OTHER_CONTAINER, "sandbox-0", "node-b"):
        check_free(CALL, POINTER, model, departed=())
    check_free(CALL, POINTER, model, departed={"sandbox-0"})
    check_free(CALL, POINTER, read_attachment(POINTER, an_attachment(containerID="sandbox-1")), departed=())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"gateways": ["fd20:0:1::1"]}, "10.128.0.2/32 has no gateway"),
        ({"gateways": ["fd20:0:1:2::9", "10.128.0.1"]}, "lies inside the guest's own block"),
        ({"mtu": 9_000_000}, "malformed"),
    ],
)
def test_what_cannot_be_programmed_is_refused_before_anything_is_touched(change: dict[str, Any], why: str) -> None:
    raw = an_attachment()
    raw["spec"]["interface"].update(change)
    with refused(refusals.NOT_PROGRAMMABLE, why):
        planned(raw)


def test_a_guest_that_addresses_itself_is_planned_without_addresses() -> None:
    """R18: spec.interface.addresses may be empty."""
    raw = an_attachment()
    raw["spec"]["interface"].update(addresses=[], gateways=[])
    attachment = planned(raw)
    assert attachment.addresses == ()
    assert "podSubnet" not in node_facts("node-a", CALL, attachment)


def test_the_facts_are_the_complete_set_that_the_agent_owns() -> None:
    """api.md, Who writes what; R20: vrfInterface is the per-VPC name."""
    assert node_facts("node-a", CALL, planned(an_attachment())) == {
        "node": "node-a",
        "podName": "web-0",
        "podUID": "pod-uid",
        "containerID": "sandbox-1",
        "hostInterface": "G00000000A013H",
        "guestInterface": "eth0",
        "vrfInterface": "G00000000AV",
        "podSubnet": "fd20:0:1:2::/96",
        "podSubnets": ["fd20:0:1:2::/96", "10.128.0.2/32"],
    }


def test_the_result_names_both_ends_the_primary_address_first_and_a_default_route_per_family() -> None:
    """R6, R37: what a runtime reads of an ADD."""
    result = cni_result(planned(an_attachment()), "/run/netns/guest")
    assert [i["name"] for i in result["interfaces"]] == ["G00000000A013H", "eth0"]
    assert [i.get("sandbox") for i in result["interfaces"]] == [None, "/run/netns/guest"]
    assert [(ip["interface"], ip["address"]) for ip in result["ips"]] == [
        (1, "fd20:0:1:2::1/96"),
        (1, "10.128.0.2/32"),
    ]
    assert result["routes"] == [{"dst": "::/0", "gw": "fd20:0:1::1"}, {"dst": "0.0.0.0/0", "gw": "10.128.0.1"}]


def test_a_tap_is_told_with_the_mac_that_its_machine_has_to_use() -> None:
    """R35: Hypervisor mode: the machine makes its interface itself; the node's neighbour entries name one MAC."""
    raw = an_attachment()
    raw["spec"]["interface"]["mode"] = "Hypervisor"
    result = cni_result(planned(raw, a_call(netns="")), "")
    host, guest = result["interfaces"]
    assert (host["name"], host.get("sandbox")) == ("G00000000A013H", None)
    assert (guest["name"], guest["mac"]) == ("eth0", guest_mac(36, 65))
    assert guest["sandbox"]
    assert {ip["interface"] for ip in result["ips"]} == {1}


def test_the_device_is_named_after_both_identifiers() -> None:
    """R28: the same device for every container of an attachment."""
    assert Identity(62, 1).device == "G000000010001H"
