"""What netclaim-cni sends, and what it is answered."""

import json

import pytest

from node_agent.cni import protocol, refusals
from node_agent.cni.protocol import Pod, Pointer, read_args, read_call
from node_agent.cni.refusals import Refusal
from tests.unit.agent.objects import a_call


def sent(**changes: object) -> bytes:
    call = {
        "protocol": 1,
        "verb": "ADD",
        "containerID": "sandbox-1",
        "netns": "/run/netns/guest",
        "ifName": "eth0",
        "args": "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-0;K8S_POD_UID=pod-uid;;odd",
        "config": a_call().config,
    }
    return json.dumps({**call, **changes}).encode() + b"\n"


def test_a_call_is_read_with_its_pod_and_where_it_points() -> None:
    call = read_call(sent())
    assert (call.key, call.netns, call.network) == (("sandbox-1", "eth0"), "/run/netns/guest", "shop.web-0-eth0")
    assert call.pod == Pod("shop", "web-0", "pod-uid")
    assert call.pointer() == Pointer("shop", "web-0-eth0", "A", "13")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", refusals.UNREADABLE),
        (b"[]", refusals.UNREADABLE),
        (sent(protocol=2), refusals.PROTOCOL),
        (sent(verb="PURGE"), refusals.UNKNOWN_VERB),
        (sent(containerID=7), refusals.UNREADABLE),
    ],
)
def test_what_is_no_call_is_refused_with_its_reason(line: bytes, reason: refusals.Reason) -> None:
    """T10: whatever arrives on the socket is answered, not crashed on."""
    with pytest.raises(Refusal) as caught:
        read_call(line)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    "change",
    [{"attachment": "shop/web-0-eth0"}, {"attachment": {"name": "web-0-eth0"}}, {"vpc": None}, {"vpcAttachment": 13}],
)
def test_a_configuration_that_points_nowhere_is_refused(change: dict[str, object]) -> None:
    call = a_call(config={**a_call().config, **change})
    with pytest.raises(Refusal) as caught:
        call.pointer()
    assert caught.value.reason is refusals.NO_POINTER


def test_a_delete_is_read_whatever_else_its_configuration_holds() -> None:
    """T10: DEL works with fields that cannot be parsed, and without any configuration."""
    for config in ({"attachment": 3, "prevResult": "no"}, None, []):
        call = read_call(sent(verb="DEL", config=config, netns=None, args=None))
        assert call.key == ("sandbox-1", "eth0")


def test_valid_attachments_are_none_when_missing_and_empty_when_empty() -> None:
    """plugins PR 1289: an empty list means all of this network, a missing one nothing."""
    key = "cni.dev/valid-attachments"
    assert a_call("GC").valid_attachments() is None
    assert a_call("GC", config={key: []}).valid_attachments() == frozenset()
    listed = [{"containerID": "a", "ifname": "eth0"}, {"containerID": "b"}, "odd"]
    assert a_call("GC", config={key: listed}).valid_attachments() == {("a", "eth0"), ("b", "")}


def test_arguments_that_are_no_pairs_are_left_out() -> None:
    assert read_args("A=1;B;=2;C=x=y") == {"A": "1", "C": "x=y"}


def test_answers_are_one_line_each() -> None:
    refusal = Refusal(refusals.NO_POD)
    assert json.loads(protocol.refused(refusal))["error"]["code"] == 4
    for line in (
        protocol.accepted(),
        protocol.answered({"ips": []}),
        protocol.answered(None),
        protocol.refused(refusal),
    ):
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
