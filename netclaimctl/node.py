"""`netclaimctl node`: what must hold on one node, asked on that node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netclaimctl import reading
from netclaimctl.printing import SOUND, UNSOUND, remark, say
from node_agent.datapath.errors import DatapathError
from node_agent.inspection import Finding, UnreadableJournalError, inspect_twice

app = typer.Typer(no_args_is_help=True, help="One node. Run it on the node, as root, in the node's network namespace.")


@app.callback()
def _group() -> None:
    """Keep the commands of one node under a name of their own."""


@app.command("check")
def check(
    state_dir: Annotated[Path, typer.Option(help="state folder of the node's agent")] = Path("/var/lib/netclaim"),
    kubeconfig: reading.CellKubeconfig = None,
    grace: Annotated[
        float, typer.Option(min=0, help="seconds after which all is looked at again: what is found twice counts")
    ] = 3.0,
    *,
    kernel_only: Annotated[
        bool, typer.Option("--kernel-only", help="ask no API server: compare kernel and journal alone")
    ] = False,
) -> None:
    """Compare links, routes, rules, neighbours, SIDs and firewall with the journal, and the journal with the API.

    Changes nothing. Exit code 1 when something is not as it should be.
    """
    found = reading.run(_look(state_dir, kubeconfig, grace, ask=not kernel_only))
    for finding in found:
        say(str(finding))
    remark(f"{len(found)} findings on this node")
    raise typer.Exit(UNSOUND if found else SOUND)


async def _look(state_dir: Path, kubeconfig: str | None, grace: float, *, ask: bool) -> list[Finding]:
    try:
        if not ask:
            return await inspect_twice(state_dir, None, grace)
        async with reading.connected(kubeconfig, "the cell") as cell:
            return await inspect_twice(state_dir, cell, grace)
    except (UnreadableJournalError, DatapathError) as error:
        raise reading.UnreadableError(str(error)) from error
