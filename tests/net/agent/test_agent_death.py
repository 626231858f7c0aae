"""kill -9 at each step of an ADD and of a DEL (T03): the next life leaves neither half a guest nor a leak."""

from tests.net.agent.world import World

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
DEL_STEPS = (
    "Journal.change:before",
    "Journal.change:after",
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
            assert (step, await a.traces()) == (step, [])
        if number % 2:
            assert (await a.cni("ADD", guest)).json["ips"]
            assert (await world.facts("one"))["containerID"] == guest.container
            await a.cni("CHECK", guest)
        await a.cni("DEL", guest)
        assert (step, await a.traces()) == (step, [])
        await world.withdrawn("one")


async def test_an_agent_that_dies_at_any_step_of_a_del_finishes_it_in_its_next_life(world: World) -> None:
    """The runtime sees a DEL that succeeded (it was kept): whatever the agent had done of it, the rest follows.

    When something else of the agent is at work in the VPC as the DEL ends, that takes the VPC down instead: the DEL may
    then be answered, and nothing be kept, before the step at which the agent dies.
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
        if step != "Datapath.release_vpc:after":
            assert len(list(a.spool.glob("*.json"))) == 1
        await a.start(mortal=True)
        assert (step, await a.traces()) == (step, [])
        assert list(a.spool.iterdir()) == []
        await world.withdrawn("one")
