"""DEL calls that netclaim-cni kept while the agent was away: played back, then removed."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import orjson
import structlog

from node_agent import metrics
from node_agent.cni.attach import Attacher
from node_agent.cni.protocol import Call
from node_agent.cni.refusals import Refusal

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.cni")


@dataclass(frozen=True, slots=True)
class Kept:
    """One kept DEL. ``at``: nanoseconds since 1970, when the runtime called."""

    path: Path
    container: str
    ifname: str
    at: int


def take_spool(folder: Path) -> list[Kept]:
    """Take every kept DEL out of the binary's reach (`.json` becomes `.playing`), also those taken before and not done.

    A file that is none is set aside under another name, and said.
    """
    for path in folder.glob("*.json"):
        path.rename(path.with_suffix(".playing"))
    kept = []
    for path in sorted(folder.glob("*.playing")):
        try:
            said = orjson.loads(path.read_bytes())
            kept.append(Kept(path, str(said["containerID"]), str(said["ifName"]), int(said["at"])))
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            log.exception("a kept DEL cannot be read and is set aside", file=str(path), error=str(error))
            path.rename(path.with_suffix(".unreadable"))
    return kept


async def play_spool(folder: Path, attacher: Attacher) -> int:
    """Do what was kept; the number of calls that could not be done yet (their files stay)."""
    left = 0
    for kept in await asyncio.to_thread(take_spool, folder):
        try:
            await attacher.delete(Call("DEL", kept.container, kept.ifname), not_after=kept.at)
        except (Refusal, sqlite3.Error) as error:
            left += 1
            log.warning("a kept DEL could not be done yet", container=kept.container, error=str(error))
        else:
            kept.path.unlink(missing_ok=True)
    metrics.SPOOLED.set(left)
    return left
