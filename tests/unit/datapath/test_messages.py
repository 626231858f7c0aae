"""What is sent to the kernel says what was planned: each object as bytes, by our reading and by pyroute2's."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroute2.netlink import nla_base
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from node_agent.datapath import decode, links, messages, plan, wire
from node_agent.datapath.messages import Message
from node_agent.datapath.model import Attachment, NodeConfig, RemotePrefix, Routing, Vpc
from node_agent.datapath.objects import DeviceAddress, Ensure, Neighbour, Object, ProxyNeighbour, Route, Rule, Veth
from tests.unit.datapath.strategies import attachments, config, configs, remotes, unhurried, vpcs

CLASSES = {"link": ifinfmsg, "address": ifaddrmsg, "route": rtmsg, "neighbour": ndmsg, "rule": fibmsg}
for encapsulation in (rtmsg.seg6_encap_info, rtmsg.seg6local_encap_info):
    # pyroute2 knows two modes and reads every other as "encap".
    encapsulation.ipv6_sr_hdr.r_encapmodes[3] = messages.RED


class Reading:
    """A message as pyroute2 reads it: somebody else's eyes on the bytes that we send."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def get(self, key: str, default: Any = None) -> Any:
        value = self._content.get(key, default)
        if isinstance(value, dict) and "value" in value:
            value = value["value"]
        if isinstance(value, nla_base) and "attrs" in value:
            return Reading(value)
        return value


def _ours(message: Message) -> dict[str, Any]:
    (part,) = wire.parts(wire.encode(message, 1))
    read = wire.decode(part)
    assert read is not None
    return read


def _theirs(message: Message) -> Reading:
    read = CLASSES[message.kind](wire.encode(message, 1, 9))
    read.decode()
    return Reading(read)


READERS = pytest.mark.parametrize("read", [_ours, _theirs], ids=["our reading", "pyroute2's reading"])


def _there_and_back(thing: Object, read: Callable[[Message], Any] = _ours) -> Object | None:
    devices = messages.devices_of(thing)
    index = {name: number for number, name in enumerate(devices, start=7)}
    names = {number: name for name, number in index.items()}
    received = read(messages.ensure(thing, index))
    match thing:
        case Rule():
            return decode.rule(received)
        case Route():
            return decode.route(received, names)
        case Neighbour() | ProxyNeighbour():
            return decode.neighbour(received, devices[0])
        case DeviceAddress():
            return decode.address(received, devices[0])


@READERS
@unhurried
@given(settings=configs, attachment=attachments(), vpc=vpcs, remote=remotes)
def test_every_object_that_is_planned_reads_back_as_itself(
    settings: NodeConfig,
    attachment: Attachment,
    vpc: Vpc,
    remote: RemotePrefix,
    read: Callable[[Message], Any],
) -> None:
    """node-agent.md: read back what was installed (an unknown seg6 mode silently becomes encap)."""
    objects: set[Object] = {
        *plan.node_objects(settings),
        *plan.vpc_tables(settings, vpc),
        *plan.vpc_rules(settings, vpc),
        *plan.vpc_segments(settings, vpc),
        *plan.attachment_rules(settings, attachment),
        *plan.host_objects(settings, attachment),
        *plan.guest_objects(attachment),
        *plan.remote_objects(settings, vpc, remote),
        *(each for gateway in plan.gateways(attachment) for each in plan.gateway_objects(settings, vpc, gateway)),
    }
    for thing in objects:
        assert _there_and_back(thing, read) == thing


def test_a_segment_is_encapsulated_in_reduced_form() -> None:
    """node-agent.md: encap.red is mode 3; anything else is 24 bytes longer, and full-size packets die."""
    remote = RemotePrefix(plan.DEFAULT[4], config(Routing.RULES).locator[4])
    outer, _ = plan.remote_objects(config(Routing.RULES), Vpc(1, 1), remote)
    header = _theirs(messages.ensure(outer, {outer.dev or "": 1})).get("RTA_ENCAP").get("SEG6_IPTUNNEL_SRH")
    assert header["encapmode"] == 3


def test_any_other_encapsulation_reads_back_as_none() -> None:
    """So that a check names a route that was silently installed with another mode."""
    message = messages.Message(
        "route",
        messages.NEW_ROUTE,
        messages.REQUEST,
        {"family": 2, "dst_len": 32, "type": 1, "table": 252, "proto": 110},
        (
            ("RTA_TABLE", 150001),
            ("RTA_DST", "10.0.0.1"),
            ("RTA_ENCAP_TYPE", messages.SEG6),
            ("RTA_ENCAP", {"attrs": [("SEG6_IPTUNNEL_SRH", {"mode": "encap", "segs": ["fd5f::1"]})]}),
        ),
    )
    found = decode.route(_ours(message), {})
    assert found is not None
    assert found.encap is None


def test_a_veth_says_mac_mtu_and_mark_of_both_ends_in_the_creating_message() -> None:
    """T15: udev and others that watch have nothing to change."""
    veth = Veth(
        name="G000000010001H",
        mac="02:00:00:00:00:01",
        mtu=1400,
        alias="netclaim x",
        peer="eth0",
        peer_mac="0a:1",
        netns="/n",
    )
    message = messages.new_veth(veth)
    attributes = dict(message.attributes)
    assert (attributes["IFLA_ADDRESS"], attributes["IFLA_MTU"]) == ("02:00:00:00:00:01", 1400)
    information = dict(attributes["IFLA_LINKINFO"]["attrs"])
    peer = dict(dict(information["IFLA_INFO_DATA"]["attrs"])["VETH_INFO_PEER"]["attrs"])
    assert (peer["IFLA_ADDRESS"], peer["IFLA_MTU"], peer["IFLA_NET_NS_FD"]) == ("0a:1", 1400, "/n")


def test_a_rule_of_the_kernels_own_is_not_ours() -> None:
    """The sweep removes nothing that does not carry our protocol number."""
    rule = Rule(family=4, priority=0, table=plan.LOCAL_TABLE, ours=False)
    assert _there_and_back(rule) == rule
    assert "FRA_PROTOCOL" not in dict(messages.remove(rule, {}).attributes)


def test_an_address_that_is_tentative_or_failed_is_not_there() -> None:
    """T13: never tentative or dadfailed on return; CHECK names it as missing."""
    address = next(
        each
        for each in plan.host_objects(config(Routing.VRF), _dual())
        if isinstance(each, DeviceAddress) and each.interface.version == 6
    )
    message = messages.ensure(address, {address.dev: 3})
    assert decode.address(_ours(message), address.dev) == address
    for bad in (0x40, 0x08):
        attributes = tuple(
            (name, value | bad) if name == "IFA_FLAGS" else (name, value) for name, value in message.attributes
        )
        changed = Message(message.kind, message.type, message.flags, message.fields, attributes)
        assert decode.address(_ours(changed), address.dev) is None


def _dual() -> Attachment:
    return Attachment.from_json(
        {
            "vpc": 62,
            "index": 1,
            "attachment": 65,
            "mode": "Netns",
            "mtu": 1460,
            "guestInterface": "eth0",
            "guestMAC": "0a:00:00:00:00:01",
            "addresses": [{"address": "fd20:0:1::2:0:1/96", "gateway": "fd20:0:1::1"}],
            "owner": "c",
        }
    )


@unhurried
@given(st.binary(max_size=400))
def test_a_garbled_link_event_is_read_without_harm(datagram: bytes) -> None:
    """T22: an event that makes no sense ends nothing and never loops."""
    for event in links.parse(datagram):
        assert event.name is not None


@pytest.mark.parametrize(
    ("kind", "flags", "expected"), [(16, 1, (True, False)), (16, 0, (False, False)), (17, 0, (False, True))]
)
def test_a_link_event_says_which_device_and_whether_it_is_up_or_gone(
    kind: int, flags: int, expected: tuple[bool, bool]
) -> None:
    """node-agent.md: link events reconcile."""
    message = Message(
        "link", kind, 0, {"flags": flags, "index": 5}, (("IFLA_MTU", 1460), ("IFLA_IFNAME", "V00000000AI"))
    )
    sent = wire.encode(message, 0)
    (event,) = links.parse(sent)
    assert (event.name, event.up, event.gone) == ("V00000000AI", *expected)
    assert len(links.parse(sent * 3)) == 3


@READERS
def test_a_new_veth_reads_as_one(read: Callable[[Message], Any]) -> None:
    """The nested parts of the creating message lie where the kernel looks for them."""
    veth = Veth(name="G0H", mac="02:00:00:00:00:01", mtu=1400, alias="a", peer="eth0", peer_mac="0a:00:00:00:00:01")
    found = read(messages.new_veth(veth))
    assert (found.get("IFLA_IFNAME"), found.get("IFLA_ADDRESS"), found.get("IFLA_MTU")) == ("G0H", veth.mac, 1400)
    assert found.get("IFLA_LINKINFO").get("IFLA_INFO_KIND") == "veth"


def test_pyroute2_finds_the_peer_of_a_new_veth_in_its_namespace() -> None:
    """The peer is a link message of its own inside the first."""
    veth = Veth(
        name="G0H", mac="02:00:00:00:00:01", mtu=1400, alias="a", peer="eth0", peer_mac="0a:00:00:00:00:01", netns="/n"
    )
    data = _theirs(messages.new_veth(veth)).get("IFLA_LINKINFO").get("IFLA_INFO_DATA")
    peer = data.get("VETH_INFO_PEER")
    assert (peer.get("IFLA_IFNAME"), peer.get("IFLA_ADDRESS"), peer.get("IFLA_NET_NS_FD")) == ("eth0", veth.peer_mac, 9)


@pytest.mark.parametrize(("body", "expected"), [(0, None), (-17, (17, "")), (-2, (2, ""))])
def test_an_acknowledgement_is_told_from_a_refusal(body: int, expected: tuple[int, str] | None) -> None:
    """errors carry what the kernel said."""
    part = wire.Part(wire.ERROR, wire.CAPPED, 1, body.to_bytes(4, "little", signed=True) + bytes(16))
    assert wire.refusal(part) == expected


def test_the_kernels_own_words_are_kept() -> None:
    """A refusal says more than an errno where the kernel does."""
    words = b"Invalid prefix\0"
    attribute = (4 + len(words)).to_bytes(2, "little") + b"\1\0" + words
    body = (-22).to_bytes(4, "little", signed=True) + bytes(16) + attribute
    assert wire.refusal(wire.Part(wire.ERROR, wire.CAPPED | wire.EXTENDED, 1, body)) == (22, "Invalid prefix")


@unhurried
@given(st.binary(max_size=400))
def test_a_garbled_answer_is_read_without_harm(datagram: bytes) -> None:
    """Whatever comes is read to its end, or left."""
    for part in wire.parts(datagram):
        try:
            wire.decode(part)
        except (ValueError, struct.error):
            continue


def test_steps_are_values() -> None:
    """style.md: plans are small frozen dataclasses."""
    rule = Rule(family=4, priority=1, table=2)
    assert Ensure(rule) == Ensure(Rule(family=4, priority=1, table=2))
    assert len({Ensure(rule), Ensure(rule)}) == 1
