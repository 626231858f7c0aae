"""ADD and DEL through the executed binary, against a real kernel and a real API server (R35, R37)."""

import asyncio
import json
import time

import pytest

from netclaim.api import managers, resources
from tests.net.agent.plumbing import Guest, run
from tests.net.agent.world import World
from tests.waiting import until


async def test_add_makes_a_guest_that_is_reached_at_once_and_tells_where_it_is(world: World) -> None:
    """R31, R35: facts and the advertisement follow an ADD; the first packet passes, both families, full size."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    await world.attach("web-1-eth0", 36, 72, 3)
    first, second = await world.guest("web-0-eth0"), await world.guest("web-1-eth0")
    result = (await node.cni("ADD", first)).json
    await node.cni("ADD", second)
    assert result["cniVersion"] == "1.0.0"
    assert [interface["name"] for interface in result["interfaces"]] == ["G00000000A013H", "eth0"]
    assert [ip["address"] for ip in result["ips"]] == ["fd20:0:1:2::1/96", "10.128.0.2/32"]
    assert await first.pings("10.128.0.3")
    assert await second.pings("fd20:0:1:2::1")
    assert await first.pings("10.128.0.3", size=1460 - 28)
    assert await first.pings("fd20:0:1:3::1", size=1460 - 48)
    assert await world.facts("web-0-eth0") == {
        "node": node.name,
        "podName": first.pod,
        "podUID": f"uid-of-{first.pod}",
        "containerID": first.container,
        "hostInterface": "G00000000A013H",
        "guestInterface": "eth0",
        "vrfInterface": "G00000000AV",
        "podSubnet": "fd20:0:1:2::/96",
        "podSubnets": ["fd20:0:1:2::/96", "10.128.0.2/32"],
    }
    advertisement = await world.advertised("web-0-eth0")
    assert advertisement["spec"]["containerID"] == first.container
    assert advertisement["spec"]["prefixes"] == ["fd20:0:1:2::/96", "10.128.0.2/32"]
    assert advertisement["metadata"]["ownerReferences"][0]["kind"] == "BGPRouter"


async def test_del_leaves_nothing_behind_in_kernel_and_api(world: World) -> None:
    """T04, T10: after the last DEL no link, rule, route, neighbour or element is left, no fact, no advertisement."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    await node.cni("ADD", guest)
    await world.advertised("web-0-eth0")
    assert await node.traces()
    assert (await node.cni("DEL", guest)).out == ""
    assert "eth0" not in (await guest.run("ip", "-o", "link")).out, "whoever is told that it is gone finds it gone"
    assert await node.lacks_device("G00000000A013H")
    await node.clean()
    await world.withdrawn("web-0-eth0")
    await node.cni("DEL", guest)


@pytest.mark.parametrize("version", ["0.4.0", "1.0.0", "1.1.0"])
async def test_results_come_in_the_version_that_was_asked_for(world: World, version: str) -> None:
    """T10: CNI 0.4.0, 1.0.0 and 1.1.0."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    result = (await node.cni("ADD", guest, cniVersion=version)).json
    assert result["cniVersion"] == version
    assert [ip.get("version") for ip in result["ips"]] == (["6", "4"] if version == "0.4.0" else [None, None])
    await node.cni("DEL", guest, cniVersion=version)


async def test_a_container_that_leaves_as_soon_as_it_has_come_leaves_no_advertisement(world: World) -> None:
    """T26: its advertisement is taken back by the very run that wrote it, before any watch shows it."""
    (node,) = await world.add_nodes("a")
    for number in range(16):
        name = f"web-{number}-eth0"
        await world.attach(name, 36, 65 + number, 2 + number)
        guest = await world.guest(name)
        await node.cni("ADD", guest)
        await node.cni("DEL", guest)
    await world.sound()


async def test_a_repeated_add_of_one_container_finds_its_own_work(world: World) -> None:
    """T10, containerd#10507: ADD again and again leaves one set of devices, and the guest keeps working."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    await world.attach("web-1-eth0", 36, 72, 3)
    guest, peer = await world.guest("web-0-eth0"), await world.guest("web-1-eth0")
    await node.cni("ADD", peer)
    first = (await node.cni("ADD", guest)).json
    links = await node.ip("-o", "link")
    version = (await world.cell.get(resources.ATTACHMENTS, world.shop, "web-0-eth0"))["metadata"]["resourceVersion"]
    assert (await node.cni("ADD", guest)).json == first
    assert await node.ip("-o", "link") == links
    raw = await world.cell.get(resources.ATTACHMENTS, world.shop, "web-0-eth0")
    assert raw["metadata"]["resourceVersion"] == version
    assert await guest.pings("10.128.0.3")


async def test_del_of_what_nobody_knows_succeeds(world: World) -> None:
    """T10: unknown container, no namespace, the node's own namespace, fields that cannot be parsed."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    own = f"/run/netns/{node.namespace}"
    for change in ({"CNI_NETNS": ""}, {"CNI_NETNS": "/run/netns/absent"}, {"CNI_NETNS": own}, {"CNI_ARGS": "x"}):
        await node.cni("DEL", guest, env=change)
    await node.cni("DEL", guest, attachment=7, vpc=None, prevResult="none")


async def test_a_second_container_is_refused_while_the_first_holds_the_attachment(world: World) -> None:
    """node-agent.md, ADD: another container recorded on it; code 11, since waiting helps."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    first, second = await world.guest("web-0-eth0"), await world.guest("web-0-eth0")
    await node.cni("ADD", first)
    refused = await node.cni("ADD", second, check=False)
    assert (refused.code, refused.json["code"]) == (1, 11)
    assert first.container in refused.json["msg"]
    assert (await world.facts("web-0-eth0"))["containerID"] == first.container
    await node.cni("DEL", second)
    assert "eth0" in (await first.run("ip", "-o", "link")).out
    await node.cni("DEL", first)
    await node.cni("ADD", second)
    assert (await world.facts("web-0-eth0"))["containerID"] == second.container
    assert (await until(lambda: world.advertised("web-0-eth0")))["spec"]["containerID"] in (
        first.container,
        second.container,
    )

    async def second_is_advertised() -> bool:
        return (await world.advertised("web-0-eth0"))["spec"]["containerID"] == second.container

    await until(second_is_advertised, what="the successor's advertisement")
    assert (await world.facts("web-0-eth0"))["containerID"] == second.container


async def test_another_tenants_attachment_is_refused(world: World) -> None:
    """node-agent.md, Isolation 8: a hand-written NAD with another tenant's attachment or identity."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    thief = {"CNI_ARGS": "K8S_POD_NAMESPACE=other;K8S_POD_NAME=thief;K8S_POD_UID=x"}
    for change, code, text in (
        ({"env": thief}, 100, "other/thief"),
        ({"vpcAttachment": "1D"}, 101, "attachment 13"),
        ({"vpc": "z"}, 101, "is VPC A"),
        ({"env": {"CNI_ARGS": ""}}, 4, "K8S_POD_NAMESPACE"),
        ({"attachment": {"namespace": world.shop, "name": "absent"}}, 11, "does not exist"),
        ({"attachment": {}}, 7, "does not point"),
    ):
        refused = await node.cni("ADD", guest, check=False, **change)
        assert (refused.code, refused.json["code"]) == (1, code), refused.out
        assert text in refused.json["msg"]
    await node.clean()
    assert await world.facts("web-0-eth0") == {}


async def test_an_attachment_that_is_going_is_refused(world: World) -> None:
    """vpc.md, Release against ADD: one object decides which of the two came first."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    held = {"metadata": {"namespace": world.shop, "name": "web-0-eth0", "finalizers": ["cloud.datumapis.com/in-use"]}}
    await world.cell.apply(resources.ATTACHMENTS, held, manager=managers.VPC_CONTROLLER)
    await world.cell.delete(resources.ATTACHMENTS, world.shop, "web-0-eth0")
    refused = await node.cni("ADD", await world.guest("web-0-eth0"), check=False)
    assert (refused.json["code"], "being deleted" in refused.json["msg"]) == (11, True)
    await node.clean()
    path = [{"op": "remove", "path": "/metadata/finalizers"}]
    await world.cell.json_patch(resources.ATTACHMENTS, world.shop, "web-0-eth0", path)


async def test_version_needs_neither_configuration_nor_agent(world: World) -> None:
    """galactic@056379ef, galactic@f0554ea1: VERSION with an empty or closed stdin."""
    outcome = await run(str(world.binary), env={"CNI_COMMAND": "VERSION"})
    assert outcome.json["supportedVersions"] == ["0.4.0", "1.0.0", "1.1.0"]
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", f"exec {world.binary} <&-", env={"CNI_COMMAND": "VERSION"}, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(5):
        assert b"supportedVersions" in (await process.communicate())[0]


async def test_without_an_agent_add_fails_within_a_second_and_del_is_kept_and_replayed(world: World) -> None:
    """T12: agent down: code 11 (STATUS 50) within 1 s; DEL succeeds, is kept, and is done when the agent is back."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    await node.cni("ADD", guest)
    assert await node.stop() == 0
    loop = asyncio.get_running_loop()
    for verb, code in (("ADD", 11), ("CHECK", 11), ("STATUS", 50)):
        started = loop.time()
        refused = await node.cni(verb, guest, check=False, cniVersion="1.1.0")
        assert (refused.code, refused.json["code"]) == (1, code)
        assert loop.time() - started < 5, "kubelet waits for minutes: a refusal has to come at once"
    await node.cni("DEL", guest)
    assert len(list(node.spool.glob("*.json"))) == 1
    assert "G00000000A013H" in await node.ip("-o", "link")
    await node.start()
    await node.clean()
    assert list(node.spool.iterdir()) == []
    await world.withdrawn("web-0-eth0")


async def test_status_and_check_answer_for_what_is_there(world: World) -> None:
    """T10: STATUS without any ADD; CHECK names the first difference."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    await node.cni("STATUS", guest, cniVersion="1.1.0")
    unknown = await node.cni("CHECK", guest, check=False)
    assert unknown.json["code"] == 3
    await node.cni("ADD", guest)
    await node.cni("CHECK", guest)
    await guest.run("ip", "link", "set", "eth0", "mtu", "1300")
    differs = await node.cni("CHECK", guest, check=False)
    assert (differs.json["code"], "1300" in differs.json["msg"]) == (103, True)
    await guest.run("ip", "link", "set", "eth0", "mtu", "1460")
    await node.cni("CHECK", guest)


async def test_a_call_whose_client_is_killed_leaves_nothing(world: World) -> None:
    """node-agent.md: a call whose client went away is finished or undone, never left in the middle."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    await world.attach("web-1-eth0", 36, 72, 3)
    guest, peer = await world.guest("web-0-eth0"), await world.guest("web-1-eth0")
    await node.cni("ADD", peer)
    node.door.freeze()
    call = asyncio.create_task(node.cni("ADD", guest))
    await until(lambda: node.door.held, what="the agent asks the API server")
    call.cancel()
    await until(lambda: "went away" in node.log, what="the agent notices")
    node.door.thaw()
    await node.cni("DEL", guest)
    assert "G00000000A013H" not in await node.ip("-o", "link")
    await world.withdrawn("web-0-eth0")
    await node.cni("ADD", guest)
    assert await guest.pings("10.128.0.3")


async def test_an_api_server_that_hangs_ends_an_add_with_a_reason_and_without_a_trace(world: World) -> None:
    """node-agent.md, ADD: API unreachable: code 11; whatever was begun is undone."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    node.door.freeze()
    refused = await node.cni("ADD", guest, check=False)
    assert (refused.json["code"], "cannot be asked" in refused.json["msg"]) == (11, True)
    await node.clean()
    node.door.thaw()
    await node.cni("ADD", guest)
    await world.advertised("web-0-eth0")


async def test_gc_removes_what_is_not_listed_of_its_own_network_only(world: World) -> None:
    """T10: GC with a full, a partial and an empty list; never another network's."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    await world.attach("web-1-eth0", 36, 72, 3)
    first, second = await world.guest("web-0-eth0"), await world.guest("web-1-eth0")
    await node.cni("ADD", first)
    await node.cni("ADD", second)
    key = "cni.dev/valid-attachments"
    full = [{"containerID": first.container, "ifname": "eth0"}]
    await node.cni("GC", first, cniVersion="1.1.0", **{key: full})
    assert await first.pings("10.128.0.3")
    await node.cni("GC", first, cniVersion="1.1.0", **{key: []})
    links = await node.ip("-o", "link")
    assert ("G00000000A013H" in links, "G00000000A01aH" in links) == (False, True)
    await world.withdrawn("web-0-eth0")


async def test_many_adds_at_once_are_all_answered(world: World) -> None:
    """T11: a burst against one agent; every call is done, every guest works, every DEL leaves nothing."""
    (node,) = await world.add_nodes("a")
    names = [f"web-{number}-eth0" for number in range(24)]
    for number, name in enumerate(names):
        await world.attach(name, 36 + number % 3, 1 + number, 2 + number)
    guests = [await world.guest(name) for name in names]

    async def add(guest: Guest) -> bool:
        """As a runtime does it: an answer that says so is worth another try."""
        outcome = await node.cni("ADD", guest, check=False)
        assert outcome.code == 0 or outcome.json["code"] == 11, outcome.out
        return outcome.code == 0

    await asyncio.gather(*(until(lambda guest=guest: add(guest), timeout=120, what="an ADD") for guest in guests))
    assert await guests[0].pings("10.128.0.5")
    assert await guests[23].pings("fd20:0:1:4::1")
    assert not await guests[0].pings("10.128.0.3")
    await asyncio.gather(*(node.cni("DEL", guest) for guest in guests))
    await node.clean()
    for name in names:
        # Two dozen at once, each told and taken back: eight workers and an API server share the machine with the burst.
        await world.withdrawn(name, timeout=30)


async def test_a_device_that_somebody_put_down_comes_back_by_itself(world: World) -> None:
    """node-agent.md, Kernel state: link events reconcile; a link that went down and up has lost its routes."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    await world.attach("web-1-eth0", 36, 72, 3)
    first, second = await world.guest("web-0-eth0"), await world.guest("web-1-eth0")
    await node.cni("ADD", first)
    await node.cni("ADD", second)
    await node.ip("link", "set", "G00000000A013H", "down")

    async def works() -> bool:
        return await first.pings("10.128.0.3")

    await until(works, what="the guest works again")
    await node.cni("CHECK", first)


async def test_a_device_of_somebody_else_is_never_touched(world: World) -> None:
    """galactic@dea41b6c: a foreign link of our name is neither taken nor deleted."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    await node.ip("link", "add", "G00000000A013H", "type", "veth", "peer", "name", "stranger")
    refused = await node.cni("ADD", guest, check=False)
    assert (refused.json["code"], "is taken" in refused.json["msg"]) == (11, True)
    await node.cni("DEL", guest)
    assert "stranger" in await node.ip("-o", "link")
    await world.withdrawn("web-0-eth0")


async def test_a_kept_del_is_played_while_the_agent_runs_and_never_undoes_a_younger_add(world: World) -> None:
    """T12: the spool is read when a file appears; T06: an old message does not touch what came after it."""
    (node,) = await world.add_nodes("a")
    await world.attach("web-0-eth0", 36, 65, 2)
    guest = await world.guest("web-0-eth0")
    before = time.time_ns()
    await node.cni("ADD", guest)
    old = {"protocol": 1, "containerID": guest.container, "ifName": "eth0", "at": before}
    (node.spool / "old.json").write_text(json.dumps(old))
    await until(lambda: not list(node.spool.iterdir()), what="the old call is dealt with")
    await node.cni("CHECK", guest)
    await node.cni("DEL", guest, env={"NETCLAIM_CNI_SOCKET": str(node.folder / "absent.sock")})

    async def gone() -> bool:
        return not await node.traces()

    await until(gone, what="the kept call is played")
    await world.withdrawn("web-0-eth0")


async def test_a_tap_is_made_for_a_hypervisor_and_taken_away(world: World) -> None:
    """R35: Hypervisor mode through the same call; the namespace of the Pod is left alone."""
    (node,) = await world.add_nodes("a")
    await world.attach("vm-0-eth0", 36, 65, 2, mode="Hypervisor")
    guest = await world.guest("vm-0-eth0")
    result = (await node.cni("ADD", guest)).json
    assert [interface["name"] for interface in result["interfaces"]] == ["G00000000A013H", "eth0"]
    assert result["interfaces"][1]["mac"] in await node.ip("neigh", "show", "dev", "G00000000A013H")
    assert "tun type tap" in await node.ip("-d", "link", "show", "G00000000A013H")
    assert (await guest.run("ip", "-o", "link")).out.count("\n") == 1
    await node.cni("CHECK", guest)
    assert (await world.advertised("vm-0-eth0"))["spec"]["prefixes"] == ["fd20:0:1:2::/96", "10.128.0.2/32"]
    await node.cni("DEL", guest)
    await node.clean()
    await world.withdrawn("vm-0-eth0")
