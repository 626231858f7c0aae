"""`python -m node_agent`: one node's agent, put together."""

from __future__ import annotations

import asyncio
import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Final

import structlog

from netclaim.kube.process import Process, run
from node_agent.agent import Agent
from node_agent.cni.server import SocketTakenError
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.errors import DatapathError
from node_agent.journal import CONFIG, Journal, JournalDamagedError
from node_agent.settings import Settings
from node_agent.startup import StartupError, find_node, state_lock

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent")

PROGRAM: Final = "node-agent"
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Numbers of glibc's mallopt (malloc.h)."""
SWITCH: Final = 0.0005
"""Seconds after which a thread that has an answer of the kernel, or a journal entry to write, gets its turn from the
event loop's. Python's own 5 ms would be added to each of the dozen hand-overs of a call whenever the loop is busy."""


async def main(settings: Settings) -> int:
    """Run until SIGTERM; the exit code: 0, or 1 when the agent cannot work here (each reason on stderr)."""
    try:
        config = await find_node(settings)
        with state_lock(settings.state_dir):
            process = Process(PROGRAM, settings)
            cell = await process.connect(settings.kubeconfig, wait=False)
            journal = await open_journal(settings.journal, settings.node_name)
            datapath = await Datapath.open(config)
            agent = Agent(process, cell, settings, config=config, journal=journal, datapath=datapath)
            try:
                await agent.start()
                return await process.run()
            finally:
                await agent.stop()
    except StartupError as error:
        return complain(error.problems)
    except (DatapathError, SocketTakenError) as error:
        return complain([str(error)])


def complain(problems: list[str]) -> int:
    """Say what is missing, a line each."""
    sys.stderr.write("".join(f"{PROGRAM}: error: {problem}\n" for problem in problems))
    return 1


async def open_journal(path: Path, node: str) -> Journal:
    """The journal; one that is damaged, or another node's, is set aside for people to look at, and a new one begun.

    A machine that was renamed, or made from the image of another, must not speak for the containers of that one.
    """
    try:
        journal = await Journal.open(path)
        known = await journal.fact(CONFIG)
        owner = node if known is None else str(json.loads(known)["node"])
    except JournalDamagedError as error:
        aside = await asyncio.to_thread(set_aside, path)
        log.critical("the journal is damaged: it was set aside and a new one begun", why=error.why, aside=str(aside))
        return await Journal.open(path)
    if owner == node:
        return journal
    await journal.close()
    aside = await asyncio.to_thread(set_aside, path)
    log.critical("the journal is another node's: it was set aside and a new one begun", node=owner, aside=str(aside))
    return await Journal.open(path)


def set_aside(path: Path) -> Path:
    """Rename the journal's files (database, WAL, shared memory); where the database is now."""
    suffix = f".damaged-{int(time.time())}"
    for each in path.parent.glob(f"{path.name}*"):
        if ".damaged-" not in each.name:
            each.rename(each.with_name(each.name + suffix))
    return path.with_name(path.name + suffix)


def give_memory_back() -> None:
    """Have the C library return what was freed to the node: the agent is small between bursts as well.

    By itself glibc keeps an arena for each of many threads, and, once a large block was freed, the buffers (256 KiB) of
    connections that come and go on a heap that others hold open. Another C library needs none of it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, 2)
        mallopt(_MMAP_THRESHOLD, 128 << 10)


def cli() -> None:
    """Entry point `node-agent`."""
    sys.setswitchinterval(SWITCH)
    give_memory_back()
    sys.exit(run(main, Settings, PROGRAM))


if __name__ == "__main__":
    cli()
