"""A bound claim whose allocation is gone takes the very same one again, whatever became of its class."""

import pytest

from netclaim.api.meta import Raw
from netclaim.api.resources import IP_ALLOCATIONS, IP_CLAIMS, IP_CLASSES, IP_POOLS
from nso.ipam.views import AllocationView
from tests.unit.ipam.leader import Leader
from tests.unit.ipam.objects import PROJECT, ip_claim, ip_class, root_pool
from tests.unit.ipam.world import World

KEY = (PROJECT, "web-0-eth0")


@pytest.fixture
def world() -> World:
    """A pool with a space for each network, and a claim of its class, which was the default when it was bound."""
    world = World()
    world.put(IP_CLASSES, ip_class("inner", 32, uniqueWithin=["network"], default=True, cooldown="20s"))
    world.put(IP_POOLS, root_pool("inner", "10.0.0.0/30", "inner", "twin"))
    world.put(IP_POOLS, root_pool("outer", "10.1.0.0/30", "outer"))
    world.put(IP_CLAIMS, ip_claim(KEY[1], ipFamily="IPv4"))
    act(world)
    return world


def act(world: World) -> None:
    leader = Leader(world)
    leader.reconcile(IP_CLAIMS, KEY)


def held(world: World) -> list[tuple[str, str]]:
    return [(raw["metadata"]["name"], raw["spec"]["space"]) for raw in world.listed(IP_ALLOCATIONS)]


def lose(world: World) -> None:
    """An operator deletes the allocation by hand."""
    for raw in world.listed(IP_ALLOCATIONS):
        world.delete(IP_ALLOCATIONS, AllocationView.of(raw).key)


def moved_default() -> Raw:
    return ip_class("outer", 32, default=True)


def test_it_is_taken_in_its_own_space_when_another_class_is_the_default_by_now(world: World) -> None:
    """T04: under the space of the new default its block would be free for the next claim of its own space."""
    before = held(world)
    assert before[0][1], "the pool separates its spaces"
    lose(world)
    world.put(IP_CLASSES, ip_class("inner", 32, uniqueWithin=["network"]))
    world.put(IP_CLASSES, moved_default())
    act(world)
    assert held(world) == before


def test_it_is_taken_when_its_class_is_gone_and_another_of_the_pool_is_there(world: World) -> None:
    """T04: claims of that other class get blocks of the same space."""
    before = held(world)
    lose(world)
    world.delete(IP_CLASSES, (PROJECT, "inner"))
    world.put(IP_CLASSES, ip_class("twin", 32, uniqueWithin=["network"]))
    act(world)
    assert held(world) == before


def test_a_pool_without_any_class_gives_nothing_out_and_takes_nothing_again_until_it_has_one(world: World) -> None:
    before = held(world)
    lose(world)
    world.delete(IP_CLASSES, (PROJECT, "inner"))
    act(world)
    assert not held(world)
    world.put(IP_CLASSES, ip_class("inner", 32, uniqueWithin=["network"]))
    act(world)
    assert held(world) == before


def test_its_block_rests_as_long_as_its_pool_says_when_another_class_is_the_default_by_now(world: World) -> None:
    """The new default's cooldown, which is none, says nothing about the pool that the block came from."""
    world.put(IP_CLASSES, ip_class("inner", 32, uniqueWithin=["network"], cooldown="20s"))
    world.put(IP_CLASSES, moved_default())
    world.delete(IP_CLAIMS, KEY)
    act(world)
    (resting,) = world.listed(IP_ALLOCATIONS)
    assert AllocationView.of(resting).release_at
    assert world.get(IP_CLAIMS, KEY) is None
