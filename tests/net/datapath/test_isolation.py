"""What a guest can do that it should not (node-agent.md, isolation 3 to 6): with packets, and controls."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from tests.net.datapath import frames
from tests.net.datapath.backend import SOON
from tests.net.datapath.lab import GATEWAY4, GATEWAY6, Guest, Node, Sniffer
from tests.net.datapath.scene import FAMILIES, Scene, answered, arrives_nowhere, frame, token
from tests.waiting import until

NODE_ADDRESSES = ["192.0.2.1", "fd00:aa::1", "fd00:aa::2", "fd5f:0:0:1::1", "198.18.0.2", "fdff::2"]


@pytest.fixture
async def uplink_b(stage: Scene) -> AsyncIterator[Sniffer]:
    opened = await stage.one_b.node.uplink()
    yield opened
    opened.close()


@pytest.fixture
async def victim(stage: Scene) -> AsyncIterator[Sniffer]:
    opened = await stage.two_b.sniffer()
    yield opened
    opened.close()


@pytest.fixture(params=["with the firewall", "with the firewall flushed"])
async def walls(request: pytest.FixtureRequest, stage: Scene) -> AsyncIterator[None]:
    """The segments are out of reach with the firewall, and without it; afterwards it is put back as it was."""
    if request.param == "with the firewall":
        yield
        return
    nodes = list(stage.lab.nodes.values())
    for node in nodes:
        node.namespace.exec("nft", "flush", "ruleset")
    yield
    for node in nodes:
        await node.call("setup_node")
        for guest in stage.guests:
            if guest.node is node:
                await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)


def _control(stage: Scene, family: int = 4) -> bytes:
    return frame(stage.two_a, stage.two_a.address(family), stage.two_b.address(family), token())


async def _sids(stage: Scene, guest: Guest) -> dict[int, str]:
    return await guest.node.sids(guest.vpc)


async def _segment_attack(stage: Scene, family: int, outer_source: str, *, with_header: bool = False) -> bytes:
    """A packet for the second network's guest on B, wrapped by a guest of the first as only a node may."""
    sid = (await _sids(stage, stage.two_b))[family]
    inner = frames.packet(stage.two_a.address(family), stage.two_b.address(family), token())
    outer = frames.tunnel(inner, outer_source, sid, with_header=with_header)
    return frames.ethernet(outer, frames.IPV6, source=stage.one_a.attachment["guestMAC"])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("manner", ["plain", "forged source", "SRH", "forged source and SRH"])
@pytest.mark.usefixtures("walls")
async def test_a_guests_packet_to_a_segment_never_leaves_its_node(
    stage: Scene, uplink_b: Sniffer, victim: Sniffer, family: int, manner: str
) -> None:
    """R35: isolation 4, also with nft flushed; the forged source is the node's own tunnel source."""
    source = f"{stage.one_a.node.locator}::1" if "forged" in manner else stage.one_a.ipv6
    attack = await _segment_attack(stage, family, source, with_header="SRH" in manner)
    at = [uplink_b, victim]
    await arrives_nowhere(attack, by=stage.one_a, control=_control(stage), control_by=stage.two_a, at=at)


@pytest.mark.usefixtures("walls")
async def test_a_guests_packet_to_a_segment_of_its_own_node_reaches_nobody(stage: Scene) -> None:
    """R35: isolation 4."""
    sid = (await _sids(stage, stage.two_a))[4]
    inner = frames.packet(stage.two_b.ipv4, stage.two_a.ipv4, token())
    outer = frames.tunnel(inner, stage.one_a.ipv6, sid)
    attack = frames.ethernet(outer, frames.IPV6, source=stage.one_a.attachment["guestMAC"])
    control = frame(stage.two_b, stage.two_b.ipv4, stage.two_a.ipv4, token())
    watcher = await stage.two_a.sniffer()
    await arrives_nowhere(attack, by=stage.one_a, control=control, control_by=stage.two_b, at=[watcher])
    watcher.close()


async def test_a_tunnel_inside_a_legitimate_packet_stays_in_its_own_network(stage: Scene, victim: Sniffer) -> None:
    """R35: isolation 4: the inner packet of a guest's packet to a guest is that guest's business."""
    inner = frames.packet(stage.two_a.ipv4, stage.two_b.ipv4, token())
    outer = frames.tunnel(inner, stage.one_a.ipv6, stage.one_b.ipv6)
    attack = frames.ethernet(outer, frames.IPV6, source=stage.one_a.attachment["guestMAC"])
    await arrives_nowhere(attack, by=stage.one_a, control=_control(stage), control_by=stage.two_a, at=[victim])


async def test_a_segment_packet_from_the_underlay_is_taken_from_nodes_only(stage: Scene) -> None:
    """R35: isolation 4: the outer source has to be a node's; with a node's it is taken (the probe works)."""
    uplink, watcher = await stage.two_b.node.uplink(), await stage.two_a.sniffer()
    sid = (await _sids(stage, stage.two_a))[4]
    mac = stage.two_a.node.namespace.ip("-br", "link", "show", "up0").split()[2]
    contents = {source: token() for source in ("fd00:aa::99", f"{stage.two_b.node.locator}::1")}
    for source, content in contents.items():
        inner = frames.packet(stage.two_b.ipv4, stage.two_a.ipv4, content)
        uplink.send(frames.ethernet(frames.tunnel(inner, source, sid), frames.IPV6, to=mac))
    foreign, node = contents.values()
    await watcher.until(node)
    assert not watcher.saw(foreign)
    assert (await stage.two_a.node.call("drops"))["foreign_encap"] >= 1
    uplink.close()
    watcher.close()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("whose", ["another guest's", "nobody's"])
async def test_a_spoofed_source_is_dropped_at_its_own_node(
    stage: Scene, uplink_b: Sniffer, family: int, whose: str
) -> None:
    """R35: isolation 5, across nodes and on one node."""
    nobody = "10.128.0.77" if family == 4 else "2001:db8::1"
    source = stage.one_c.address(family) if whose == "another guest's" else nobody
    before = (await stage.one_a.node.call("drops"))["spoofed"]
    neighbour = await stage.one_c.sniffer()
    far = frame(stage.one_a, source, stage.one_b.address(family), token())
    control = frame(stage.one_a, stage.one_a.address(family), stage.one_b.address(family), token())
    await arrives_nowhere(far, by=stage.one_a, control=control, control_by=stage.one_a, at=[uplink_b])
    near = frame(stage.one_a, nobody, stage.one_c.address(family), token())
    control = frame(stage.one_a, stage.one_a.address(family), stage.one_c.address(family), token())
    await arrives_nowhere(near, by=stage.one_a, control=control, control_by=stage.one_a, at=[neighbour])
    assert (await stage.one_a.node.call("drops"))["spoofed"] >= before + 2
    neighbour.close()


async def test_every_address_of_a_guests_own_block_may_send_and_is_reached(stage: Scene) -> None:
    """R35: isolation 5: the whole own /96 is allowed, as a source and as a destination."""
    watcher, sender = await stage.one_b.sniffer(), await stage.one_a.sniffer()
    odd_source, odd_destination = token(), token()
    sender.send(frame(stage.one_a, stage.one_a.ipv6[:-1] + "77", stage.one_b.ipv6, odd_source))
    sender.send(frame(stage.one_a, stage.one_a.ipv6, stage.one_b.ipv6[:-1] + "99", odd_destination))
    await watcher.until(odd_source)
    await watcher.until(odd_destination)
    watcher.close()
    sender.close()


async def test_a_block_of_another_length_is_the_guests_own_up_to_its_ends(stage: Scene) -> None:
    """R35: isolation 5: whatever length of block a class hands out: all of it may send, and nothing beside it."""
    guest = stage.lab.guest("A", stage.one_a.vpc, 3100, 64)
    guest.attachment["addresses"] = [
        {"address": "fd20:0:1:0:0:40:0:1/91", "gateway": GATEWAY6},
        {"address": "10.128.0.65/28", "gateway": GATEWAY4},
    ]
    await stage.lab.attach(guest)
    assert await guest.node.call("check", record=guest.record) == []
    watcher = await stage.one_c.sniffer()
    for family, inside, beside in ((6, "fd20:0:1:0:0:5f::9", "fd20:0:1:0:0:60::9"), (4, "10.128.0.79", "10.128.0.80")):
        attack, control = (frame(guest, each, stage.one_c.address(family), token()) for each in (beside, inside))
        await arrives_nowhere(attack, by=guest, control=control, control_by=guest, at=[watcher])
        assert await answered(guest, stage.one_c, family)
    watcher.close()
    assert await guest.node.call("detach", record=guest.record)


class _Ear:
    """A wildcard UDP socket of the node."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self.heard: list[bytes] = []

    @classmethod
    async def open(cls, node: Node, family: int) -> "_Ear":
        address = "0.0.0.0" if family == 4 else "::"
        return cls(await node.namespace.socket(lambda: frames.udp_socket(address, 4001)))

    def listen(self) -> list[bytes]:
        while True:
            try:
                self.heard.append(self._socket.recv(2048))
            except BlockingIOError:
                return self.heard

    def close(self) -> None:
        self._socket.close()


def _group(address: str) -> str:
    if address == "255.255.255.255":
        return "ff:ff:ff:ff:ff:ff"
    return {"224.0.0.1": "01:00:5e:00:00:01", "ff02::1": "33:33:00:00:00:01"}.get(address, frames.GATEWAY_MAC)


@pytest.mark.parametrize(
    "destination", ["255.255.255.255", "224.0.0.1", "ff02::1", "fe80::1", GATEWAY4, GATEWAY6, *NODE_ADDRESSES]
)
async def test_no_socket_of_the_node_hears_a_guest(stage: Scene, destination: str) -> None:
    """R35: isolation 3: broadcast, multicast, the gateway's and the node's own addresses, other nodes."""
    guest = stage.one_a
    family = 4 if "." in destination else 6
    content, control = token(), token()
    ear = await _Ear.open(guest.node, family)
    sender = await guest.sniffer()
    packet = frames.packet(guest.address(family), destination, content)
    before = sum((await guest.node.call("drops")).values())
    sender.send(frames.ethernet(packet, frames.kind_of(packet), to=_group(destination), source="02:10:00:00:00:99"))
    # The control: once a guest's packet has gone all the way to another, one of the node's own to the same socket.
    assert await answered(guest, stage.one_c, family)
    probe = await guest.node.namespace.socket(lambda: frames.udp_socket("127.0.0.1" if family == 4 else "::1", 4005))
    probe.sendto(control, ("127.0.0.1" if family == 4 else "::1", 4001))
    await until(lambda: control in ear.listen(), timeout=SOON, interval=0.005, what="the node's own packet")
    assert content not in ear.heard
    assert sum((await guest.node.call("drops")).values()) >= before
    for each in (ear, sender, probe):
        each.close()


@pytest.mark.parametrize("family", FAMILIES)
async def test_no_socket_of_another_node_hears_a_guest_by_way_of_a_default_route(own_stage: Scene, family: int) -> None:
    """R35: isolation 3: a default route of the network leads to B, where another subnet of it has its gateway."""
    guest, egress = own_stage.one_a, own_stage.one_b
    gateway = {4: "10.129.0.1", 6: "fd20:0:2::1"}[family]
    far = own_stage.lab.guest("B", guest.vpc, 3200, 80)
    far.attachment["addresses"] = [
        {"address": "fd20:0:2:0:0:9:0:1/96", "gateway": "fd20:0:2::1"},
        {"address": "10.129.0.9/32", "gateway": "10.129.0.1"},
    ]
    await own_stage.lab.attach(far)
    sid = (await _sids(own_stage, egress))[family]
    everywhere = "0.0.0.0/0" if family == 4 else "::/0"
    await guest.node.call("set_remotes", vpc=guest.vpc, remotes=[[everywhere, sid]])
    ear, watcher, content, control = await _Ear.open(egress.node, family), await far.sniffer(), token(), token()
    before = (await egress.node.call("drops"))["to_node"]
    sender = await guest.sniffer()
    sender.send(frame(guest, guest.address(family), gateway, content))
    sender.send(frame(guest, guest.address(family), far.address(family), control))
    await watcher.until(control)
    assert ear.listen() == []
    assert (await egress.node.call("drops"))["to_node"] == before + 1
    for each in (ear, watcher, sender):
        each.close()


async def _answer(sniffer: Sniffer, request: bytes, parse: Callable[[bytes], str | None]) -> str:
    sniffer.send(request)
    return await until(
        lambda: next((mac for each in sniffer.read() if (mac := parse(each))), None), timeout=SOON, what="an answer"
    )


async def test_the_gateway_answers_arp_and_nobody_else_does(stage: Scene) -> None:
    """R35: isolation 3: nor does the node answer for its own addresses, nor to a spoofed sender."""
    guest, mac = stage.one_a, stage.one_a.attachment["guestMAC"]
    sniffer = await guest.sniffer()
    sniffer.send(frames.arp_request(guest.ipv4, "192.0.2.1", mac))
    sniffer.send(frames.arp_request("10.128.0.77", GATEWAY4, mac))
    asked = frames.arp_request(guest.ipv4, GATEWAY4, mac)
    answer = await _answer(sniffer, asked, lambda each: frames.arp_answer(each, GATEWAY4))
    assert answer == frames.GATEWAY_MAC
    answers = [each for each in sniffer.read() if each[12:14] == b"\x08\x06"]
    assert len(answers) == 1
    assert "lladdr" not in guest.node.namespace.ip("neigh", "show", "10.128.0.77")
    sniffer.close()


async def test_a_forged_mac_in_arp_does_not_move_a_guests_neighbour_entry(stage: Scene) -> None:
    """R35: isolation 5: the entry is permanent."""
    guest = stage.one_a
    sniffer = await guest.sniffer()
    forged = frames.arp_request(guest.ipv4, GATEWAY4, "02:66:66:66:66:66")
    await _answer(sniffer, forged, lambda each: frames.arp_answer(each, GATEWAY4))
    entry = guest.node.namespace.ip("neigh", "show", guest.ipv4, "dev", guest.host_device)
    assert guest.attachment["guestMAC"] in entry
    assert "PERMANENT" in entry
    sniffer.close()


@pytest.mark.parametrize("source", ["its address", "a link-local address"])
async def test_the_gateway_answers_neighbour_solicitations_and_nobody_else_does(stage: Scene, source: str) -> None:
    """R35: isolation 3: a virtual machine resolves its gateway; the node's own addresses stay unknown."""
    guest, mac = stage.one_a, stage.one_a.attachment["guestMAC"]
    sender = guest.ipv6 if source == "its address" else "fe80::1234"
    sniffer = await guest.sniffer()
    sniffer.send(frames.neighbour_solicitation(sender, "fd00:aa::1", mac))
    request = frames.neighbour_solicitation(sender, GATEWAY6, mac)
    answer = await _answer(sniffer, request, lambda each: frames.neighbour_advertisement(each, GATEWAY6))
    assert answer == frames.GATEWAY_MAC
    assert not [each for each in sniffer.read() if frames.neighbour_advertisement(each, "fd00:aa::1")]
    sniffer.close()


@pytest.mark.parametrize("family", FAMILIES)
async def test_the_gateway_answers_a_ping(stage: Scene, family: int) -> None:
    """R35: isolation 6: from the gateway's address, into the right network although both have the same one."""
    guest = stage.two_a
    echo = b"\x08\0" if family == 4 else b"\x80\0"
    protocol = socket.IPPROTO_ICMP if family == 4 else socket.IPPROTO_ICMPV6
    kind = socket.AF_INET if family == 4 else socket.AF_INET6

    def make() -> socket.socket:
        opened = socket.socket(kind, socket.SOCK_RAW, protocol)
        opened.settimeout(0)
        return opened

    asking = await guest.namespace.socket(make)
    bare = echo + b"\0\0\x12\x34\0\1" + token()
    body = bare[:2] + frames.checksum(bare).to_bytes(2, "big") + bare[4:]
    asking.sendto(body if family == 4 else bare, (GATEWAY4 if family == 4 else GATEWAY6, 0))
    got, origin = await asyncio.wait_for(asyncio.get_running_loop().sock_recvfrom(asking, 2048), SOON)
    assert origin[0] == (GATEWAY4 if family == 4 else GATEWAY6)
    assert got.endswith(bare[-16:])
    asking.close()


async def test_no_tenant_address_is_local_to_the_node(stage: Scene) -> None:
    """R35: isolation 3: a tenant picks its gateway; the node must not lose an address of its own to it."""
    for node in stage.lab.nodes.values():
        state = node.namespace.ip("route", "show", "table", "local") + node.namespace.ip(
            "-6", "route", "show", "table", "local"
        )
        assert "10.128." not in state
        assert "fd20:" not in state


async def test_every_node_and_attachment_is_as_it_should_be(stage: Scene) -> None:
    """The kernel's counterpart of the invariant checker finds nothing after all of the above."""
    for node in stage.lab.nodes.values():
        assert await node.call("check_node") == []
        records = [guest.record for guest in stage.guests if guest.node is node]
        for record in records:
            assert await node.call("check", record=record) == []
        assert await node.call("strays", records=records) == []
