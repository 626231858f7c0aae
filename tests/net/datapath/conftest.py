"""Fixtures of the data path: the scene that a module shares, one of a test's own, and a bench without guests."""

from collections.abc import AsyncIterator

import pytest

from tests.net.datapath import passing
from tests.net.datapath.backend import scene_scope
from tests.net.datapath.lab import Lab, Node, lab
from tests.net.datapath.scene import ONE, TWO, Scene, scene


@pytest.fixture(scope=scene_scope)
async def stage() -> AsyncIterator[Scene]:
    """Two networks with the same addresses on two nodes, for tests that change nothing of them."""
    async with scene() as made:
        yield made


@pytest.fixture
async def own_stage() -> AsyncIterator[Scene]:
    """The same for one test alone."""
    async with scene() as made:
        yield made


@pytest.fixture(scope=scene_scope)
async def bench() -> AsyncIterator[Lab]:
    """Two nodes without guests, for tests that make their own and take them away again."""
    async with lab() as made:
        await made.two_nodes()
        yield made


@pytest.fixture
async def node(bench: Lab) -> AsyncIterator[Node]:
    """Node A; afterwards nothing of a VPC is left on it, and it is as it should be."""
    chosen = bench.nodes["A"]
    yield chosen
    for guest in passing.made:
        if guest.record:
            await chosen.call("detach", record=guest.record)
    passing.made.clear()
    for vpc in (ONE, TWO):
        assert await chosen.call("release_vpc", vpc=vpc)
    assert await chosen.call("strays", records=[]) == []
    assert await chosen.call("check_node") == []
