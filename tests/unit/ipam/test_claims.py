"""A bound claim whose allocation is gone takes the very same one again, whatever became of its class."""

import pytest

from netclaim.api import ipam
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
    world.put(IP_POOLS, root_pool("inner", "10.0.0.0/30", "inner", "twin", unique_within=["network"]))
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


@pytest.mark.parametrize("classes", [[], [ip_class("inner", 32, uniqueWithin=["network", "location"])]])
def test_it_is_taken_whatever_became_of_the_pools_classes(world: World, classes: list[Raw]) -> None:
    """The pool itself knows its spaces; to others it gives nothing."""
    before = held(world)
    lose(world)
    world.delete(IP_CLASSES, (PROJECT, "inner"))
    for raw in classes:
        world.put(IP_CLASSES, raw)
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


def test_a_class_made_anew_with_other_roles_gives_nothing_out_of_the_pool_until_it_is_as_it_was(world: World) -> None:
    """T04: in the space of the other roles every block that is in use would be free."""
    other = (PROJECT, "web-1-eth0")
    world.put(IP_CLAIMS, ip_claim(other[1], className="inner"))
    world.put(IP_CLASSES, ip_class("inner", 32, uniqueWithin=["network", "location"]))
    Leader(world).reconcile(IP_CLAIMS, other)
    assert len(held(world)) == 1
    told = world.conditions(IP_CLAIMS, other)[ipam.BOUND]
    assert "/32 once in each network, and its classes now say /32 once in each network, location" in told["message"]
    Leader(world).reconcile(IP_POOLS, (PROJECT, "inner"))
    assert world.conditions(IP_POOLS, (PROJECT, "inner"))[ipam.READY]["reason"] == "MixedBlocks"
    world.put(IP_CLASSES, ip_class("inner", 32, uniqueWithin=["network"]))
    Leader(world).reconcile(IP_POOLS, (PROJECT, "inner"))
    Leader(world).reconcile(IP_CLAIMS, other)
    assert len({cidr for _, cidr in world.published()}) == 2


def test_a_pool_keeps_what_separates_its_spaces_from_its_first_offer_on(world: World) -> None:
    """A block taken by who saw the class as it was is given back: the pool is read after the block was taken."""
    world.put(IP_POOLS, root_pool("inner", "10.0.0.0/30", "inner", ready=False))
    for raw in (ip_class("inner", 32), ip_class("inner", 32, uniqueWithin=["network"])):
        world.put(IP_CLASSES, raw)
        Leader(world).reconcile(IP_POOLS, (PROJECT, "inner"))
    (pool,) = (raw for raw in world.listed(IP_POOLS) if raw["metadata"]["name"] == "inner")
    assert pool["status"]["blocks"] == {"prefixLength": 32, "uniqueWithin": []}
