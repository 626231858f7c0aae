"""One call works on a thing at a time; a VPC is taken down only while nobody works in it."""

import asyncio

from node_agent.locks import Gate, KeyedLocks


async def test_a_key_is_held_by_one_and_forgotten_afterwards() -> None:
    """node-agent.md: one device is worked on by one call at a time."""
    locks, order = KeyedLocks(), []

    async def work(name: str, key: str) -> None:
        async with locks.hold(key):
            order.append(f"{name} in")
            await asyncio.sleep(0)
            order.append(f"{name} out")

    await asyncio.gather(work("first", "a"), work("second", "a"), work("other", "b"))
    assert order.index("first out") < order.index("second in")
    assert order.index("other in") < order.index("first out")
    assert not locks._locks


async def test_a_gate_closes_only_when_nobody_is_inside_and_keeps_the_next_out_meanwhile() -> None:
    gate = Gate()
    async with gate.using("vpc"), gate.closing("vpc") as closed:
        assert not closed
    entered = asyncio.Event()

    async def enter() -> None:
        async with gate.using("vpc"):
            entered.set()

    async with gate.closing("vpc") as closed:
        assert closed
        task = asyncio.create_task(enter())
        await asyncio.sleep(0)
        assert not entered.is_set()
        async with gate.closing("vpc") as twice:
            assert not twice
    await task
    assert entered.is_set()
