"""Guests of one network reach each other; two networks never meet (node-agent.md, isolation 1 and 2)."""

import errno

import pytest

from tests.net.datapath.backend import VRF
from tests.net.datapath.lab import GATEWAY4, GATEWAY6
from tests.net.datapath.scene import (
    FAMILIES,
    TWO,
    UNREACHABLE,
    Scene,
    answered,
    error_of,
    frame,
    token,
)

GATEWAY = {4: GATEWAY4, 6: GATEWAY6}


@pytest.mark.parametrize("family", FAMILIES)
async def test_guests_of_one_network_reach_each_other_on_one_node(stage: Scene, family: int) -> None:
    """R35: isolation 1."""
    assert await answered(stage.one_a, stage.one_c, family)


@pytest.mark.parametrize("family", FAMILIES)
async def test_guests_of_one_network_reach_each_other_across_nodes_both_ways(stage: Scene, family: int) -> None:
    """R35: isolation 1."""
    assert await answered(stage.one_a, stage.one_b, family)
    assert await answered(stage.one_b, stage.one_c, family)
    assert await answered(stage.two_a, stage.two_b, family)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_packet_of_the_full_mtu_passes_between_nodes(stage: Scene, family: int) -> None:
    """R35: isolation 1, and the trap that an unknown seg6 mode silently becomes 24 bytes longer."""
    assert await answered(stage.one_a, stage.one_b, family, size=1460 - (28 if family == 4 else 48))


async def test_the_packet_on_the_underlay_is_reduced_encapsulation_to_the_sid_of_the_vpc(stage: Scene) -> None:
    """node-agent.md: one SID per VPC and node (and family, without VRF): locator, VPC 48 bits, function 16; no SRH."""
    uplink, sender, content = await stage.one_b.node.uplink(), await stage.one_a.sniffer(), token()
    sender.send(frame(stage.one_a, stage.one_a.ipv4, stage.one_b.ipv4, content))
    await uplink.until(content)
    outer = next(each for each in uplink.read() if content in each)
    assert outer[14 + 6] == 4  # the next header is IPv4 itself
    assert outer[14 + 24 : 14 + 40].hex() == "fd5f000000000002" + f"{stage.one_a.vpc[0]:012x}" + (
        "0046" if VRF else "0004"
    )
    uplink.close()
    sender.close()


@pytest.mark.parametrize("family", FAMILIES)
async def test_each_network_gets_its_own_packets_where_addresses_are_the_same(stage: Scene, family: int) -> None:
    """R35, R14: isolation 2."""
    first, second = await stage.one_b.sniffer(), await stage.two_b.sniffer()
    of_one, of_two = token(), token()
    senders = [await stage.one_a.sniffer(), await stage.two_a.sniffer()]
    senders[0].send(frame(stage.one_a, stage.one_a.address(family), stage.one_b.address(family), of_one))
    senders[1].send(frame(stage.two_a, stage.two_a.address(family), stage.two_b.address(family), of_two))
    await first.until(of_one)
    await second.until(of_two)
    assert not first.saw(of_two)
    assert not second.saw(of_one)
    for each in (first, second, *senders):
        each.close()


@pytest.mark.parametrize("family", FAMILIES)
async def test_an_address_that_only_the_other_network_has_is_unreachable_and_the_gateway_says_so(
    stage: Scene, family: int
) -> None:
    """R35: isolation 2 and 6: the error comes from the gateway's address, never from one of the node."""
    offender, code, _ = await error_of(stage.two_a, family, stage.one_c.address(family))
    assert offender == GATEWAY[family]
    assert code in UNREACHABLE


@pytest.mark.parametrize("family", FAMILIES)
async def test_time_exceeded_comes_from_the_gateway(stage: Scene, family: int) -> None:
    """R35: isolation 6."""
    offender, code, _ = await error_of(stage.one_a, family, stage.one_b.address(family), ttl=1)
    assert (offender, code) == (GATEWAY[family], errno.EHOSTUNREACH)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_guest_with_a_larger_mtu_is_told_what_fits_by_the_gateway(stage: Scene, family: int) -> None:
    """R35: isolation 6: packet too big."""
    guest = stage.lab.guest("A", TWO, 3000 + family, 20 + family, mtu=1500)
    await stage.lab.attach(guest)
    offender, code, mtu = await error_of(
        guest, family, stage.two_b.address(family), size=1472 - (0 if family == 4 else 20)
    )
    assert (offender, code, mtu) == (GATEWAY[family], errno.EMSGSIZE, 1460)
    assert await guest.node.call("detach", record=guest.record)


async def test_every_node_and_attachment_is_as_it_should_be(stage: Scene) -> None:
    """The kernel's counterpart of the invariant checker finds nothing after all of the above."""
    for node in stage.lab.nodes.values():
        assert await node.call("check_node") == []
        records = [guest.record for guest in stage.guests if guest.node is node]
        for record in records:
            assert await node.call("check", record=record) == []
        assert await node.call("strays", records=records) == []
