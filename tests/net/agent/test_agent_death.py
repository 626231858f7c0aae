"""kill -9 at each step of an ADD and of a DEL (T03): the next life leaves neither half a guest nor a leak."""

import os

from tests.net.agent.world import World

ROUND_TRIP = "Netlink.exchange:after"
"""One answer of the kernel: the finest step that a death can come after."""
SOME_ROUND_TRIPS = (1, 4, 8, 13)
EVERY_STEP = bool(os.environ.get("NETCLAIM_EVERY_STEP"))
"""Die after every single answer of the kernel: a long run, by hand."""
ADD_STEPS = (
    "Journal.begin:before",
    "Journal.begin:after",
    "Datapath.ensure_vpc:after",
    "Datapath.prepare:after",
    "claiming.claim:after",
    "Datapath.bring_up:before",
    "Datapath.bring_up:after",
    "Journal.change:before",
    "Journal.change:after",
)
UNANSWERED_DEL_STEPS = ("Journal.change:before", "Journal.change:after")
DEL_STEPS = (
    *UNANSWERED_DEL_STEPS,
    "Datapath.detach:after",
    "Journal.end:before",
    "Journal.end:after",
    "Datapath.release_vpc:after",
)


async def test_an_agent_that_dies_at_any_step_of_an_add_leaves_a_whole_guest_or_none(world: World) -> None:
    """The runtime sees a failed ADD and sends a DEL, or tries again with the same container: both find order."""
    (a,) = await world.add_nodes("a", start=False)
    await world.attach("one", 36, 1, 2)
    await a.start(mortal=True)
    for number, step in enumerate(ADD_STEPS):
        a.die_at(step)
        guest = await world.guest("one")
        failed = await a.cni("ADD", guest, check=False)
        assert (step, failed.json["code"]) == (step, 11)
        await a.died()
        await a.start(mortal=True)
        if step == "Journal.change:after":
            # All was done; only the answer was lost.
            await a.cni("CHECK", guest)
        else:
            await a.clean()
        await world.sound()
        if number % 2:
            assert (await a.cni("ADD", guest)).json["ips"]
            assert (await world.facts("one"))["containerID"] == guest.container
            await a.cni("CHECK", guest)
        await a.cni("DEL", guest)
        await a.clean()
        await world.withdrawn("one")


async def test_an_agent_that_dies_at_any_step_of_a_del_finishes_it_in_its_next_life(world: World) -> None:
    """The runtime sees a DEL that succeeded, answered or kept: whatever the agent had done of it, the rest follows.

    Once the container's device is gone the DEL may be answered, and nothing be kept, before the agent dies: the journal
    knows what is left to do.
    """
    (a,) = await world.add_nodes("a", start=False)
    await world.attach("one", 36, 1, 2)
    await a.start(mortal=True)
    for step in DEL_STEPS:
        guest = await world.guest("one")
        await a.cni("ADD", guest)
        await world.advertised("one")
        a.die_at(step)
        await a.cni("DEL", guest)
        await a.died()
        assert len(list(a.spool.glob("*.json"))) == 1 or step not in UNANSWERED_DEL_STEPS
        assert "eth0" not in (await guest.run("ip", "-o", "link")).out or step in UNANSWERED_DEL_STEPS
        await a.start(mortal=True)
        await a.clean()
        assert list(a.spool.iterdir()) == []
        await world.withdrawn("one")
        await world.sound()


async def test_an_agent_that_dies_between_two_answers_of_the_kernel_leaves_a_whole_guest_or_none(world: World) -> None:
    """T03: a peer in the same VPC, and one of another with the same address, keep their network through every death."""
    (a,) = await world.add_nodes("a", start=False)
    for name, vpc, own, number in (("one", 36, 1, 2), ("peer", 36, 2, 3), ("far", 36, 3, 4), ("other", 62, 1, 2)):
        await world.attach(name, vpc, own, number)
    await a.start(mortal=True)
    peer, far, other = [await world.guest(name) for name in ("peer", "far", "other")]
    for guest in (peer, far, other):
        await a.cni("ADD", guest)
    for verb in ("ADD", "DEL"):
        for count in range(1, 60) if EVERY_STEP else SOME_ROUND_TRIPS:
            guest = await world.guest("one")
            if verb == "DEL":
                await a.cni("ADD", guest)
            a.die_at(f"{ROUND_TRIP}:{count}")
            outcome = await a.cni(verb, guest, check=False)
            if await a.spared():
                assert outcome.code == 0, "fewer answers than that: the call was done"
                await a.cni("DEL", guest)
                break
            assert verb == "ADD" or outcome.code == 0, outcome.out
            await a.died()
            assert await peer.pings("10.128.0.4")
            await a.start(mortal=True)
            assert await far.pings("fd20:0:1:3::1")
            await a.cni("DEL", guest)
            await world.withdrawn("one")
            await world.sound()
    for guest in (peer, far, other):
        await a.cni("CHECK", guest)
