"""Whatever interrupts the agent, the next life finds it and puts it right."""

import contextlib
import sqlite3

import pytest

from netclaim.api import managers, resources
from tests.net.agent.plumbing import run
from tests.net.agent.world import World
from tests.waiting import until


async def test_guests_keep_working_while_the_agent_is_killed_and_restarted(world: World) -> None:
    """T03, T27: kill -9 and restart: no packet is lost, DEL still knows everything."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await a.cni("ADD", two)
    await a.stop(9)
    assert await one.pings("10.128.0.3")
    await a.start()
    assert await one.pings("fd20:0:1:3::1")
    await a.cni("CHECK", one)
    for guest in (one, two):
        await a.cni("DEL", guest)
    await a.clean()


async def test_an_add_that_was_killed_in_the_middle_is_undone_at_the_next_start(world: World) -> None:
    """T03, multus-cni#267: the journal says `adding`, the kernel may hold anything; nothing of it stays."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    guest = await world.guest("one")
    await a.cni("ADD", guest)
    await world.advertised("one")
    await a.stop(9)
    with contextlib.closing(sqlite3.connect(a.folder / "state" / "journal.db")) as db, db:
        db.execute("UPDATE rows SET state = 'adding'")
    await a.start()
    await a.clean()
    await world.withdrawn("one")
    await a.cni("ADD", guest)
    assert await a.traces() != []


async def test_a_sandbox_that_vanished_without_a_del_is_swept_at_start(world: World) -> None:
    """T09, cri#948: after a reboot, namespaces and links are gone and no DEL ever comes."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    gone, stays = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", gone)
    await a.cni("ADD", stays)
    await world.advertised("one")
    await a.stop(9)
    await run("ip", "netns", "del", gone.namespace)

    async def torn_down() -> bool:
        return "G00000000A001H" not in await a.ip("-o", "link")

    await until(torn_down, what="the kernel has removed the veth of the namespace")
    await a.start()
    assert "G000000" in await a.ip("-o", "link")
    assert not [line for line in await a.traces() if "001H" in line or "10.128.0.2" in line]
    await world.withdrawn("one")
    again = await world.guest("one")
    await a.cni("ADD", again)
    assert await again.pings("10.128.0.3")


async def test_kernel_state_that_was_lost_is_put_back_at_start(world: World) -> None:
    """T09, node-agent.md: rows are compared with the kernel."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await a.cni("ADD", two)
    await a.stop(9)
    await a.ip("link", "set", "G00000000A001H", "down")
    await a.ip("link", "set", "G00000000A001H", "up")
    assert not await one.pings("10.128.0.3")
    await a.start()
    assert await one.pings("10.128.0.3")
    assert await two.pings("fd20:0:1:2::1")


async def test_what_nobody_owns_is_swept_and_what_is_missing_is_put_back(world: World) -> None:
    """T04, T26: kernel objects of ours without a row go after two observations; a live row's rules come back."""
    (a,) = await world.add_nodes("a", start=False)
    a.flags = ("--sweep-interval", "0.5")
    await a.start()
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await a.cni("ADD", two)
    await world.advertised("two")
    await a.stop(9)
    with contextlib.closing(sqlite3.connect(a.folder / "state" / "journal.db")) as db, db:
        db.execute("DELETE FROM rows WHERE container = ?", (two.container,))
    await a.ip("-4", "rule", "del", "pref", "1000", "iif", "G00000000A001H")
    await a.start()

    async def swept() -> bool:
        return "G00000000A002H" not in "".join(await a.traces())

    await until(swept, timeout=20, what="the device without a row is swept")
    await world.withdrawn("two")
    await a.cni("CHECK", one)
    again = await world.guest("two")
    await a.cni("ADD", again)
    assert await again.pings("10.128.0.2")


async def test_an_agent_that_cannot_see_the_namespaces_cuts_nobody_off(world: World) -> None:
    """kuryr-kubernetes@b4bd7312: a mount that is not propagated is no proof that a sandbox is gone."""
    (a,) = await world.add_nodes("a", start=False)
    a.flags = ("--sweep-interval", "0.5")
    await a.start()
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    unseen = f"/run/netns/{one.namespace}-moved"
    await run("touch", unseen)
    await run("mount", "--bind", one.netns, unseen)
    await a.cni("ADD", one, env={"CNI_NETNS": unseen})
    await a.cni("ADD", two)
    await run("umount", unseen)
    await until(lambda: "cannot be entered" in a.log, what="a sweep that cannot see the namespace")
    assert await one.pings("10.128.0.3")
    assert (await world.facts("one"))["containerID"] == one.container
    await run("rm", unseen)
    await a.cni("DEL", one, env={"CNI_NETNS": unseen})


@pytest.mark.parametrize("fate", ["lost", "damaged"])
async def test_a_journal_that_is_gone_is_made_again_and_no_guest_loses_its_network(world: World, fate: str) -> None:
    """node-agent.md, Journal: set aside, rebuilt from the kernel, said loudly, never a crash loop (T03, T26)."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    await world.attach("vm", 36, 3, 4, mode="Hypervisor")
    await world.attach("other", 62, 1, 3)
    one, two, machine, other = [await world.guest(name) for name in ("one", "two", "vm", "other")]
    for guest in (other, one, two, machine):
        await a.cni("ADD", guest)
        await world.advertised(guest.attachment)
    before = await a.traces()
    await a.lose_journal(fate)
    await a.start()
    assert await one.pings("10.128.0.3")
    assert await two.pings("fd20:0:1:2::1")
    assert ("the journal is damaged" in a.log) == (fate == "damaged")
    assert "the journal is made again" in a.log
    assert await a.traces() == before
    await world.sound()
    for guest in (one, two, machine, other):
        await a.cni("CHECK", guest)
        assert (await world.facts(guest.attachment))["containerID"] == guest.container
        await a.cni("DEL", guest)
        await world.withdrawn(guest.attachment)
    await a.clean()


async def test_a_new_journal_knows_which_tables_are_taken_and_takes_back_what_is_not_there(world: World) -> None:
    """A new VPC never gets a table with another's routes; a container that went meanwhile is not told of any more."""
    (a,) = await world.add_nodes("a")
    for name, vpc, number in (("one", 36, 2), ("gone", 50, 3), ("new", 62, 2)):
        await world.attach(name, vpc, 1, number)
    one, gone = await world.guest("one"), await world.guest("gone")
    await a.cni("ADD", gone)
    await a.cni("ADD", one)
    for name in ("one", "gone"):
        await world.advertised(name)
    await a.lose_journal("lost")
    await run("ip", "netns", "del", gone.namespace)
    await until(lambda: a.lacks_device("G00000000o001H"), what="the kernel has removed the veth of the namespace")
    await a.start()
    await world.withdrawn("gone")
    new = await world.guest("new")
    await a.cni("ADD", new)
    for guest in (one, new):
        await a.cni("CHECK", guest)
    assert not await new.pings("10.128.0.3")
    await world.sound()


async def test_without_journal_and_api_the_agent_waits_and_guests_keep_their_network(world: World) -> None:
    """T27: nothing is torn down on a guess: an ADD is told to come back, a DEL is kept, traffic goes on."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await a.cni("ADD", two)
    await a.lose_journal("lost")
    await a.door.shut()
    await a.launch()
    await until(lambda: "the API cannot be asked" in a.log, timeout=60, what="the agent asks the API")
    assert await one.pings("10.128.0.3")
    refused = await a.cni("ADD", await world.guest("one"), check=False)
    assert refused.json["code"] == 11
    await a.cni("DEL", two)
    await a.door.open()
    await a.listens()
    await world.withdrawn("two")
    await a.cni("CHECK", one)
    await world.sound()


async def test_a_renamed_node_closes_what_was_another_nodes_and_takes_nothing_back_for_it(world: World) -> None:
    """T08: a machine made from another's disk image: its journal and kernel speak of containers that live elsewhere."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    guest = await world.guest("one")
    await a.cni("ADD", guest)
    facts, told = await world.facts("one"), await world.advertised("one")
    await a.stop(9)
    await world.rename(a, f"{a.name}-again")
    await a.start()
    assert "the journal is another node's" in a.log
    await a.clean()
    await a.cni("DEL", guest)
    await world.attach("two", 36, 2, 3)
    await a.cni("ADD", await world.guest("two"))
    await world.advertised("two")
    assert await world.facts("one") == facts
    assert (await world.advertised("one"))["metadata"]["uid"] == told["metadata"]["uid"]


async def test_a_sandbox_that_vanishes_while_the_agent_runs_is_swept(world: World) -> None:
    """node-agent.md: the agent's own sweep depends on neither GC nor STATUS."""
    (a,) = await world.add_nodes("a", start=False)
    a.flags = ("--sweep-interval", "0.5")
    await a.start()
    await world.attach("one", 36, 1, 2)
    guest = await world.guest("one")
    await a.cni("ADD", guest)
    await run("ip", "netns", "del", guest.namespace)

    async def swept() -> bool:
        return not await a.traces()

    await until(swept, timeout=20, what="everything of the sandbox is swept")
    await world.withdrawn("one")


async def test_a_container_that_lost_its_attachment_while_the_agent_was_away_is_closed(world: World) -> None:
    """T08: another container is recorded: the device is closed and nothing is advertised."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    guest = await world.guest("one")
    await a.cni("ADD", guest)
    await world.advertised("one")
    await a.stop(9)
    raw = await world.cell.get(resources.ATTACHMENTS, world.shop, "one")
    metadata = {name: raw["metadata"][name] for name in ("namespace", "name", "resourceVersion")}
    moved = {"node": "node-elsewhere", "containerID": "successor", "podName": "one"}
    await world.cell.apply_status(
        resources.ATTACHMENTS, {"metadata": metadata, "status": moved}, manager=managers.NODE_AGENT
    )
    await a.start()

    async def closed() -> bool:
        return not await a.traces()

    await until(closed, what="the lost container's device is closed")
    assert await world.facts("one") == moved
    assert (await a.cni("DEL", guest)).code == 0
    assert await world.facts("one") == moved
