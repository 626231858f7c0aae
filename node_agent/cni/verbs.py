"""What each CNI verb does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from node_agent.cni import refusals
from node_agent.cni.attach import Attacher
from node_agent.cni.protocol import Call
from node_agent.cni.refusals import Refusal
from node_agent.datapath.datapath import Datapath
from node_agent.journal import Journal
from node_agent.rows import State

Obstacle = Callable[[], str | None]
"""Why the agent cannot serve right now, None when it can."""


class Verbs:
    """The verbs, on one node's journal and data path."""

    def __init__(self, attacher: Attacher, journal: Journal, datapath: Datapath, obstacle: Obstacle) -> None:
        self._attacher = attacher
        self._journal = journal
        self._datapath = datapath
        self._obstacle = obstacle

    async def run(self, call: Call) -> dict[str, Any] | None:
        """Do what is asked; the CNI result of an ADD, None for the others. Raises Refusal."""
        match call.verb:
            case "ADD":
                return await self._add(call)
            case "DEL":
                await self._attacher.delete(call)
            case "CHECK":
                await self._check(call)
            case "GC":
                await self._collect(call)
            case "STATUS":
                if (why := self._obstacle()) is not None:
                    raise Refusal(refusals.NOT_READY, why=why)
            case _:
                raise Refusal(refusals.UNKNOWN_VERB, verb=call.verb)
        return None

    async def _add(self, call: Call) -> dict[str, Any]:
        if (why := self._obstacle()) is not None:
            raise Refusal(refusals.STARTING, why=why)
        return await self._attacher.add(call)

    async def _check(self, call: Call) -> None:
        row = await self._journal.get(call.key)
        if row is None or row.state is not State.ADDED:
            raise Refusal(refusals.UNKNOWN_CONTAINER, container=call.container, ifname=call.ifname)
        differences = await self._datapath.check(row.record)
        if differences:
            raise Refusal(
                refusals.DIFFERS,
                "; ".join(str(difference) for difference in differences[1:]),
                container=call.container,
                ifname=call.ifname,
                difference=differences[0],
            )

    async def _collect(self, call: Call) -> None:
        """Remove what was recorded for containers of this network that are not listed; without a list, nothing."""
        valid = call.valid_attachments()
        if valid is None:
            return
        for row in await self._journal.rows():
            if row.request["network"] == call.network and row.key not in valid:
                await self._attacher.remove(row)
