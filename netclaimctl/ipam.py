"""`netclaimctl ipam`: check what must hold of the addresses, mend what can be mended, tell who holds an address."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from netclaim.kube.client import Client
from netclaim.kube.errors import AlreadyExists, Conflict, NotFound
from netclaim.kube.writes import Create, Replace
from netclaimctl import cells, reading, who
from netclaimctl.objects import CellObjects, IpamObjects
from netclaimctl.printing import SOUND, UNREADABLE, UNSOUND, remark, say, table
from netclaimctl.repair import Bound, Repair, Step, plan
from nso.claims.sweep import FEW, SHARE
from nso.ipam import invariants
from nso.ipam.blocks import Block
from nso.ipam.invariants import Violation

app = typer.Typer(no_args_is_help=True, help="The IPAM control plane.")

PLANE = "the IPAM control plane"

Kubeconfig = Annotated[
    str | None,
    typer.Option(help="kubeconfig of the IPAM control plane; without it $KUBECONFIG, or the cluster that this runs in"),
]
Project = Annotated[str | None, typer.Option(help="one project's namespace; default: all")]
CellKubeconfig = Annotated[
    list[str] | None,
    typer.Option("--cell-kubeconfig", help="kubeconfig of a cell that takes its addresses here; once for each cell"),
]
Grace = Annotated[
    float, typer.Option(min=0, help="seconds after which all is read again: what is found twice is a violation")
]


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read, and what is wrong with it."""

    ipam: IpamObjects
    cells: tuple[CellObjects, ...]
    violations: tuple[Violation, ...]

    @property
    def count(self) -> int:
        """How many objects were looked at."""
        return self.ipam.count + sum(cell.count for cell in self.cells)


@dataclass(frozen=True, slots=True)
class Planes:
    """The control planes that a command works on."""

    ipam: Client
    cells: tuple[Client, ...]
    project: str | None

    async def look(self) -> Seen:
        """Read everything once. IPAM comes before the cells: an IPClaim's owner is there before it is."""
        objects = await reading.ipam_objects(self.ipam, self.project)
        found = invariants.check(
            classes=objects.classes, pools=objects.pools, claims=objects.claims, allocations=objects.allocations
        )
        read = [await reading.cell_objects(cell) for cell in self.cells]
        for cell in read:
            found += cells.check(cell, objects.claims, self.project)
        return Seen(objects, tuple(read), tuple(found))

    async def look_twice(self, grace: float) -> Seen:
        """Read everything; what is wrong counts when it still is `grace` seconds later."""
        first = await self.look()
        if not first.violations:
            return first
        await asyncio.sleep(grace)
        second = await self.look()
        known = {_subject(violation) for violation in first.violations}
        lasting = tuple(violation for violation in second.violations if _subject(violation) in known)
        return Seen(second.ipam, second.cells, lasting)


def _subject(violation: Violation) -> tuple[str, str, tuple[str, str]]:
    # Not the message: it may count what changes all the time.
    return (violation.invariant, violation.kind, violation.key)


class _Session(AsyncExitStack):
    """Connections to IPAM and to cells, closed at the end."""

    async def planes(self, kubeconfig: str | None, cell_kubeconfigs: Sequence[str], project: str | None) -> Planes:
        """Connect."""
        ipam = await self.enter_async_context(reading.connected(kubeconfig, PLANE))
        clients = [
            await self.enter_async_context(reading.connected(path, f"the cell of {path}")) for path in cell_kubeconfigs
        ]
        return Planes(ipam, tuple(clients), project)


@app.command()
def check(
    kubeconfig: Kubeconfig = None,
    project: Project = None,
    cell_kubeconfig: CellKubeconfig = None,
    grace: Grace = 2.0,
) -> None:
    """Recompute every invariant from the live objects; exit code 1 and one line for each violation.

    With --cell-kubeconfig also: each IPClaim has a live owner in its cell, each address of an interface is held,
    claims and interfaces name each other, and attachments have their interface, definition and identifiers.
    """
    seen = reading.run(_check(kubeconfig, project, cell_kubeconfig or [], grace))
    for violation in seen.violations:
        say(str(violation))
    remark(f"{seen.count} objects checked, {len(seen.violations)} violations")
    raise typer.Exit(UNSOUND if seen.violations else SOUND)


async def _check(kubeconfig: str | None, project: str | None, cell_kubeconfigs: Sequence[str], grace: float) -> Seen:
    async with _Session() as session:
        planes = await session.planes(kubeconfig, cell_kubeconfigs, project)
        return await planes.look_twice(grace)


@app.command()
def repair(
    kubeconfig: Kubeconfig = None,
    project: Project = None,
    cell_kubeconfig: CellKubeconfig = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only print what would be done")] = False,
    grace: Grace = 30.0,
    limit: Annotated[
        int, typer.Option(min=0, help="objects of a kind that are given back at once, where that is more than 5 %")
    ] = FEW,
) -> None:
    """Give back what nobody holds, and allocate again what a live holder has lost; say what is left to a person.

    Exit code 1 when something is left, or would be done. More than --limit objects of a kind, and more than 5 % of
    them, are not given back at once: a restored backup looks like that. Raise it when you know that none is in use.
    """
    bound = Bound(limit, SHARE)
    found, failures = reading.run(_repair(kubeconfig, project, cell_kubeconfig or [], grace, bound, dry_run=dry_run))
    for left in found.left:
        say(f"left: {left}", "yellow")
    verb = "to do" if dry_run else "done"
    remark(f"{len(found.steps) - failures} {verb}, {failures} failed, {len(found.left)} left")
    raise typer.Exit(UNSOUND if found.left or failures or (dry_run and found.steps) else SOUND)


async def _repair(
    kubeconfig: str | None,
    project: str | None,
    cell_kubeconfigs: Sequence[str],
    grace: float,
    bound: Bound,
    *,
    dry_run: bool,
) -> tuple[Repair, int]:
    async with _Session() as session:
        planes = await session.planes(kubeconfig, cell_kubeconfigs, project)
        seen = await planes.look_twice(grace)
        found = plan(seen.ipam, seen.violations, bound, datetime.now(UTC))
        failures = 0
        for step in found.steps:
            if dry_run:
                say(f"would {step}")
            else:
                failures += 0 if await _act(planes.ipam, step) else 1
    return found, failures


async def _act(client: Client, step: Step) -> bool:
    """Do one step; one that came too late is told, and does not stop the others."""
    write = step.write
    try:
        if isinstance(write, Create):
            await client.create(write.resource, write.obj)
        elif isinstance(write, Replace):
            await client.replace(write.resource, write.obj)
        else:
            namespace, name = write.key
            version = write.resource_version
            await client.delete(write.resource, namespace, name, uid=write.uid, resource_version=version)
    except (AlreadyExists, Conflict, NotFound) as error:
        say(f"not done: {step}; it has changed meanwhile: {error.message}", "yellow")
        return False
    say(f"done: {step}", "green")
    return True


@app.command("who")
def tell_who(
    address: Annotated[str, typer.Argument(help="an address or CIDR: 10.128.0.2, fd20:1000:0:1:0:1::/96")],
    kubeconfig: Kubeconfig = None,
    project: Project = None,
    cell_kubeconfig: CellKubeconfig = None,
) -> None:
    """Tell who holds an address, in every project and address space; exit code 1 when nobody does.

    With --cell-kubeconfig also the interface, the Pod and the node.
    """
    try:
        wanted = who.read_address(address)
    except ValueError as error:
        remark(f"netclaimctl: {error}: write an address such as 10.128.0.2, or a CIDR")
        raise typer.Exit(UNREADABLE) from None
    found = reading.run(_who(wanted, kubeconfig, project, cell_kubeconfig or []))
    if found:
        rows = [(each.project, each.block, each.purpose, each.pool, each.held_by, each.owner) for each in found]
        styles = ["bold" if each.is_held else "dim" for each in found]
        table(("Project", "Block", "Purpose", "Pool", "Held by", "For"), rows, styles)
    else:
        remark(f"{address} is in no pool" + (f" of project {project}" if project else ""))
    raise typer.Exit(SOUND if any(each.is_held for each in found) else UNSOUND)


async def _who(
    wanted: Block, kubeconfig: str | None, project: str | None, cell_kubeconfigs: Sequence[str]
) -> list[who.Holding]:
    async with _Session() as session:
        planes = await session.planes(kubeconfig, cell_kubeconfigs, project)
        objects = await reading.ipam_objects(planes.ipam, project)
        return who.holdings(wanted, objects, [await reading.cell_objects(cell) for cell in planes.cells])
