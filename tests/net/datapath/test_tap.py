"""Hypervisor mode: a persistent tap in place of the veth, the rest of the host as in Netns mode (isolation 7)."""

import contextlib
import os
from collections.abc import AsyncIterator

import pytest

from node_agent.datapath import namespaces, taps
from tests.net.datapath import frames
from tests.net.datapath.backend import SOON
from tests.net.datapath.lab import Guest
from tests.net.datapath.scene import FAMILIES, ONE, Scene, arrives_alone, frame, token
from tests.waiting import until


class Machine:
    """The guest behind a tap: what it sends and what it gets, frame by frame."""

    def __init__(self, guest: Guest, descriptor: int) -> None:
        self.guest = guest
        self._descriptor = descriptor
        self.frames: list[bytes] = []

    def send(self, content: bytes) -> None:
        os.write(self._descriptor, content)

    def saw(self, content: bytes) -> bool:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.frames.append(os.read(self._descriptor, 65535))
        return any(content in each for each in self.frames)

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture(scope="module")
async def machine(stage: Scene) -> AsyncIterator[Machine]:
    """A machine on node A, of the first network."""
    guest = stage.lab.guest("A", ONE, 500, 50, name="tap")
    guest.attachment["mode"] = "Hypervisor"
    await stage.lab.attach(guest)
    await stage.lab.announce(*stage.guests, guest)
    made = await _start(guest)
    yield made
    made.close()


async def _start(guest: Guest) -> Machine:
    device, path = guest.host_device, guest.node.namespace.path
    return Machine(guest, await namespaces.within(path, lambda: frames.tap(device)))


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_machine_on_a_tap_sends_to_another_node_and_is_reached_from_there(
    stage: Scene, machine: Machine, family: int
) -> None:
    """R35: isolation 7 and 1."""
    there, back = token(), token()
    remote = await stage.one_b.sniffer()
    machine.send(frame(machine.guest, machine.guest.address(family), stage.one_b.address(family), there))
    await remote.until(there)
    remote.send(frame(stage.one_b, stage.one_b.address(family), machine.guest.address(family), back))
    await until(lambda: machine.saw(back), timeout=SOON, interval=0.005, what="the answer on the tap")
    remote.close()


async def test_a_machine_finds_its_gateways(machine: Machine) -> None:
    """R35: isolation 3: a virtual machine that was told nothing resolves them by ARP and neighbour discovery."""
    mac = machine.guest.attachment["guestMAC"]
    machine.send(frames.arp_request(machine.guest.ipv4, "10.128.0.1", mac))
    machine.send(frames.neighbour_solicitation(machine.guest.ipv6, "fd20:0:1::1", mac))

    def answered() -> bool:
        machine.saw(b"")
        arp = any(frames.arp_answer(each, "10.128.0.1") == frames.GATEWAY_MAC for each in machine.frames)
        found = any(
            frames.neighbour_advertisement(each, "fd20:0:1::1") == frames.GATEWAY_MAC for each in machine.frames
        )
        return arp and found

    await until(answered, timeout=SOON, interval=0.005, what="both gateways' answers")


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_machines_spoofed_source_and_segment_packet_stay_on_its_node(
    stage: Scene, machine: Machine, family: int
) -> None:
    """R35: isolation 7, 4 and 5."""
    guest, uplink = machine.guest, await stage.one_b.node.uplink()
    sid = (await stage.two_b.node.sids(stage.two_b.vpc))[family]
    inner = frames.packet(stage.two_a.address(family), stage.two_b.address(family), token())
    crafted = frames.ethernet(frames.tunnel(inner, guest.ipv6, sid), frames.IPV6, source=guest.attachment["guestMAC"])
    spoofed = frame(guest, stage.one_c.address(family), stage.one_b.address(family), token())
    for attack in (crafted, spoofed):
        machine.send(attack)
        control = frame(stage.one_a, stage.one_a.ipv4, stage.one_b.ipv4, token())
        await arrives_alone(control, of=stage.one_a, without=attack, at=[uplink])
    uplink.close()


async def test_a_tap_is_adopted_while_its_machine_runs_and_keeps_it_reachable(stage: Scene, machine: Machine) -> None:
    """node-agent.md: adopted when it is ours; a restarted machine finds its device again."""
    guest = machine.guest
    before = guest.record
    await stage.lab.attach(guest)
    assert guest.record == before
    assert await guest.node.call("check", record=guest.record) == []
    machine.close()
    again = await _start(guest)
    machine._descriptor = again._descriptor
    there = token()
    remote = await stage.one_b.sniffer()
    machine.send(frame(guest, guest.ipv4, stage.one_b.ipv4, there))
    await remote.until(there)
    remote.close()


async def test_a_tap_is_made_down_and_goes_without_a_trace(stage: Scene) -> None:
    """node-agent.md: created down and put up after the rules; a device in use by a machine is removed all the same."""
    guest = stage.lab.guest("A", ONE, 501, 51, name="tap-two")
    guest.attachment["mode"] = "Hypervisor"
    record = await guest.node.call("prepare", attachment=guest.attachment, netns=None)
    line = guest.node.namespace.ip("-o", "link", "show", guest.host_device)
    assert "UP" not in line.split("<")[1].split(">")[0].split(",")
    assert f"mtu {guest.attachment['mtu']}" in line
    assert frames.GATEWAY_MAC in line
    await guest.node.call("bring_up", record=record)
    assert await guest.node.call("check", record=record) == []
    running = await _start(guest)
    assert await guest.node.call("detach", record=record)
    running.close()
    assert guest.node.traces(guest.host_device, *guest.blocks) == []


async def test_a_tap_whose_maker_dies_before_it_is_marked_is_gone(stage: Scene) -> None:
    """T03: without our marks it would be a stranger's, and its attachment refused for ever."""
    node, name = stage.one_a.node, "G00000000A0zzH"
    for kept in (False, True):
        descriptor = await namespaces.within(node.namespace.path, lambda: taps.create(name))
        assert name in node.namespace.ip("-o", "link")
        if kept:
            taps.keep(descriptor)
        os.close(descriptor)
        assert (name in node.namespace.ip("-o", "link")) == kept
    node.namespace.ip("link", "del", name)
