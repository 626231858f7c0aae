"""What keeps journal and kernel the same without being called: recovery at start, and the sweep.

Neither needs the API server, and neither relies on GC or STATUS, which some runtimes never forward.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Final

import structlog

from node_agent import metrics
from node_agent.cni import namespaces
from node_agent.cni.attach import Attacher
from node_agent.cni.refusals import Refusal
from node_agent.cni.spool import play_spool
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.errors import DatapathError
from node_agent.datapath.model import Stray
from node_agent.journal import CONFIG, Journal
from node_agent.presence import Presence
from node_agent.rebuild import Rebuild
from node_agent.rows import Row, State

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.upkeep")

LOOK_AGAIN: Final = 0.2
SPOOL_EVERY: Final = 2.0


class Upkeep:
    """Recovery, spool and sweep of one node."""

    def __init__(
        self,
        *,
        journal: Journal,
        datapath: Datapath,
        attacher: Attacher,
        presence: Presence,
        spool: Path,
        sweep_interval: float,
        rebuild: Rebuild,
    ) -> None:
        self._journal = journal
        self._datapath = datapath
        self._attacher = attacher
        self._presence = presence
        self._spool = spool
        self._sweep_interval = sweep_interval
        self._rebuild = rebuild
        self._strays: frozenset[Stray] = frozenset()

    async def recover(self) -> None:
        """Before the first call: finish or undo what was interrupted, play the spool, put back what is missing."""
        if await self._journal.fact(CONFIG) is None:  # told once a start was finished: a rebuild may be cut short
            await self._rebuild.run()
            await self._clean_slate()
        await self.settle_rows()
        await play_spool(self._spool, self._attacher)
        await self._release_empty()

    async def _clean_slate(self) -> None:
        """After a rebuild, remove what an earlier life has left of nobody, before anything new is made.

        A new VPC must never get a table that still holds another's routes.
        """
        first = await self._strays_now()
        if not first:
            return
        await asyncio.sleep(LOOK_AGAIN)
        left = first & await self._strays_now()
        log.critical("there was no journal: kernel objects that nobody owns are removed", objects=len(left))
        await self._datapath.remove(left)

    async def _strays_now(self) -> frozenset[Stray]:
        return await self._datapath.strays([row.record for row in await self._journal.rows()])

    async def watch_spool(self) -> None:
        """Play kept calls soon after they appear, for as long as the agent runs."""
        while True:
            await asyncio.sleep(SPOOL_EVERY)
            await play_spool(self._spool, self._attacher)

    async def sweep_regularly(self) -> None:
        """Sweep for as long as the agent runs; one that fails is said and tried again."""
        while True:
            await asyncio.sleep(self._sweep_interval)
            try:
                await self.sweep()
            except (DatapathError, sqlite3.Error) as error:
                log.warning("the sweep could not be finished", error=str(error))

    async def sweep(self) -> None:
        """Compare node, rows and kernel; remove what nobody owns once two sweeps in a row have seen it."""
        differences = await self._datapath.check_node()
        if differences:
            log.warning("node state is put back", differences=[str(one) for one in differences])
            await self._datapath.setup_node()
        await self.settle_rows()
        await self._release_empty()
        strays = await self._strays_now()
        lasting = strays & self._strays
        if lasting:
            log.warning(
                "kernel objects that nobody owns are removed", strays=[f"{one.kind} {one.name}" for one in lasting]
            )
            await self._datapath.remove(lasting)
        self._strays = strays - lasting
        await self._count()
        metrics.SWEPT.set(time.time())

    async def settle_rows(self) -> None:
        """Remove rows that were interrupted or whose namespace is gone; heal the others."""
        for row in await self._journal.rows():
            try:
                if _is_over(row):
                    await self._attacher.remove(row)
                else:
                    await self._attacher.heal(row)
            except (Refusal, DatapathError) as error:
                # One bad row never stops the others; the next sweep tries again.
                log.warning("a row could not be settled", device=row.device, container=row.container, error=str(error))

    async def _release_empty(self) -> None:
        rows = Counter(row.vpc for row in await self._journal.rows())
        for vpc in await self._journal.vpcs():
            if not rows[vpc]:
                await self._presence.release(vpc)

    async def _count(self) -> None:
        states = Counter(row.state for row in await self._journal.rows())
        for state in State:
            metrics.ROWS.labels(state.value).set(states[state])
        for reason, packets in (await self._datapath.drops()).items():
            metrics.DROPS.labels(reason).set(packets)


def _is_over(row: Row) -> bool:
    """Whether the row is to be removed. One that is being added while the agent runs is locked by its call: ``remove``
    waits for that call and then finds the row changed."""
    return row.state is not State.ADDED or namespaces.sandbox_is_gone(row)
