"""Attach, detach, restart, drift: what is made is found again, and what goes leaves no trace (node-agent.md)."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from node_agent.datapath import namespaces
from tests.net.datapath.lab import CallError, Guest, Lab, Node, lab
from tests.net.datapath.scene import FAMILIES, ONE, TWO, Scene, answered, scene
from tests.waiting import until


@pytest.fixture
async def stage() -> AsyncIterator[Scene]:
    async with scene() as made:
        yield made


@pytest.fixture(scope="module")
async def bench() -> AsyncIterator[Lab]:
    """Two nodes without guests, for tests that make their own and take them away again."""
    async with lab() as made:
        await made.two_nodes()
        yield made


@pytest.fixture
async def node(bench: Lab) -> AsyncIterator[Node]:
    """Node A; afterwards nothing of a VPC is left on it."""
    chosen = bench.nodes["A"]
    yield chosen
    for guest in _made:
        if guest.record:
            await chosen.call("detach", record=guest.record)
    _made.clear()
    for vpc in (ONE, TWO):
        assert await chosen.call("release_vpc", vpc=vpc)
    assert await chosen.call("strays", records=[]) == []
    assert await chosen.call("check_node") == []


_numbers = iter(range(10, 250))
_made: list[Guest] = []


async def _guest(bench: Lab, **changes: Any) -> Guest:
    number = next(_numbers)
    guest = bench.guest("A", ONE, 4000 + number, number, name=f"life-{number}")
    guest.attachment |= changes
    _made.append(guest)
    return guest


async def _gone(guest: Guest) -> None:
    assert await guest.node.call("detach", record=guest.record)
    sids = await guest.node.sids(guest.vpc)
    assert guest.node.traces(guest.host_device, *guest.blocks) == []
    assert set(sids) == {4, 6}


async def test_a_detached_guest_leaves_no_trace_and_harms_nobody(stage: Scene) -> None:
    """R15, R35: rules, routes, neighbours, proxies, addresses, firewall elements and the device are gone."""
    node = stage.two_a.node
    assert node.traces(stage.two_a.host_device)
    assert await node.call("detach", record=stage.two_a.record)
    assert node.traces(stage.two_a.host_device) == []
    for family in FAMILIES:
        assert await answered(stage.one_a, stage.one_b, family)
        assert await answered(stage.one_a, stage.one_c, family)


async def test_a_released_vpc_leaves_no_trace_and_harms_nobody(stage: Scene) -> None:
    """R15, R35: the pair, its tables, rules, SIDs and next hops are gone; the other VPC works."""
    node = stage.two_a.node
    assert not await node.call("release_vpc", vpc=TWO), "it still has a guest"
    await node.call("detach", record=stage.two_a.record)
    assert await node.call("release_vpc", vpc=TWO)
    traces = ("100002", "150002", "00000000A", "198.18.0.2", "fdff::2", "6e000002", ":0:0:24:")
    assert node.traces(*traces) == []
    for family in FAMILIES:
        assert await answered(stage.one_a, stage.one_b, family)


async def test_a_released_vpc_comes_back_whole(stage: Scene) -> None:
    """T10: the same VPC, attached again, works as at first."""
    await stage.two_a.node.call("detach", record=stage.two_a.record)
    await stage.two_a.node.call("release_vpc", vpc=TWO)
    await stage.lab.attach(stage.two_a)
    await stage.lab.announce(*stage.guests)
    for family in FAMILIES:
        assert await answered(stage.two_a, stage.two_b, family)


async def test_the_first_packet_of_a_new_guest_passes(bench: Lab, node: Node) -> None:
    """node-agent.md: a Pod that ADD has answered for can send and be reached at once, both families."""
    first = await bench.attach(await _guest(bench))
    for family in FAMILIES:
        second = await bench.attach(await _guest(bench))
        assert await answered(second, first, family)
        third = await bench.attach(await _guest(bench))
        assert await answered(first, third, family)
        await _gone(second)
        await _gone(third)
    await _gone(first)


async def test_every_call_may_be_repeated(bench: Lab, node: Node) -> None:
    """T10: a repeated ADD finds its own work, a repeated DEL has nothing to do."""
    guest = await bench.attach(await _guest(bench))
    first = guest.record
    await bench.attach(guest)
    assert guest.record == first
    assert await node.call("check", record=guest.record) == []
    assert await node.call("strays", records=[guest.record]) == []
    await _gone(guest)
    assert await node.call("detach", record=guest.record)


async def test_a_guest_is_down_until_it_is_brought_up(bench: Lab, node: Node) -> None:
    """R31: the attachment is claimed at the API before any link is up."""
    guest = await _guest(bench)
    await node.call("ensure_vpc", vpc=ONE)
    guest.record = await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    (ours,) = json.loads(node.namespace.ip("-j", "link", "show", guest.host_device))
    (theirs,) = json.loads(guest.namespace.ip("-j", "link", "show", "eth0"))
    assert "UP" not in ours["flags"]
    assert "UP" not in theirs["flags"]
    assert guest.record["ifindex"] == ours["ifindex"]
    await _gone(guest)


async def test_mac_and_mtu_are_part_of_the_creating_message(bench: Lab, node: Node) -> None:
    """T15: addr_assign_type is 3 (set by a user), so that udev has nothing to change."""
    guest = await bench.attach(await _guest(bench, mtu=1400))
    assign = "addr_assign_type"
    path = f"/sys/class/net/{guest.host_device}/{assign}"
    assert node.namespace.exec("cat", path).strip() == "3"
    assert guest.namespace.exec("cat", f"/sys/class/net/eth0/{assign}").strip() == "3"
    for namespace, device in ((node.namespace, guest.host_device), (guest.namespace, "eth0")):
        assert json.loads(namespace.ip("-j", "link", "show", device))[0]["mtu"] == 1400
    await _gone(guest)


async def test_a_guest_never_waits_for_duplicate_address_detection(bench: Lab, node: Node) -> None:
    """T13: NODAD is set; no address is tentative or failed when ADD returns, IPv6 disabled by default or not."""
    guest = await _guest(bench)
    await namespaces.within(
        guest.namespace.path, lambda: namespaces.write_sysctl("net/ipv6/conf/default/disable_ipv6", "1")
    )
    await bench.attach(guest)
    (device,) = json.loads(guest.namespace.ip("-j", "addr", "show", "eth0"))
    addresses = {each["local"]: each for each in device["addr_info"]}
    assert set(addresses) == {guest.ipv4, guest.ipv6.replace(":0:0:", "::", 1)} or len(addresses) == 2
    assert not [each for each in addresses.values() if each.get("tentative") or each.get("dadfailed")]
    await _gone(guest)


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_guest_of_one_family_has_that_one_only(bench: Lab, node: Node, family: int) -> None:
    """T13: IPv4 only, IPv6 only."""
    guests = [await _guest(bench) for _ in range(2)]
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
    old = await bench.attach(await _guest(bench))
    await _gone(old)
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
    await _gone(new)


async def test_a_strangers_device_of_that_name_is_neither_used_nor_removed(bench: Lab, node: Node) -> None:
    """T10: a foreign link of that name; nothing is left of the refused attempt."""
    guest = await _guest(bench)
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
    guest = await _guest(bench)
    guest.namespace.ip("link", "add", "eth0", "type", "veth", "peer", "name", "stranger")
    await node.call("ensure_vpc", vpc=ONE)
    with pytest.raises(CallError, match="EEXIST"):
        await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    guest.record = {"attachment": guest.attachment, "netns": guest.namespace.path, "ifindex": 0}
    await _gone(guest)
    assert "stranger" in guest.namespace.ip("link")


async def test_a_namespace_that_is_gone_is_an_error_for_attach_and_none_for_detach(bench: Lab, node: Node) -> None:
    """T09, T10: DEL without a namespace."""
    guest = await _guest(bench)
    await node.call("ensure_vpc", vpc=ONE)
    with pytest.raises(CallError) as raised:
        await node.call("prepare", attachment=guest.attachment, netns="/run/netns/never-there")
    assert raised.value.kind == "NamespaceGoneError"
    with pytest.raises(CallError) as raised:
        await node.call("prepare", attachment=guest.attachment, netns="/etc/hostname")
    assert raised.value.kind in {"NamespaceGoneError", "KernelRefusedError"}
    guest.record = {"attachment": guest.attachment, "netns": "/run/netns/never-there", "ifindex": 0}
    await _gone(guest)
    other = await bench.attach(await _guest(bench))
    other.record["netns"] = "/run/netns/never-there"
    assert any("never-there" in each for each in await node.call("check", record=other.record))
    await _gone(other)


@pytest.mark.parametrize("upto", ["prepare", "bring_up"])
async def test_work_of_a_killed_process_is_completed_or_undone_by_the_next(bench: Lab, node: Node, upto: str) -> None:
    """T10: ADD after a half ADD, and DEL after one; the record from before the kernel was touched is enough."""
    for finish in ("complete", "undo"):
        guest = await _guest(bench)
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
        await _gone(guest)


async def test_twenty_guests_at_once_are_all_as_they_should_be(bench: Lab, node: Node) -> None:
    """T11: parallel ADDs on one node do not fight for anything."""
    guests = [await _guest(bench) for _ in range(20)]
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
    guest = await _guest(bench)
    await node.call("ensure_vpc", vpc=ONE)
    await node.call("churn", attachment=guest.attachment, netns=guest.namespace.path, rounds=5)
    before = await node.call("usage")
    await node.call("churn", attachment=guest.attachment, netns=guest.namespace.path, rounds=40)
    assert await node.call("usage") == before


async def test_cancelled_calls_leave_nothing_behind(bench: Lab, node: Node) -> None:
    """T23: cancelled at random moments: no device, rule, element, descriptor or thread stays."""
    guest = await _guest(bench)
    place = {"attachment": guest.attachment, "netns": guest.namespace.path}
    await node.call("cancel_storm", **place, rounds=5)
    before = await node.call("usage")
    assert await node.call("cancel_storm", **place, rounds=40) > 0
    assert node.traces(guest.host_device) == []
    assert await node.call("usage") == before
    await bench.attach(guest)
    assert await node.call("check", record=guest.record) == []
    await _gone(guest)


DRIFTS = {
    "device": ("link", "set", "{device}", "down"),
    "MTU": ("link", "set", "{device}", "mtu", "1300"),
    "MAC": ("link", "set", "{device}", "address", "02:00:00:00:00:77"),
    "route": ("route", "del", "{v4}", "table", "{table}"),
    "rule": ("rule", "del", "pref", "1000", "iif", "{device}"),
    "neighbour": ("neigh", "del", "{v4}", "dev", "{device}"),
    "lladdr": ("neigh", "replace", "{v4}", "lladdr", "02:00:00:00:00:77", "dev", "{device}", "nud", "permanent"),
    "proxy": ("-6", "neigh", "del", "proxy", "fd20:0:1::1", "dev", "{device}"),
    "fe80::1": ("-6", "addr", "del", "fe80::1/64", "dev", "{device}"),
    "End.DX4": ("-6", "route", "del", "fd5f::1:1234:5678:90ab:4", "table", "100000"),
    "gateway": ("addr", "add", "10.128.0.1/32", "dev", "lo"),
}


@pytest.mark.parametrize("what", [name for name in DRIFTS if name != "gateway"])
async def test_check_names_a_difference_and_the_same_calls_heal_it(bench: Lab, node: Node, what: str) -> None:
    """T10: CHECK after each kind of drift."""
    guest = await bench.attach(await _guest(bench))
    places = {"device": guest.host_device, "v4": guest.ipv4, "table": "100001"}
    node.namespace.ip(*(word.format(**places) for word in DRIFTS[what]))
    found = await node.call("check", record=guest.record)
    assert any(what in each for each in found), found
    await node.call("heal", device="V05Gomdd23I")
    await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    await node.call("bring_up", record=guest.record)
    assert await node.call("check", record=guest.record) == []
    await _gone(guest)


@pytest.mark.parametrize("what", ["address", "route", "neighbour"])
async def test_check_names_a_difference_inside_the_guest(bench: Lab, node: Node, what: str) -> None:
    """T10: CHECK looks into the guest's namespace too."""
    guest = await bench.attach(await _guest(bench))
    change = {
        "address": ("addr", "del", f"{guest.ipv4}/32", "dev", "eth0"),
        "route": ("-6", "route", "del", "default"),
        "neighbour": ("neigh", "del", "10.128.0.1", "dev", "eth0"),
    }[what]
    guest.namespace.ip(*change)
    assert any(what in each for each in await node.call("check", record=guest.record))
    await node.call("bring_up", record=guest.record)
    assert await node.call("check", record=guest.record) == []
    await _gone(guest)


async def test_check_names_firewall_elements_and_tables_that_are_gone(bench: Lab, node: Node) -> None:
    """T10: a flushed ruleset is a difference; setting the node up and preparing again heals it."""
    guest = await bench.attach(await _guest(bench))
    node.namespace.exec("nft", "delete", "element", "inet", "netclaim", "marks", f"{{ {guest.host_device} }}")
    assert any("marks" in each for each in await node.call("check", record=guest.record))
    node.namespace.exec("nft", "flush", "ruleset")
    assert any("firewall" in each for each in await node.call("check", record=guest.record))
    assert any("firewall" in each for each in await node.call("check_node"))
    await node.call("setup_node")
    await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    assert await node.call("check", record=guest.record) == []
    await _gone(guest)


async def test_a_flushed_firewall_comes_back_open_for_the_guests_that_live_here(bench: Lab, node: Node) -> None:
    """REPORT pitfall 13: one flush and it is gone; setting the node up heals it, for everybody at once."""
    first, second = await bench.attach(await _guest(bench)), await bench.attach(await _guest(bench))
    node.namespace.exec("nft", "flush", "ruleset")
    await node.call("setup_node")
    for guest in (first, second):
        assert await node.call("check", record=guest.record) == []
    for family in FAMILIES:
        assert await answered(first, second, family)
    for guest in (first, second):
        await _gone(guest)


async def test_attach_brings_a_flushed_firewall_back(bench: Lab, node: Node) -> None:
    """A new guest is not refused for as long as it takes somebody to notice."""
    first = await bench.attach(await _guest(bench))
    node.namespace.exec("nft", "flush", "ruleset")
    second = await bench.attach(await _guest(bench))
    for guest in (first, second):
        assert await node.call("check", record=guest.record) == []
    assert await answered(first, second, 4)
    for guest in (first, second):
        await _gone(guest)


async def test_detach_succeeds_where_the_firewall_is_gone(bench: Lab, node: Node) -> None:
    """T10: DEL always succeeds when there is nothing to do."""
    guest = await bench.attach(await _guest(bench))
    node.namespace.exec("nft", "flush", "ruleset")
    assert await node.call("detach", record=guest.record)
    assert node.traces(guest.host_device) == []
    await node.call("setup_node")


async def test_setting_the_node_up_again_keeps_guests_and_counters(bench: Lab, node: Node) -> None:
    """A restarted agent loads its tables in one transaction: no element is lost, no drop is forgotten."""
    first, second = await bench.attach(await _guest(bench)), await bench.attach(await _guest(bench))
    before = await node.call("drops")
    await node.restart()
    await node.call("setup_node")
    assert await answered(first, second, 6)
    assert await node.call("check", record=first.record) == []
    after = await node.call("drops")
    assert all(after[name] >= before[name] for name in before)
    for guest in (first, second):
        await node.call("adopt", record=guest.record)
        await _gone(guest)


async def test_a_device_that_went_down_and_up_is_put_back(bench: Lab, node: Node) -> None:
    """node-agent.md: link events reconcile: host end, both ends of the pair, the uplink."""
    await node.call("follow_links")
    first, second = await bench.attach(await _guest(bench)), await bench.attach(await _guest(bench))
    for device in (first.host_device, "V05Gomdd23I", "V05Gomdd23O"):
        for state in ("down", "up"):
            node.namespace.ip("link", "set", device, state)

        async def whole() -> bool:
            return not await node.call("check", record=first.record)

        await until(whole, timeout=5, what=f"{device} put back")
        assert await answered(first, second, 4)
        assert await answered(first, second, 6)
    for guest in (first, second):
        await _gone(guest)


async def test_the_sweep_finds_and_removes_exactly_what_nobody_owns(bench: Lab, node: Node) -> None:
    """T09: a rebooted or rebuilt journal: devices, rules, elements, tables, SIDs of no row; a stranger's stay."""
    kept, lost = await bench.attach(await _guest(bench)), await _guest(bench)
    lost.attachment |= {"vpc": TWO[0], "index": TWO[1]}
    await bench.attach(lost)
    node.namespace.ip("link", "add", "G00000000A00ZH", "type", "veth", "peer", "name", "stranger")
    node.namespace.ip("rule", "add", "pref", "1000", "iif", "stranger", "lookup", "100777")
    await node.restart()
    found = await node.call("strays", records=[kept.record])
    assert {kind for kind, _ in found} == {"device", "rule", "element", "table", "segment"}
    await node.call("remove", strays=found)
    assert await node.call("strays", records=[kept.record]) == []
    assert node.traces(lost.host_device, "100002", "150002") == []
    assert node.traces("stranger")
    assert await node.call("check", record=kept.record) == []
    node.namespace.ip("link", "del", "stranger")
    node.namespace.ip("rule", "del", "pref", "1000", "iif", "stranger")
    await node.call("adopt", record=kept.record)
    await _gone(kept)


async def test_a_cleared_node_is_as_it_was(bench: Lab) -> None:
    """R36: uninstalling leaves nothing on the node; the table local is asked first again."""
    node = bench.nodes["B"]
    guest = bench.guest("B", TWO, 900, 9, name="cleared")
    await bench.attach(guest)
    await node.call("detach", record=guest.record)
    await node.call("clear_node")
    assert node.traces("110", "netclaim", "fd5f:", "G00000000A") == []
    for family in ("-4", "-6"):
        assert node.namespace.ip(family, "rule").startswith(("0:\tfrom all lookup local", " 0:\tfrom all lookup local"))
    await node.call("setup_node")
    await node.call("set_nodes", nodes=[["fd5f:0:0:1::/64", "fd00:aa::1"]])
    assert await node.call("check_node") == []


async def test_an_inventory_names_every_device_with_its_owner(bench: Lab, node: Node) -> None:
    """node-agent.md: a damaged journal is rebuilt from the kernel: the alias says whose a device is."""
    guest = await bench.attach(await _guest(bench))
    found = await node.call("inventory")
    assert found["devices"][guest.host_device] == f"netclaim {guest.attachment['owner']}"
    assert set(found["devices"]) == {guest.host_device, "V05Gomdd23I", "V05Gomdd23O"}
    await _gone(guest)


async def test_the_uplink_that_went_down_and_up_gets_its_routes_back(bench: Lab, node: Node) -> None:
    """REPORT pitfall 6: it has lost the routes to the other nodes; the SIDs hang on the pair and stay."""
    await node.call("follow_links")
    await node.call("set_nodes", nodes=[["fd5f:0:0:2::/64", "fd00:aa::2"]])
    guest = await bench.attach(await _guest(bench))
    for state in ("down", "up"):
        node.namespace.ip("link", "set", "up0", state)
    await until(lambda: node.traces("fd5f:0:0:2::/64"), timeout=5, what="the route to the other node's locator")
    assert await node.call("check", record=guest.record) == []
    node.namespace.ip("addr", "add", "fd00:aa::1/64", "dev", "up0", "nodad")
    await _gone(guest)


async def test_remote_prefixes_change_by_difference_and_heal(bench: Lab, node: Node) -> None:
    """node-agent.md: full tables heal by difference; a changed SID replaces, a vanished prefix goes."""
    await node.call("ensure_vpc", vpc=ONE)
    sid, other = "fd5f::2:1234:5678:90ab:4", "fd5f::3:1234:5678:90ab:4"
    many = [[f"10.129.{number // 250}.{number % 250}/32", sid] for number in range(600)]
    assert await node.call("set_remotes", vpc=ONE, remotes=many) == {"added": 600, "removed": 0}
    assert await node.call("set_remotes", vpc=ONE, remotes=many) == {"added": 0, "removed": 0}
    assert await node.call("set_remotes", vpc=ONE, remotes=many, verify=True) == {"added": 0, "removed": 0}
    node.namespace.ip("route", "del", "10.129.0.7/32", "table", "150001")
    assert await node.call("set_remotes", vpc=ONE, remotes=many, verify=True) == {"added": 1, "removed": 0}
    assert "10.129.0.7" in node.namespace.ip("route", "show", "table", "150001")
    moved = [["10.129.0.0/32", other], *many[1:599]]
    assert await node.call("set_remotes", vpc=ONE, remotes=moved) == {"added": 1, "removed": 1}
    assert other in node.namespace.ip("route", "show", "10.129.0.0", "table", "150001")
    await node.restart()
    assert await node.call("set_remotes", vpc=ONE, remotes=[]) == {"added": 0, "removed": 599}
    assert node.traces("10.129.") == []


async def test_a_prefix_inside_the_locator_block_is_never_accepted(bench: Lab, node: Node) -> None:
    """node-agent.md: it would open the way to the segments; nor is a segment outside of the block."""
    await node.call("ensure_vpc", vpc=ONE)
    for prefix, sid in (("fd5f:0:0:2::/64", "fd5f::2"), ("fd5f::/32", "fd5f::2"), ("10.1.0.0/24", "fd60::2")):
        with pytest.raises(CallError) as raised:
            await node.call("set_remotes", vpc=ONE, remotes=[[prefix, sid]])
        assert raised.value.kind == "ValueError"
    assert await node.call("set_remotes", vpc=ONE, remotes=[["::/0", "fd5f::2"]]) == {"added": 1, "removed": 0}


async def test_a_guest_that_is_here_wins_against_an_advertisement_that_says_it_is_elsewhere(stage: Scene) -> None:
    """R7: while an address moves, a late advertisement does not take the traffic of the guest that is here."""
    node = stage.one_a.node
    sids = await stage.one_b.node.sids(ONE)
    remotes = [[block, sids[4 if "." in block else 6]] for block in (*stage.one_b.blocks, *stage.one_c.blocks)]
    await node.call("set_remotes", vpc=ONE, remotes=remotes)
    for family in FAMILIES:
        assert await answered(stage.one_a, stage.one_c, family)
        assert await answered(stage.one_a, stage.one_b, family)


async def test_a_default_route_of_the_vpc_leads_to_an_egress_guest_and_never_to_a_segment(stage: Scene) -> None:
    """node-agent.md: a default route is a prefix like any other; the locator block stays unreachable in T."""
    sids = await stage.one_b.node.sids(ONE)
    remotes = [["0.0.0.0/0", sids[4]], ["::/0", sids[6]]]
    await stage.one_a.node.call("set_remotes", vpc=ONE, remotes=remotes)
    for family in FAMILIES:
        assert await answered(stage.one_a, stage.one_b, family)
    route = stage.one_a.node.namespace.ip("-6", "route", "show", "table", "100001", "fd5f::/32")
    assert route.startswith("unreachable")
