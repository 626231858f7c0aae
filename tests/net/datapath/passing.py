"""Guests that a test makes for itself and takes away again."""

from typing import Any

from tests.net.datapath.lab import Guest, Lab
from tests.net.datapath.scene import ONE

_numbers = iter(range(10, 250))
made: list[Guest] = []
"""What the running test has made: whatever is left of it goes when the test ends, however it ends."""


def new_guest(bench: Lab, **changes: Any) -> Guest:
    """A guest on node A that is not attached yet, of the first network; ``changes`` of what the data path is told."""
    number = next(_numbers)
    guest = bench.guest("A", ONE, 4000 + number, number, name=f"life-{number}")
    guest.attachment |= changes
    made.append(guest)
    return guest


async def take_away(guest: Guest) -> None:
    """Detach it: nothing of it is left, its network is still there."""
    assert await guest.node.call("detach", record=guest.record)
    sids = await guest.node.sids(guest.vpc)
    assert guest.node.traces(guest.host_device, *guest.blocks) == []
    assert set(sids) == {4, 6}
