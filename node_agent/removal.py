"""``python -m node_agent.removal FLAGS``: take everything of netclaim off a node, before the agent is uninstalled.

The agent itself leaves the kernel as it is when it ends, so that an upgrade is not felt. This undoes it: devices,
rules, routes, SIDs, firewall tables, the CNI plugin, the socket and the state folder. A node that still has attachments
is left alone.
"""

from __future__ import annotations

import asyncio
import errno
import shutil
import sys
from pathlib import Path
from typing import Final

from pydantic import Field

from netclaim.kube.settings import parse
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.errors import DatapathError
from node_agent.journal import Journal, JournalDamagedError
from node_agent.rows import Row
from node_agent.settings import Settings
from node_agent.startup import StartupError, find_node, state_lock

PROGRAM: Final = "node-agent-removal"
PLUGIN: Final = "netclaim-cni"


class RemovalSettings(Settings):
    """Takes everything of netclaim off the node that it runs on; further flags are the agent's."""

    cni_bin_dir: Path = Field(default=Path("/opt/cni/bin"), description="Folder of the node's CNI plugins.")


class StillAttachedError(Exception):
    """Containers of this node still have interfaces. ``rows``: theirs."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        names = ", ".join(sorted({"/".join(row.attachment) for row in rows}))
        super().__init__(
            f"{len(rows)} attachments are in use on this node: {names}. Move their Pods away first (kubectl drain)"
        )


async def remove(settings: RemovalSettings) -> None:
    """Clear kernel and files. Raises StillAttachedError, StartupError or DatapathError with nothing removed."""
    config = await find_node(settings)
    with state_lock(settings.state_dir):
        rows = await attachments(settings.journal)
        if rows:
            raise StillAttachedError(rows)
        datapath = await Datapath.open(config)
        try:
            await datapath.clear_node()
        finally:
            await datapath.close()
    await asyncio.to_thread(remove_files, settings)


async def attachments(file: Path) -> list[Row]:
    """The rows of the journal; none when there is no journal, or no readable one."""
    if not file.exists():  # noqa: ASYNC240 - once, and nothing else runs
        return []
    try:
        journal = await Journal.open(file)
    except JournalDamagedError:
        return []
    try:
        return await journal.rows()
    finally:
        await journal.close()


def remove_files(settings: RemovalSettings) -> None:
    """The plugin, what is left of one that was being installed, the socket's folder and the state folder."""
    for left in (settings.cni_bin_dir / PLUGIN, *settings.cni_bin_dir.glob(f".{PLUGIN}.*")):
        left.unlink(missing_ok=True)
    for folder in (settings.socket.parent, settings.state_dir):
        if folder.exists():
            remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it; one that is a mount of its own stays, and stays empty."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise


def main(argv: list[str]) -> int:
    """Remove; the exit code: 0, 1 with the reasons on stderr, 2 for a wrong flag."""
    settings = parse(RemovalSettings, argv, program=PROGRAM)
    try:
        asyncio.run(remove(settings))
    except StartupError as error:
        problems = error.problems
    except (StillAttachedError, DatapathError, OSError) as error:
        problems = [str(error)]
    else:
        sys.stdout.write(f"nothing of netclaim is left on {settings.node_name}\n")
        return 0
    sys.stderr.write("".join(f"{PROGRAM}: error: {problem}\n" for problem in problems))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
