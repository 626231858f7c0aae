"""The kernel's counterpart of the invariant checker: kernel, journal and API of one node, compared three ways.

Read only, and from a process of its own: the journal's file is opened read-only, the kernel is dumped, the API listed.
The agent may work meanwhile, so what is found counts when it is found twice.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.model import NodeConfig, Vpc
from node_agent.journal import CONFIG, read_rows
from node_agent.report import labelled_identity
from node_agent.routes import plan_nodes, plan_remotes
from node_agent.rows import Row, State


class UnreadableJournalError(Exception):
    """There is no journal to compare with, or it cannot be read; the text says which and why."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is not as it should be. ``subject`` stays the same from look to look, ``says`` may not."""

    subject: str
    says: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.says}"


@dataclass(frozen=True, slots=True)
class Held:
    """What a node's journal holds. ``vpcs``: index by identifier."""

    config: NodeConfig
    system_namespace: str
    rows: tuple[Row, ...]
    vpcs: dict[int, int]
    owed: frozenset[str]
    """Containers whose facts are still to be taken back."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the API holds: every attachment, and all routers and advertisements of the system namespace."""

    attachments: tuple[Raw, ...]
    routers: tuple[Raw, ...]
    advertisements: tuple[Raw, ...]


def read_journal(state_dir: Path) -> Held:
    """The journal of a node, whether its agent runs or not. Raises UnreadableJournalError."""
    path = state_dir / "journal.db"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            told = db.execute("SELECT value FROM facts WHERE name = ?", (CONFIG,)).fetchone()
            if told is None:
                raise UnreadableJournalError(f"the journal {path} does not say whose it is: its agent never started")
            known: dict[str, Any] = json.loads(told[0])
            return Held(
                config=NodeConfig.from_json(known),
                system_namespace=known["systemNamespace"],
                rows=tuple(read_rows(db)),
                vpcs=dict(db.execute("SELECT identifier, vpc_index FROM vpcs").fetchall()),
                owed=frozenset(container for (container,) in db.execute("SELECT container FROM withdrawals")),
            )
    except (sqlite3.Error, KeyError, ValueError) as error:
        raise UnreadableJournalError(f"the journal {path} cannot be read: {error}") from error


async def read_api(client: Client, system_namespace: str) -> Told:
    """What the API holds of all nodes. Raises ApiError."""
    attachments, routers, advertisements = await asyncio.gather(
        client.list(resources.ATTACHMENTS),
        client.list(resources.BGP_ROUTERS, system_namespace),
        client.list(resources.BGP_ADVERTISEMENTS, system_namespace),
    )
    return Told(tuple(attachments), tuple(routers), tuple(advertisements))


async def inspect(state_dir: Path, client: Client | None) -> list[Finding]:
    """Look once. Without a client, kernel and journal alone are compared.

    Raises UnreadableJournalError, DatapathError, and ApiError when the API cannot be read.
    """
    held = read_journal(state_dir)
    datapath = await Datapath.open(held.config)
    try:
        found = [*rows_alone(held.rows), *await _kernel(datapath, held)]
        if client is not None:
            told = await read_api(client, held.system_namespace)
            found += [*api(held, told), *await _routes(datapath, held, told)]
    finally:
        await datapath.close()
    return sorted(set(found))


async def inspect_twice(state_dir: Path, client: Client | None, grace: float) -> list[Finding]:
    """Look, and look again ``grace`` seconds later: what is found both times."""
    first = {finding.subject for finding in await inspect(state_dir, client)}
    if not first:
        return []
    await asyncio.sleep(grace)
    return [finding for finding in await inspect(state_dir, client) if finding.subject in first]


def rows_alone(rows: Iterable[Row]) -> Iterator[Finding]:
    """What the journal's rows contradict each other in. Pure."""
    live = [row for row in rows if row.state is State.ADDED]
    for row in rows:
        if row.state is not State.ADDED:
            yield Finding(f"row {row.container}/{row.ifname}", f"is still {row.state.value}")
    for device, count in Counter(row.device for row in live).items():
        if count > 1:
            yield Finding(f"device {device}", f"belongs to {count} containers")
    blocks = Counter((row.vpc, str(each.block)) for row in live for each in row.record.attachment.addresses)
    for (vpc, block), count in blocks.items():
        if count > 1:
            yield Finding(f"address {block} of VPC {vpc:x}", f"is given to {count} containers of this node")


def api(held: Held, told: Told) -> Iterator[Finding]:
    """Journal against attachments and advertisements, and the addresses of all nodes against each other. Pure."""
    node = held.config.node_name
    rows = {(row.attachment, row.container): row for row in held.rows if row.state is State.ADDED}
    attachments = {(raw["metadata"]["namespace"], raw["metadata"]["name"]): raw for raw in told.attachments}
    advertised = {raw["metadata"]["name"]: raw for raw in told.advertisements}
    for (key, container), row in rows.items():
        subject, raw = f"attachment {key[0]}/{key[1]}", attachments.get(key)
        status = (raw or {}).get("status") or {}
        if raw is None:
            yield Finding(subject, f"is gone; container {container} still has {row.device}")
        elif (status.get("node"), status.get("containerID")) != (node, container):
            recorded = f"container {status.get('containerID')} on node {status.get('node')}"
            yield Finding(subject, f"records {recorded}; here it is container {container}")
        found = advertised.get(row.advertisement)
        if found is None or found["spec"].get("containerID") != container:
            yield Finding(f"advertisement {row.advertisement}", f"missing, or not of container {container}")
    for key, raw in attachments.items():
        status = raw.get("status") or {}
        container = status.get("containerID") or ""
        if status.get("node") == node and (key, container) not in rows and container not in held.owed:
            yield Finding(f"attachment {key[0]}/{key[1]}", f"records container {container}, which is not here")
    for name, raw in advertised.items():
        reference, container = raw["spec"]["attachmentRef"], raw["spec"].get("containerID") or ""
        ours = raw["spec"]["routerRef"]["name"] == node
        if ours and ((reference["namespace"], reference["name"]), container) not in rows and container not in held.owed:
            yield Finding(f"advertisement {name}", f"tells of container {container}, which is not here")
    yield from twice_advertised(told.advertisements)


def twice_advertised(advertisements: Iterable[Raw]) -> Iterator[Finding]:
    """Prefixes that two attachments of one VPC are advertised with: a double address, somewhere. Pure."""
    holders: dict[tuple[int, str], set[str]] = {}
    for raw in advertisements:
        vpc, _ = labelled_identity(raw)
        for prefix in raw["spec"].get("prefixes") or ():
            holders.setdefault((vpc, prefix), set()).add(raw["metadata"]["name"])
    for (vpc, prefix), names in holders.items():
        if len(names) > 1:
            yield Finding(f"address {prefix} of VPC {vpc:x}", f"is advertised by {', '.join(sorted(names))}")


async def _kernel(datapath: Datapath, held: Held) -> list[Finding]:
    """The node, every row and everything that no row explains."""
    found = [Finding(f"node, {each.subject}", str(each)) for each in await datapath.check_node()]
    for row in held.rows:
        if row.state is State.ADDED:
            found += [Finding(f"{row.device}, {each.subject}", str(each)) for each in await datapath.check(row.record)]
    strays = await datapath.strays([row.record for row in held.rows])
    found += [Finding(f"{stray.kind} {stray.name}", "is explained by no row of the journal") for stray in strays]
    present = {row.vpc for row in held.rows}
    found += [Finding(f"VPC {vpc:x}", "has an index but no row") for vpc in held.vpcs if vpc not in present]
    return found


async def _routes(datapath: Datapath, held: Held, told: Told) -> list[Finding]:
    """Routes to other nodes against what those advertise."""
    own, block = held.config.node_name, held.config.locator_block
    nodes = plan_nodes(told.routers, own, block)
    wanted = {}
    for identifier in {row.vpc for row in held.rows if row.state is State.ADDED}:
        theirs = [raw for raw in told.advertisements if labelled_identity(raw)[0] == identifier]
        local = {each.block for row in held.rows if row.vpc == identifier for each in row.record.attachment.addresses}
        plan = plan_remotes(theirs, nodes, own=own, block=block, local=local)
        wanted[Vpc(identifier, held.vpcs[identifier])] = plan.remotes
    differences = await datapath.check_remotes(wanted, nodes.values())
    return [Finding(f"{each.subject} {each.wanted} {each.found}", str(each)) for each in differences]
