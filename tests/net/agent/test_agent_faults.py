"""The API server loses answers, drops connections, revokes tokens, or is not there yet; the agent hangs."""

import asyncio
import random
from pathlib import Path

import pytest
import yaml

from netclaim.api import resources
from tests.control_plane import ControlPlane
from tests.net.agent.node import Node
from tests.net.agent.plumbing import Guest
from tests.net.agent.world import World
from tests.waiting import until

THREADS = 24
"""All the threads that the agent's pools may have, and a few; one for each call would be more."""


async def added(node: Node, guest: Guest) -> None:
    """ADD until it is done, as a runtime tries again; each refusal says that waiting helps."""

    async def done() -> bool:
        outcome = await node.cni("ADD", guest, check=False)
        assert outcome.code == 0 or outcome.json["code"] == 11, outcome.out
        return outcome.code == 0

    await until(done, timeout=60, interval=0.2, what="the ADD is done")


@pytest.mark.parametrize("lost", [1, 2, 3])
async def test_an_add_whose_answers_from_the_api_are_lost_is_done_or_undone_and_never_half(
    world: World, lost: int
) -> None:
    """T02: the claim may be committed although nobody heard so: another try finds it, a DEL takes it back."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", two)
    await world.advertised("two")
    a.door.lose_replies(lost)
    outcome = await a.cni("ADD", one, check=False)
    assert a.door.lost
    if outcome.code:
        assert outcome.json["code"] == 11
    await added(a, one)
    assert await one.pings("10.128.0.3")
    await world.advertised("one")
    await world.sound()
    a.door.lose_replies(lost)
    await a.cni("DEL", one)
    await world.withdrawn("one", timeout=60)


async def test_a_runtime_that_gives_up_after_a_lost_answer_leaves_nothing_claimed(world: World) -> None:
    """T02, T06: DEL after an ADD whose claim was committed unheard; the next container gets the attachment."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    for _ in range(3):
        guest = await world.guest("one")
        a.door.lose_replies(2)
        await a.cni("ADD", guest, check=False)
        await a.cni("DEL", guest)
    last = await world.guest("one")
    await added(a, last)
    await world.advertised("one")
    assert (await world.facts("one"))["containerID"] == last.container


async def test_watches_that_were_cut_are_resumed_and_no_route_is_missed(world: World) -> None:
    """T22: what was told while the connection was gone is found; so is what vanished meanwhile."""
    a, b = await world.add_nodes("a", "b")
    for name, own, number in (("one", 1, 2), ("two", 2, 3), ("three", 3, 4)):
        await world.attach(name, 36, own, number)
    one, two, three = [await world.guest(name) for name in ("one", "two", "three")]
    await a.cni("ADD", one)
    await b.cni("ADD", two)
    await until(lambda: one.pings("10.128.0.3"), timeout=60, what="one reaches two")
    await a.door.shut()
    await b.cni("DEL", two)
    await b.cni("ADD", three)
    await world.advertised("three")
    await world.withdrawn("two", timeout=60)
    await a.door.open()
    await until(lambda: one.pings("10.128.0.4"), timeout=60, what="one reaches three")
    a.door.cut()
    await b.cni("DEL", three)
    await world.withdrawn("three", timeout=60)
    await world.sound()


async def test_an_agent_that_starts_before_the_api_server_serves_what_it_knows(world: World) -> None:
    """T27: permuted start order: DEL and CHECK need the journal only; an ADD waits with a reason and is then done."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await world.advertised("one")
    await a.stop(9)
    await a.door.shut()
    await a.start()
    await a.cni("CHECK", one)
    await a.cni("STATUS", one, cniVersion="1.1.0")
    refused = await a.cni("ADD", two, check=False)
    assert (refused.json["code"], "cannot be asked" in refused.json["msg"]) == (11, True)
    await a.cni("DEL", one)
    assert "G00000000A001H" not in await a.ip("-o", "link")
    await a.door.open()
    await added(a, two)
    await world.withdrawn("one", timeout=60)
    await world.advertised("two")


async def test_a_rotated_token_is_taken_up_and_the_revoked_one_is_never_missed(
    world: World, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """T28: the file changes, the old token is revoked: no restart, nothing is lost."""
    (a,) = await world.add_nodes("a", start=False)
    kubectl, namespace = control_plane.kubectl, world.system
    kubectl("create", "serviceaccount", "agent", "-n", namespace)
    account = f"{namespace}:agent"
    kubectl("create", "clusterrolebinding", account, "--clusterrole=cluster-admin", f"--serviceaccount={account}")

    def token(number: int) -> str:
        """A token that lives as long as a Secret of its own."""
        name = f"session-{number}"
        kubectl("create", "secret", "generic", name, "-n", namespace)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={name}")
        return kubectl("create", "token", "agent", "-n", namespace, *bound).strip()

    (tmp_path / "token").write_text(token(1))
    config = yaml.safe_load(world.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"tokenFile": "token"}
    a.kubeconfig = tmp_path / "agent.kubeconfig"
    a.kubeconfig.write_text(yaml.safe_dump(config))
    try:
        await a.start()
        for number in range(1, 4):
            await world.attach(f"web-{number}", 36, number, 1 + number)
            guest = await world.guest(f"web-{number}")
            await added(a, guest)
            await world.advertised(f"web-{number}")
            (tmp_path / "token").write_text(token(number + 1))
            kubectl("delete", "secret", f"session-{number}", "-n", namespace)
        assert a.process is not None
        assert a.process.returncode is None
        await world.sound()
    finally:
        kubectl("delete", "clusterrolebinding", account)


async def test_an_attachment_made_anew_under_its_old_name_is_not_touched_by_what_was_the_old_ones(
    world: World,
) -> None:
    """T06: same name, same identifiers, another uid, while the agent was away: the device goes, the facts stay."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    old = await world.guest("one")
    await a.cni("ADD", old)
    await world.advertised("one")
    await a.stop(9)
    await world.cell.delete(resources.ATTACHMENTS, world.shop, "one")
    await world.attach("one", 36, 1, 2)
    await a.start()

    async def closed() -> bool:
        return not await a.traces()

    await until(closed, timeout=60, what="the device of the old attachment is closed")
    new = await world.guest("one")
    await added(a, new)
    await a.cni("DEL", old)
    await a.cni("CHECK", new)
    await world.advertised("one")
    assert (await world.facts("one"))["containerID"] == new.container


async def test_a_hanging_agent_holds_up_no_deletion_and_what_was_kept_is_done_when_it_goes_on(world: World) -> None:
    """T12: it takes connections and says nothing: an ADD is told to come back, a DEL is kept."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await world.advertised("one")
    a.pause()
    try:
        refused, deleted = await asyncio.gather(a.cni("ADD", two, check=False), a.cni("DEL", one))
        assert (refused.json["code"], deleted.code) == (11, 0)
        assert list(a.spool.glob("*.json"))
        assert "no sign of life" in refused.json["details"]
    finally:
        a.resume()
    await world.withdrawn("one", timeout=60)
    await until(lambda: not list(a.spool.iterdir()), timeout=60, what="the kept call is done")
    # The ADD was read after its client had gone: it is undone, and the next try succeeds.
    await added(a, two)
    await world.advertised("two")


async def test_adds_and_dels_that_are_killed_at_random_leave_descriptors_threads_and_links_as_they_were(
    world: World,
) -> None:
    """T23: through the executed binary; the long run is a benchmark."""
    (a,) = await world.add_nodes("a")
    names = [f"web-{number}" for number in range(6)]
    for number, name in enumerate(names):
        await world.attach(name, 36 + number % 2, 1 + number, 2 + number)
    guests = [await world.guest(name) for name in names]
    seeded = random.Random(23)

    async def round_of(guest: Guest) -> None:
        call = asyncio.create_task(a.cni("ADD", guest, check=False))
        if seeded.random() < 0.5:
            await asyncio.wait({call}, timeout=seeded.uniform(0, 0.1))
            call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await a.cni("DEL", guest)

    async def churn(rounds: int) -> tuple[int, int, int]:
        for _ in range(rounds):
            await asyncio.gather(*(round_of(guest) for guest in guests))
        return await until(lambda: _held(a), timeout=60, interval=0.5, what="nothing of a guest left")

    before = await churn(2)
    after = await churn(6)
    assert after[2] == before[2]
    assert after[0] <= before[0] + 5, "descriptors: connections to the API server may come and go"
    assert after[1] <= THREADS
    for name in names:
        await world.withdrawn(name, timeout=60)


async def _held(node: Node) -> tuple[int, int, int] | None:
    """Descriptors and threads of the agent and the node's links, None while something of a guest is left."""
    if await node.traces():
        return None
    assert node.process is not None
    agent = Path(f"/proc/{node.process.pid}")
    links = (await node.ip("-o", "link")).count("\n")
    return len(list((agent / "fd").iterdir())), len(list((agent / "task").iterdir())), links
