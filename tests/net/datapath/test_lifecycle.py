"""Attach, detach, restart, cancel: what is made is found again, what goes leaves no trace (node-agent.md)."""

import asyncio
import dataclasses
import json

import pytest

from node_agent.datapath import namespaces, plan
from tests.net.datapath.lab import CallError, Lab, Node
from tests.net.datapath.passing import new_guest, take_away
from tests.net.datapath.scene import FAMILIES, ONE, TWO, Scene, answered


async def test_a_detached_guest_leaves_no_trace_and_harms_nobody(own_stage: Scene) -> None:
    """R15, R35: rules, routes, neighbours, proxies, addresses, firewall elements and the device are gone."""
    node = own_stage.two_a.node
    assert node.traces(own_stage.two_a.host_device)
    assert await node.call("detach", record=own_stage.two_a.record)
    assert node.traces(own_stage.two_a.host_device) == []
    for family in FAMILIES:
        assert await answered(own_stage.one_a, own_stage.one_b, family)
        assert await answered(own_stage.one_a, own_stage.one_c, family)


async def test_a_released_vpc_leaves_no_trace_and_harms_nobody(own_stage: Scene) -> None:
    """R15, R35: the pair, its tables, rules, SIDs and next hops are gone; the other VPC works."""
    node = own_stage.two_a.node
    assert not await node.call("release_vpc", vpc=TWO), "it still has a guest"
    await node.call("detach", record=own_stage.two_a.record)
    assert await node.call("release_vpc", vpc=TWO)
    traces = ("100002", "150002", "00000000A", "198.18.0.2", "fdff::2", "6e000002", ":0:0:24:")
    assert node.traces(*traces) == []
    for family in FAMILIES:
        assert await answered(own_stage.one_a, own_stage.one_b, family)


async def test_a_released_vpc_comes_back_whole(own_stage: Scene) -> None:
    """T10: the same VPC, attached again, works as at first."""
    await own_stage.two_a.node.call("detach", record=own_stage.two_a.record)
    await own_stage.two_a.node.call("release_vpc", vpc=TWO)
    await own_stage.lab.attach(own_stage.two_a)
    await own_stage.lab.announce(*own_stage.guests)
    for family in FAMILIES:
        assert await answered(own_stage.two_a, own_stage.two_b, family)


async def test_the_first_packet_of_a_new_guest_passes(bench: Lab, node: Node) -> None:
    """node-agent.md: a Pod that ADD has answered for can send and be reached at once, both families."""
    first = await bench.attach(new_guest(bench))
    for family in FAMILIES:
        second = await bench.attach(new_guest(bench))
        assert await answered(second, first, family)
        third = await bench.attach(new_guest(bench))
        assert await answered(first, third, family)
        await take_away(second)
        await take_away(third)
    await take_away(first)


async def test_a_second_interface_leaves_the_first_ones_default_routes_alone(bench: Lab, node: Node) -> None:
    """T13: eth0 of the cluster's own network, then two claimed ones: each is whole, none replaces another's route.

    What has an interface's own source leaves by that interface, answers among it, although eth0 has the default route.
    """
    first, second, peer = (new_guest(bench) for _ in range(3))
    guest = first.namespace
    guest.ip("link", "add", "eth0", "type", "veth", "peer", "name", "cluster")
    for device in ("eth0", "cluster"):
        guest.ip("link", "set", device, "up")
    guest.ip("addr", "add", "10.244.0.2/24", "dev", "eth0")
    guest.ip("route", "add", "default", "via", "10.244.0.1", "dev", "eth0")
    second.namespace = guest
    for number, each in enumerate((first, second), start=1):
        each.attachment["guestInterface"] = f"net{number}"
        await bench.attach(each)
    await bench.attach(peer)
    assert "via 10.244.0.1 dev eth0" in guest.ip("route", "get", "192.0.2.77")
    for each in (first, second):
        assert await node.call("check", record=each.record) == []
    assert len(guest.ip("route", "show", "default").splitlines()) == 3
    for each in (first, second):
        for family in FAMILIES:
            assert await answered(each, peer, family)
            assert await answered(peer, each, family)

    def rules() -> list[str]:
        lines = [line for family in FAMILIES for line in guest.ip(f"-{family}", "rule").splitlines()]
        return [line for line in lines if line.startswith("1000:")]

    assert len(rules()) == 4
    guest.ip("-4", "rule", "del", "from", first.ipv4)
    (difference,) = await node.call("check", record=first.record)
    assert f"from {first.ipv4}/32 lookup {plan.own_number('net1')}" in difference
    for each in (first, second, peer):
        await take_away(each)
    assert rules() == []


async def test_every_call_may_be_repeated(bench: Lab, node: Node) -> None:
    """T10: a repeated ADD finds its own work, a repeated DEL has nothing to do."""
    guest = await bench.attach(new_guest(bench))
    first = guest.record
    await bench.attach(guest)
    assert guest.record == first
    assert await node.call("check", record=guest.record) == []
    assert await node.call("strays", records=[guest.record]) == []
    await take_away(guest)
    assert await node.call("detach", record=guest.record)


async def test_a_guest_is_down_until_it_is_brought_up(bench: Lab, node: Node) -> None:
    """R31: the attachment is claimed at the API before any link is up."""
    guest = new_guest(bench)
    await node.call("ensure_vpc", vpc=ONE)
    guest.record = await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    (ours,) = json.loads(node.namespace.ip("-j", "link", "show", guest.host_device))
    (theirs,) = json.loads(guest.namespace.ip("-j", "link", "show", "eth0"))
    assert "UP" not in ours["flags"]
    assert "UP" not in theirs["flags"]
    assert guest.record["ifindex"] == ours["ifindex"]
    await take_away(guest)


async def test_mac_and_mtu_are_part_of_the_creating_message(bench: Lab, node: Node) -> None:
    """T15: addr_assign_type is 3 (set by a user), so that udev has nothing to change."""
    guest = await bench.attach(new_guest(bench, mtu=1400))
    assign = "addr_assign_type"
    path = f"/sys/class/net/{guest.host_device}/{assign}"
    assert node.namespace.exec("cat", path).strip() == "3"
    assert guest.namespace.exec("cat", f"/sys/class/net/eth0/{assign}").strip() == "3"
    for namespace, device in ((node.namespace, guest.host_device), (guest.namespace, "eth0")):
        assert json.loads(namespace.ip("-j", "link", "show", device))[0]["mtu"] == 1400
    await take_away(guest)


async def test_a_guest_never_waits_for_duplicate_address_detection(bench: Lab, node: Node) -> None:
    """T13: NODAD is set; no address is tentative or failed when ADD returns, IPv6 disabled by default or not."""
    guest = new_guest(bench)
    await namespaces.within(
        guest.namespace.path, lambda: namespaces.write_sysctl("net/ipv6/conf/default/disable_ipv6", "1")
    )
    await bench.attach(guest)
    (device,) = json.loads(guest.namespace.ip("-j", "addr", "show", "eth0"))
    addresses = {each["local"]: each for each in device["addr_info"]}
    assert set(addresses) == {guest.ipv4, guest.ipv6.replace(":0:0:", "::", 1)} or len(addresses) == 2
    assert not [each for each in addresses.values() if each.get("tentative") or each.get("dadfailed")]
    await take_away(guest)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_guest_of_one_family_has_that_one_only(bench: Lab, node: Node, family: int) -> None:
    """T13: IPv4 only, IPv6 only."""
    guests = [new_guest(bench) for _ in range(2)]
    for guest in guests:
        address = guest.address(family)
        chosen = [a for a in guest.attachment["addresses"] if ("." in a["address"]) == (family == 4)]
        guest.attachment["addresses"] = chosen
        await bench.attach(guest)
        assert await node.call("check", record=guest.record) == []
        guest.attachment["addresses"] = [*chosen, *chosen]  # both places name the family that there is
        assert address == guest.address(family)
    assert await answered(guests[0], guests[1], family)
    for guest in guests:
        assert await node.call("detach", record=guest.record)
        assert node.traces(guest.host_device) == []


async def test_a_late_detach_of_an_old_owner_does_not_touch_its_successor(bench: Lab, node: Node) -> None:
    """T08, T10: a device whose alias names another owner stays, with everything that is its own."""
    old = await bench.attach(new_guest(bench))
    await take_away(old)
    new = dataclasses.replace(old, attachment={**old.attachment, "owner": "successor"})
    await bench.attach(new)
    assert not await node.call("detach", record=old.record)
    assert await node.call("check", record=new.record) == []
    await node.restart()
    assert not await node.call("detach", record=old.record)
    assert await node.call("check", record=new.record) == []
    with pytest.raises(CallError, match="belongs to"):
        await node.call("prepare", attachment=old.attachment, netns=old.namespace.path)
    await node.call("adopt", record=new.record)
    await take_away(new)


async def test_a_strangers_device_of_that_name_is_neither_used_nor_removed(bench: Lab, node: Node) -> None:
    """T10: a foreign link of that name; nothing is left of the refused attempt."""
    guest = new_guest(bench)
    await node.call("ensure_vpc", vpc=ONE)
    node.namespace.ip("link", "add", guest.host_device, "type", "veth", "peer", "name", "stranger")
    before = node.traces(guest.host_device)
    with pytest.raises(CallError, match="not of our making"):
        await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    record = {"attachment": guest.attachment, "netns": guest.namespace.path, "ifindex": 0}
    assert await node.call("detach", record=record)
    assert node.traces(guest.host_device) == before
    node.namespace.ip("link", "del", guest.host_device)


async def test_a_strangers_interface_in_the_guest_is_an_error_and_is_left_alone(bench: Lab, node: Node) -> None:
    """T10: eth0 is there already."""
    guest = new_guest(bench)
    guest.namespace.ip("link", "add", "eth0", "type", "veth", "peer", "name", "stranger")
    await node.call("ensure_vpc", vpc=ONE)
    with pytest.raises(CallError, match="EEXIST"):
        await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    guest.record = {"attachment": guest.attachment, "netns": guest.namespace.path, "ifindex": 0}
    await take_away(guest)
    assert "stranger" in guest.namespace.ip("link")


async def test_a_namespace_that_is_gone_is_an_error_for_attach_and_none_for_detach(bench: Lab, node: Node) -> None:
    """T09, T10: DEL without a namespace."""
    guest = new_guest(bench)
    await node.call("ensure_vpc", vpc=ONE)
    with pytest.raises(CallError) as raised:
        await node.call("prepare", attachment=guest.attachment, netns="/run/netns/never-there")
    assert raised.value.kind == "NamespaceGoneError"
    with pytest.raises(CallError) as raised:
        await node.call("prepare", attachment=guest.attachment, netns="/etc/hostname")
    assert raised.value.kind in {"NamespaceGoneError", "KernelRefusedError"}
    guest.record = {"attachment": guest.attachment, "netns": "/run/netns/never-there", "ifindex": 0}
    await take_away(guest)
    other = await bench.attach(new_guest(bench))
    other.record["netns"] = "/run/netns/never-there"
    assert any("never-there" in each for each in await node.call("check", record=other.record))
    await take_away(other)


@pytest.mark.parametrize("upto", ["prepare", "bring_up"])
async def test_work_of_a_killed_process_is_completed_or_undone_by_the_next(bench: Lab, node: Node, upto: str) -> None:
    """T10: ADD after a half ADD, and DEL after one; the record from before the kernel was touched is enough."""
    for finish in ("complete", "undo"):
        guest = new_guest(bench)
        bare = {"attachment": guest.attachment, "netns": guest.namespace.path, "ifindex": 0}
        if upto == "bring_up":
            await bench.attach(guest)
        else:
            await node.call("ensure_vpc", vpc=ONE)
            await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
        await node.restart()
        if finish == "complete":
            await bench.attach(guest)
            assert await node.call("check", record=guest.record) == []
        guest.record = guest.record or bare
        await take_away(guest)


async def test_twenty_guests_at_once_are_all_as_they_should_be(bench: Lab, node: Node) -> None:
    """T11: parallel ADDs on one node do not fight for anything."""
    guests = [new_guest(bench) for _ in range(20)]
    await asyncio.gather(*(bench.attach(guest) for guest in guests))
    for guest in guests:
        assert await node.call("check", record=guest.record) == []
    assert await node.call("strays", records=[guest.record for guest in guests]) == []
    assert await answered(guests[0], guests[19], 4)
    assert await answered(guests[7], guests[13], 6)
    await asyncio.gather(*(node.call("detach", record=guest.record) for guest in guests))
    assert node.traces(*(guest.host_device for guest in guests)) == []


async def test_attaching_over_and_over_holds_no_descriptor_and_no_thread(bench: Lab, node: Node) -> None:
    """T23: descriptors and threads are flat."""
    guest = new_guest(bench)
    await node.call("ensure_vpc", vpc=ONE)
    await node.call("churn", attachment=guest.attachment, netns=guest.namespace.path, rounds=5)
    before = await node.call("usage")
    await node.call("churn", attachment=guest.attachment, netns=guest.namespace.path, rounds=40)
    assert await node.call("usage") == before


async def test_cancelled_calls_leave_nothing_behind(bench: Lab, node: Node) -> None:
    """T23: cancelled at random moments: no device, rule, element, descriptor or thread stays."""
    guest = new_guest(bench)
    place = {"attachment": guest.attachment, "netns": guest.namespace.path}
    await node.call("cancel_storm", **place, rounds=5)
    before = await node.call("usage")
    assert await node.call("cancel_storm", **place, rounds=40) > 0
    assert node.traces(guest.host_device) == []
    assert await node.call("usage") == before
    await bench.attach(guest)
    assert await node.call("check", record=guest.record) == []
    await take_away(guest)
