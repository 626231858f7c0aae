"""What is sent to the kernel says what was planned: every object, through pyroute2's own encoding and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_agent.datapath import decode, links, messages, plan
from node_agent.datapath.messages import Message
from node_agent.datapath.model import Attachment, NodeConfig, RemotePrefix, Routing, Vpc
from node_agent.datapath.netlink import encode
from node_agent.datapath.objects import DeviceAddress, Ensure, Neighbour, Object, ProxyNeighbour, Route, Rule, Veth
from tests.unit.datapath.strategies import attachments, config, configs, remotes, unhurried, vpcs


def _received(message: Message) -> Any:
    """The message as the kernel would read it: encoded to bytes, decoded from them."""
    sent = encode(message)
    read = type(sent)(sent.data)
    read.decode()
    return read


def _there_and_back(thing: Object) -> Object | None:
    devices = messages.devices_of(thing)
    index = {name: number for number, name in enumerate(devices, start=7)}
    names = {number: name for name, number in index.items()}
    read = _received(messages.ensure(thing, index))
    match thing:
        case Rule():
            return decode.rule(read)
        case Route():
            return decode.route(read, names)
        case Neighbour() | ProxyNeighbour():
            return decode.neighbour(read, devices[0])
        case DeviceAddress():
            return decode.address(read, devices[0])


@unhurried
@given(configs, attachments(), vpcs, remotes)
def test_every_object_that_is_planned_reads_back_as_itself(
    settings: NodeConfig, attachment: Attachment, vpc: Vpc, remote: RemotePrefix
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
        assert _there_and_back(thing) == thing


def test_a_segment_is_encapsulated_in_reduced_form() -> None:
    """node-agent.md: encap.red is mode 3; anything else is 24 bytes longer, and full-size packets die."""
    remote = RemotePrefix(plan.DEFAULT[4], config(Routing.RULES).locator[4])
    outer, _ = plan.remote_objects(config(Routing.RULES), Vpc(1, 1), remote)
    header = _received(messages.ensure(outer, {outer.dev or "": 1})).get("RTA_ENCAP").get("SEG6_IPTUNNEL_SRH")
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
    found = decode.route(_received(message), {})
    assert found is not None
    assert found.encap is None


def test_a_veth_says_mac_mtu_and_mark_of_both_ends_in_the_creating_message() -> None:
    """T15: udev and others that watch have nothing to change."""
    veth = Veth(
        name="G000000010001H", mac="02:00:00:00:00:01", mtu=1400, alias="netclaim x", peer="eth0", peer_mac="0a:1"
    )
    message = messages.new_veth(veth, 9)
    attributes = dict(message.attributes)
    assert (attributes["IFLA_ADDRESS"], attributes["IFLA_MTU"]) == ("02:00:00:00:00:01", 1400)
    information = dict(attributes["IFLA_LINKINFO"]["attrs"])
    peer = dict(dict(information["IFLA_INFO_DATA"]["attrs"])["VETH_INFO_PEER"]["attrs"])
    assert (peer["IFLA_ADDRESS"], peer["IFLA_MTU"], peer["IFLA_NET_NS_FD"]) == ("0a:1", 1400, 9)


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
    assert decode.address(_received(message), address.dev) == address
    for bad in (0x40, 0x08):
        attributes = tuple(
            (name, value | bad) if name == "IFA_FLAGS" else (name, value) for name, value in message.attributes
        )
        changed = Message(message.kind, message.type, message.flags, message.fields, attributes)
        assert decode.address(_received(changed), address.dev) is None


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
    sent = encode(message)
    (event,) = links.parse(bytes(sent.data) * 1)
    assert (event.name, event.up, event.gone) == ("V00000000AI", *expected)
    assert len(links.parse(bytes(sent.data) * 3)) == 3


def test_steps_are_values() -> None:
    """style.md: plans are small frozen dataclasses."""
    rule = Rule(family=4, priority=1, table=2)
    assert Ensure(rule) == Ensure(Rule(family=4, priority=1, table=2))
    assert len({Ensure(rule), Ensure(rule)}) == 1
