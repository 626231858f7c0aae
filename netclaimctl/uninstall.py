"""`netclaimctl uninstall`: delete every object of netclaim, in order, so that no finalizer strands one.

While the programs run they do the work: each kind is deleted and waited for. What is still there after the grace period
has nobody who works on it: its finalizers of ours are taken off. An attachment that a node reports is never stripped
unless --force says so: its address would be given to somebody else while packets of its guest still flow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import Conflict, Invalid, NotFound
from netclaim.kube.objects import describe, key_of, uid_of
from netclaimctl import leaving, reading
from netclaimctl.printing import SOUND, UNSOUND, remark, say

POLL: Final = 0.5

List = Callable[[], Awaitable[list[Raw]]]


class InUseError(Exception):
    """Attachments that nodes still report. ``left``: one text for each."""

    def __init__(self, left: list[str]) -> None:
        self.left = left
        super().__init__(", ".join(left))


@dataclass(frozen=True, slots=True)
class Uninstallation:
    """One run: what it may do, and for how long it waits for the programs at each kind."""

    grace: float
    force: bool = False
    dry_run: bool = False

    async def cell(self, client: Client) -> None:
        """Everything of the cell. Raises InUseError."""
        for kind in leaving.CELL_KINDS:
            await self._clear(client, kind, _lister(client, kind))

    async def addresses(self, client: Client, control_plane: str) -> None:
        """What this cell holds in IPAM: its claims and their allocations."""
        claims = leaving.of_cell(await _lister(client, resources.IP_CLAIMS)(), control_plane)

        async def own_claims() -> list[Raw]:
            return leaving.of_cell(await _lister(client, resources.IP_CLAIMS)(), control_plane)

        async def own_allocations() -> list[Raw]:
            return leaving.held_by(await _lister(client, resources.IP_ALLOCATIONS)(), claims)

        await self._clear(client, resources.IP_CLAIMS, own_claims)
        await self._clear(client, resources.IP_ALLOCATIONS, own_allocations)

    async def ipam(self, client: Client) -> None:
        """Everything of the IPAM control plane, of all cells and projects."""
        for kind in leaving.IPAM_KINDS:
            await self._clear(client, kind, _lister(client, kind))

    async def _clear(self, client: Client, kind: Resource, listed: List) -> None:
        """Delete a kind, wait for the programs, and strip what nobody works on."""
        found = await listed()
        if self.dry_run or not found:
            if found:
                say(f"would delete {len(found)} {kind.plural}")
            return
        await asyncio.gather(*(_delete(client, kind, raw) for raw in found))
        left = await self._wait(listed)
        if left:
            await self._strip(client, kind, left)
        say(f"deleted {len(found)} {kind.plural}" + (f", {len(left)} of them by force of the command" if left else ""))

    async def _wait(self, listed: List) -> list[Raw]:
        """What is still there when nothing has gone for the grace period."""
        left = await listed()
        since = time.monotonic()
        while left and time.monotonic() - since < self.grace:
            await asyncio.sleep(POLL)
            now = await listed()
            if len(now) < len(left):
                since = time.monotonic()
            left = now
        return left

    async def _strip(self, client: Client, kind: Resource, left: list[Raw]) -> None:
        # An interface waits for its attachment, a claim for its interface: what holds them is told by name.
        if kind in (resources.CLAIMS, resources.INTERFACES, resources.ATTACHMENTS) and not self.force:
            used = leaving.in_use(await _lister(client, resources.ATTACHMENTS)())
            if used:
                raise InUseError(used)
        for raw in left:
            for _ in range(3):
                if await _release(client, kind, raw):
                    break
                raw = await _again(client, kind, raw)  # noqa: PLW2901 - a newer version of the same object


def _lister(client: Client, kind: Resource) -> List:
    async def listed() -> list[Raw]:
        try:
            return await client.list(kind)
        except NotFound:  # not served here
            return []

    return listed


async def _delete(client: Client, kind: Resource, raw: Raw) -> None:
    namespace, name = key_of(raw)
    try:
        await client.delete(kind, namespace or None, name, uid=uid_of(raw))
    except (NotFound, Conflict):
        return


async def _release(client: Client, kind: Resource, raw: Raw) -> bool:
    """Take our finalizers off; whether that is settled."""
    patch = leaving.stripped(raw)
    if not patch:
        return True
    namespace, name = key_of(raw)
    try:
        await client.json_patch(kind, namespace or None, name, patch)
    except NotFound:
        return True
    except (Conflict, Invalid):
        return False
    remark(f"taken off {describe(kind, (namespace, name))}: the finalizers that nobody worked on")
    return True


async def _again(client: Client, kind: Resource, raw: Raw) -> Raw:
    namespace, name = key_of(raw)
    found = await client.find(kind, namespace, name)
    return {"metadata": {**raw["metadata"], "finalizers": []}} if found is None else found


def uninstall(
    *,
    kubeconfig: reading.CellKubeconfig = None,
    ipam_kubeconfig: reading.IpamKubeconfig = None,
    ipam: Annotated[
        bool, typer.Option("--ipam", help="delete all of IPAM too: every class, pool and address of every cell")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="also what nodes report as in use: only for nodes that are gone for good")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only tell what would be deleted")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    grace: Annotated[
        float, typer.Option(min=0, help="seconds without progress after which a kind's finalizers are taken off")
    ] = 30.0,
) -> None:
    """Delete every object of netclaim in a cell, in order, so that no finalizer strands one.

    Run it while the programs still run: they release what the objects hold. Then uninstall the charts. It may be run
    again at any time, also when the programs are gone already. Exit code 1 when attachments are in use.
    """
    if not (dry_run or yes):
        typer.confirm("Delete every workload, claim, interface and network of netclaim in this cell?", abort=True)
    try:
        reading.run(_uninstall(kubeconfig, ipam_kubeconfig, Uninstallation(grace, force, dry_run), ipam=ipam))
    except InUseError as error:
        for left in error.left:
            say(f"in use: {left}", "red")
        remark(
            "netclaimctl: nodes still report these attachments. Let their Pods end (see the node agents), or use "
            "--force when the nodes are gone for good; nothing of them was released"
        )
        raise typer.Exit(UNSOUND) from None
    raise typer.Exit(SOUND)


async def _uninstall(kubeconfig: str | None, ipam_kubeconfig: str | None, run: Uninstallation, *, ipam: bool) -> None:
    async with AsyncExitStack() as stack:
        cell = await stack.enter_async_context(reading.connected(kubeconfig, "the cell"))
        other = ipam_kubeconfig or kubeconfig
        plane = await stack.enter_async_context(reading.connected(other, "the IPAM control plane"))
        control_plane = await reading.control_plane_id(cell)
        await run.cell(cell)
        await run.addresses(plane, control_plane)
        if ipam:
            await run.ipam(plane)
