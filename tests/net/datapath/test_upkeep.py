"""Drift, flushes, flaps, strays, remote prefixes: found, named, and put right (node-agent.md)."""

from pathlib import Path

import pytest

from node_agent.datapath.names import LINK_GROUP
from tests.net.datapath.backend import SOON, VRF
from tests.net.datapath.lab import CallError, Lab, Node
from tests.net.datapath.passing import new_guest, take_away
from tests.net.datapath.scene import FAMILIES, ONE, TWO, Scene, answered
from tests.waiting import until

DRIFTS = {
    "device": ("link", "set", "{device}", "down"),
    "MTU": ("link", "set", "{device}", "mtu", "1300"),
    "MAC": ("link", "set", "{device}", "address", "02:00:00:00:00:77"),
    "route": ("route", "del", "{v4}", "table", "{table}"),
    "rule": ("rule", "del", "pref", "900", "iif", "V05Gomdd23O"),
    "neighbour": ("neigh", "del", "{v4}", "dev", "{device}"),
    "lladdr": ("neigh", "replace", "{v4}", "lladdr", "02:00:00:00:00:77", "dev", "{device}", "nud", "permanent"),
    "fe80::1": ("-6", "addr", "del", "fe80::1/64", "dev", "{device}"),
}
DRIFTS |= (
    {
        "gateway": ("addr", "del", "10.128.0.1/32", "dev", "{device}"),
        "fd20:0:1::1": ("-6", "addr", "del", "fd20:0:1::1/128", "dev", "{device}"),
        "master": ("link", "set", "{device}", "nomaster"),
        "End.DT46": ("-6", "route", "del", "fd5f::1:1234:5678:90ab:46", "table", "100000"),
    }
    if VRF
    else {
        "own rule": ("rule", "del", "pref", "1000", "iif", "{device}"),
        "proxy": ("-6", "neigh", "del", "proxy", "fd20:0:1::1", "dev", "{device}"),
        "End.DX4": ("-6", "route", "del", "fd5f::1:1234:5678:90ab:4", "table", "100000"),
    }
)
"""How something is changed behind the agent's back, by the word that names it in what CHECK says."""
NAMED = {"gateway": "10.128.0.1", "own rule": "rule"}
DEVICES = ("V05Gomdd23I", "V05Gomdd23O", *(("G05Gomdd23V",) if VRF else ()))
"""What the first network has on a node of its own."""


@pytest.mark.parametrize("what", DRIFTS)
async def test_check_names_a_difference_and_the_same_calls_heal_it(bench: Lab, node: Node, what: str) -> None:
    """T10: CHECK after each kind of drift."""
    guest = await bench.attach(new_guest(bench))
    places = {"device": guest.host_device, "v4": guest.ipv4, "table": "100001"}
    node.namespace.ip(*(word.format(**places) for word in DRIFTS[what]))
    found = await node.call("check", record=guest.record)
    assert any(NAMED.get(what, what) in each for each in found), found
    await node.call("heal", device="V05Gomdd23I")
    await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    await node.call("bring_up", record=guest.record)
    assert await node.call("check", record=guest.record) == []
    await take_away(guest)


@pytest.mark.parametrize("what", ["address", "route", "neighbour"])
async def test_check_names_a_difference_inside_the_guest(bench: Lab, node: Node, what: str) -> None:
    """T10: CHECK looks into the guest's namespace too."""
    guest = await bench.attach(new_guest(bench))
    change = {
        "address": ("addr", "del", f"{guest.ipv4}/32", "dev", "eth0"),
        "route": ("-6", "route", "del", "default"),
        "neighbour": ("neigh", "del", "10.128.0.1", "dev", "eth0"),
    }[what]
    guest.namespace.ip(*change)
    assert any(what in each for each in await node.call("check", record=guest.record))
    await node.call("bring_up", record=guest.record)
    assert await node.call("check", record=guest.record) == []
    await take_away(guest)


async def test_check_names_firewall_elements_and_tables_that_are_gone(bench: Lab, node: Node) -> None:
    """T10: a flushed ruleset is a difference; setting the node up and preparing again heals it."""
    guest = await bench.attach(new_guest(bench))
    opened = "inet", "netclaim", "own4", f"{{ {guest.ipv4} . {guest.host_device} }}"
    node.namespace.exec("nft", "delete", "element", *opened)
    assert any("own4" in each for each in await node.call("check", record=guest.record))
    node.namespace.exec("nft", "flush", "ruleset")
    assert any("firewall" in each for each in await node.call("check", record=guest.record))
    assert any("firewall" in each for each in await node.call("check_node"))
    await node.call("setup_node")
    await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    assert await node.call("check", record=guest.record) == []
    await take_away(guest)


async def test_an_element_with_another_networks_mark_is_a_difference_and_replaced(bench: Lab, node: Node) -> None:
    """R35: isolation 2: the mark leads the node's answers into a network."""
    guest = await bench.attach(new_guest(bench))
    table, own = ("inet", "netclaim", "own4"), f"{guest.ipv4} . {guest.host_device}"
    node.namespace.exec("nft", "delete", "element", *table, f"{{ {own} }}")
    node.namespace.exec("nft", "add", "element", *table, f"{{ {own} : 0x6e000777 }}")
    assert any("own4" in each for each in await node.call("check", record=guest.record))
    await node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
    assert await node.call("check", record=guest.record) == []
    await take_away(guest)


async def test_a_flushed_firewall_comes_back_open_for_the_guests_that_live_here(bench: Lab, node: Node) -> None:
    """Data path design: one flush and it is gone; setting the node up heals it, for everybody at once."""
    first, second = await bench.attach(new_guest(bench)), await bench.attach(new_guest(bench))
    node.namespace.exec("nft", "flush", "ruleset")
    await node.call("setup_node")
    for guest in (first, second):
        assert await node.call("check", record=guest.record) == []
    for family in FAMILIES:
        assert await answered(first, second, family)
    for guest in (first, second):
        await take_away(guest)


async def test_what_nft_lists_of_the_firewall_can_be_loaded_again(bench: Lab, node: Node, tmp_path: Path) -> None:
    """A node's owner saves all tables in one file and loads it at boot: a line of ours must not spoil the others."""
    guest = await bench.attach(new_guest(bench))
    saved = tmp_path / "saved.nft"
    saved.write_text("flush ruleset\n" + node.namespace.exec("nft", "list", "ruleset"))
    node.namespace.exec("nft", "-f", str(saved))
    assert await node.call("check", record=guest.record) == []
    assert await node.call("check_node") == []
    await take_away(guest)


async def test_attach_brings_a_flushed_firewall_back(bench: Lab, node: Node) -> None:
    """A new guest is not refused for as long as it takes somebody to notice."""
    first = await bench.attach(new_guest(bench))
    node.namespace.exec("nft", "flush", "ruleset")
    second = await bench.attach(new_guest(bench))
    for guest in (first, second):
        assert await node.call("check", record=guest.record) == []
    assert await answered(first, second, 4)
    for guest in (first, second):
        await take_away(guest)


async def test_detach_succeeds_where_the_firewall_is_gone(bench: Lab, node: Node) -> None:
    """T10: DEL always succeeds when there is nothing to do."""
    guest = await bench.attach(new_guest(bench))
    node.namespace.exec("nft", "flush", "ruleset")
    assert await node.call("detach", record=guest.record)
    assert node.traces(guest.host_device) == []
    await node.call("setup_node")


async def test_setting_the_node_up_again_keeps_guests_and_counters(bench: Lab, node: Node) -> None:
    """A restarted agent loads its tables in one transaction: no element is lost, no drop is forgotten."""
    first, second = await bench.attach(new_guest(bench)), await bench.attach(new_guest(bench))
    before = await node.call("drops")
    await node.restart()
    await node.call("setup_node")
    assert await answered(first, second, 6)
    assert await node.call("check", record=first.record) == []
    after = await node.call("drops")
    assert all(after[name] >= before[name] for name in before)
    for guest in (first, second):
        await node.call("adopt", record=guest.record)
        await take_away(guest)


async def test_a_device_that_went_down_and_up_is_put_back(bench: Lab, node: Node) -> None:
    """node-agent.md: link events reconcile: host end, both ends of the pair, the uplink."""
    await node.call("follow_links")
    first, second = await bench.attach(new_guest(bench)), await bench.attach(new_guest(bench))
    for device in (first.host_device, *DEVICES):
        for state in ("down", "up"):
            node.namespace.ip("link", "set", device, state)

        async def whole() -> bool:
            return not await node.call("check", record=first.record)

        await until(whole, timeout=SOON, what=f"{device} put back")
        assert await answered(first, second, 4)
        assert await answered(first, second, 6)
    for guest in (first, second):
        await take_away(guest)


async def test_the_sweep_finds_and_removes_exactly_what_nobody_owns(bench: Lab, node: Node) -> None:
    """T09: a rebooted or rebuilt journal: devices, rules, elements, tables, SIDs of no row; a stranger's stay."""
    kept, lost = await bench.attach(new_guest(bench)), new_guest(bench)
    lost.attachment |= {"vpc": TWO[0], "index": TWO[1]}
    await bench.attach(lost)
    # Neither a name like ours nor our link group makes a device ours.
    kind = ("type", "veth", "peer", "name", "stranger")
    node.namespace.ip("link", "add", "G00000000A00ZH", "group", str(LINK_GROUP), *kind)
    node.namespace.ip("rule", "add", "pref", "1000", "iif", "stranger", "lookup", "100777")
    await node.restart()
    found = await node.call("strays", records=[kept.record])
    assert {kind for kind, _ in found} == {"device", "rule", "element", "table", "segment"}
    await node.call("remove", strays=found)
    assert await node.call("strays", records=[kept.record]) == []
    assert node.traces(lost.host_device, "100002", "150002") == []
    assert node.traces("stranger")
    assert await node.call("check", record=kept.record) == []
    assert node.traces("G00000000A00ZH")
    node.namespace.ip("link", "del", "stranger")
    node.namespace.ip("rule", "del", "pref", "1000", "iif", "stranger")
    await node.call("adopt", record=kept.record)
    await take_away(kept)


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
    guest = await bench.attach(new_guest(bench))
    found = await node.call("inventory")
    assert found["devices"][guest.host_device] == f"netclaim {guest.attachment['owner']}"
    assert set(found["devices"]) == {guest.host_device, *DEVICES}
    await take_away(guest)


async def test_the_uplink_that_went_down_and_up_gets_its_routes_back(bench: Lab, node: Node) -> None:
    """Data path design: it has lost the routes to the other nodes; the SIDs hang on the pair and stay."""
    await node.call("follow_links")
    # A router with this node's own address (its former name) keeps no other node's route away.
    await node.call("set_nodes", nodes=[["fd5f:0:0:9::/64", "fd00:aa::1"], ["fd5f:0:0:2::/64", "fd00:aa::2"]])
    guest = await bench.attach(new_guest(bench))
    for state in ("down", "up"):
        node.namespace.ip("link", "set", "up0", state)
    await until(lambda: node.traces("fd5f:0:0:2::/64"), timeout=SOON, what="the route to the other node's locator")
    assert await node.call("check", record=guest.record) == []
    node.namespace.ip("addr", "add", "fd00:aa::1/64", "dev", "up0", "nodad")
    await take_away(guest)


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


async def test_a_guest_that_is_here_wins_against_an_advertisement_that_says_it_is_elsewhere(own_stage: Scene) -> None:
    """R7: while an address moves, a late advertisement does not take the traffic of the guest that is here."""
    node = own_stage.one_a.node
    sids = await own_stage.one_b.node.sids(ONE)
    remotes = [[block, sids[4 if "." in block else 6]] for block in (*own_stage.one_b.blocks, *own_stage.one_c.blocks)]
    await node.call("set_remotes", vpc=ONE, remotes=remotes)
    for family in FAMILIES:
        assert await answered(own_stage.one_a, own_stage.one_c, family)
        assert await answered(own_stage.one_a, own_stage.one_b, family)


async def test_a_default_route_of_the_vpc_leads_to_an_egress_guest_and_never_to_a_segment(own_stage: Scene) -> None:
    """node-agent.md: a default route is a prefix like any other; the locator block stays unreachable in T."""
    sids = await own_stage.one_b.node.sids(ONE)
    remotes = [["0.0.0.0/0", sids[4]], ["::/0", sids[6]]]
    await own_stage.one_a.node.call("set_remotes", vpc=ONE, remotes=remotes)
    for family in FAMILIES:
        assert await answered(own_stage.one_a, own_stage.one_b, family)
    route = own_stage.one_a.node.namespace.ip("-6", "route", "show", "table", "100001", "fd5f::/32")
    assert route.startswith("unreachable")
