"""Carrying out a plan over the two API servers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.apply import execute
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists, ApiError, Conflict
from netclaim.kube.events import EventRecorder
from netclaim.kube.objects import key_of
from netclaim.kube.writes import AddFinalizer, Create, Write
from nso.steps import EachOf, InIpam, Plan


class NameTaken(Exception):  # noqa: N818 - a fact that the plan is made again with, not a fault
    """An IPClaim that was to be created is there already; `ip_claim` is how it is stored."""

    def __init__(self, ip_claim: Raw) -> None:
        self.ip_claim = ip_claim
        super().__init__(f"IPClaim {'/'.join(key_of(ip_claim))} exists")


class IpamRefused(Exception):  # noqa: N818 - a fact that the plan is made again with, not a fault
    """A write at the IPAM control plane that it did not accept; `cause` is what it answered, or that it did not."""

    def __init__(self, write: Write, cause: ApiError) -> None:
        self.write = write
        self.cause = cause
        super().__init__(str(cause))


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs plans. `ipam` is the cell itself where one API server serves both."""

    cell: Cluster
    ipam: Cluster
    recorder: EventRecorder

    async def run(self, plan: Plan) -> None:
        """Carry out the steps in order; those behind a hold on an object that turned out to be going are left out.

        Raises:
            NameTaken: an IPClaim to create exists; nothing behind that step was done.
            IpamRefused: another write at the IPAM control plane failed; likewise.
            ApiError: a write at the cell failed; likewise.
        """
        for step in plan:
            if isinstance(step, EachOf):
                await self._each(step.writes)
            elif isinstance(step, InIpam):
                await self._in_ipam(step.write)
            elif isinstance(step.write, AddFinalizer):
                hold = step.write
                if await self.cell.add_finalizer(hold.resource, hold.obj, hold.finalizer) is None:
                    return
            else:
                await self._in_cell(step.write)

    async def _in_cell(self, write: Write) -> None:
        try:
            await execute(self.cell, [write], self.recorder)
        except AlreadyExists as error:
            # Somebody was faster: the next pass sees what is there.
            raise Conflict(error.message) from error

    async def _each(self, writes: Sequence[Write]) -> None:
        """All of them at once; the first error is raised when every one has been tried."""
        outcomes = await asyncio.gather(*(self._in_ipam(write) for write in writes), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _in_ipam(self, write: Write) -> None:
        try:
            await execute(self.ipam, [write])
        except AlreadyExists as error:
            if not isinstance(write, Create) or write.resource is not resources.IP_CLAIMS:
                raise IpamRefused(write, error) from error
            namespace, name = key_of(write.obj)
            raise NameTaken(await self.ipam.client.get(resources.IP_CLAIMS, namespace, name)) from error
        except ApiError as error:
            raise IpamRefused(write, error) from error
