"""The VPCs of this node: made with their first attachment, removed with the last, known to whoever follows them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from node_agent.datapath.datapath import Datapath
from node_agent.datapath.model import Vpc
from node_agent.journal import Journal
from node_agent.locks import Gate

Follower = Callable[[Vpc, bool], None]
"""Called with a VPC and whether it is here now."""


class Presence:
    """Which VPCs this node has. The journal remembers their indexes; the data path holds their tables and devices."""

    def __init__(self, journal: Journal, datapath: Datapath) -> None:
        self._journal = journal
        self._datapath = datapath
        self._gate = Gate()
        self._wanted: set[int] = set()
        self._here: dict[int, Vpc] = {}
        self._followers: list[Follower] = []

    def follow(self, follower: Follower) -> None:
        """Be told of every VPC that is here, now and later."""
        self._followers.append(follower)
        for vpc in self._here.values():
            follower(vpc, True)  # noqa: FBT003 - the callback's one question

    def all(self) -> list[Vpc]:
        """Every VPC of this node."""
        return list(self._here.values())

    @asynccontextmanager
    async def using(self, identifier: int) -> AsyncIterator[Vpc]:
        """The VPC with its index drawn, kept from being taken down meanwhile. Nothing is made in the kernel."""
        async with self._kept(identifier):
            yield self._here.get(identifier) or Vpc(identifier, await self._journal.vpc_index(identifier))

    @asynccontextmanager
    async def visiting(self, identifier: int) -> AsyncIterator[Vpc | None]:
        """The VPC if this node has it, kept from being taken down meanwhile; one that is not here gets no index."""
        async with self._kept(identifier):
            yield self._here.get(identifier)

    @asynccontextmanager
    async def _kept(self, identifier: int) -> AsyncIterator[None]:
        try:
            async with self._gate.using(identifier):
                yield
        finally:
            if identifier in self._wanted:
                await self.release(identifier)

    async def ensure(self, vpc: Vpc) -> None:
        """Make the VPC in the kernel, and say that it is here. Only inside ``using``."""
        await self._datapath.ensure_vpc(vpc)
        if vpc.identifier not in self._here:
            self._here[vpc.identifier] = vpc
            self._tell(vpc, here=True)

    async def release(self, identifier: int) -> None:
        """Take the VPC down when no row of it is left: at once, or when the last of those who work in it is done."""
        self._wanted.add(identifier)
        while identifier in self._wanted:
            async with self._gate.closing(identifier) as closed:
                if not closed:
                    # Whoever uses it, or is just closing it, looks again when done.
                    return
                self._wanted.discard(identifier)
                await self._take_down(identifier)

    async def _take_down(self, identifier: int) -> None:
        index = (await self._journal.vpcs()).get(identifier)
        if index is None or await self._journal.of_vpc(identifier):
            return
        vpc = Vpc(identifier, index)
        if not await self._datapath.release_vpc(vpc):
            return
        await self._journal.forget_vpc(identifier)
        if self._here.pop(identifier, None) is not None:
            self._tell(vpc, here=False)

    def _tell(self, vpc: Vpc, *, here: bool) -> None:
        for follower in self._followers:
            follower(vpc, here)
