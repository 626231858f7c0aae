"""Attaching a container to its VPCAttachment and detaching it again, each step recorded before it is taken.

Order of an ADD: read the attachment; journal; make the device (down) while the attachment is claimed at the API; put it
up; journal; answer. Whatever stops it on the way is undone by the same steps that a DEL takes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from netclaim.api.cloud import VPCAttachment
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import Conflict
from node_agent.cni import claiming, namespaces, refusals
from node_agent.cni.attachment import (
    Identity,
    check_free,
    check_identity,
    check_namespace,
    check_pod,
    node_facts,
    plan_attachment,
    read_attachment,
)
from node_agent.cni.protocol import Call, Pointer
from node_agent.cni.refusals import Refusal
from node_agent.cni.result import cni_result
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.errors import DatapathError, DeviceTakenError, NamespaceGoneError
from node_agent.datapath.model import Attachment, Mode, Record, Vpc
from node_agent.journal import IndexesExhaustedError, Journal
from node_agent.locks import KeyedLocks
from node_agent.presence import Presence
from node_agent.rows import Row, State

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.cni")

CLAIM_ATTEMPTS: Final = 5
UNDO_WITHIN: Final = 15.0
"""Seconds for undoing a call; what is not undone by then is left to the sweep, which reads the journal."""

Refused = Callable[[Raw, Refusal], None]
"""Told of a refusal that concerns an attachment, for an Event on it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An attachment as one GET has shown it."""

    raw: Raw
    model: VPCAttachment
    who: Identity

    @property
    def resource_version(self) -> str:
        """The version that the claim is bound to."""
        return str(self.raw["metadata"]["resourceVersion"])

    def same_plan(self, other: Seen) -> bool:
        """Whether what is programmed from the other is what would be programmed from this."""
        return (self.model.uid, self.who, self.model.spec.interface) == (
            other.model.uid,
            other.who,
            other.model.spec.interface,
        )


class Attacher:
    """Makes and unmakes attachments. One call at a time works on a container's interface, and on a device."""

    def __init__(
        self,
        *,
        node: str,
        client: Client,
        journal: Journal,
        datapath: Datapath,
        presence: Presence,
        withdrawing: KeyedLocks,
        changed: Callable[[Row], None],
        refused: Refused,
    ) -> None:
        """``withdrawing``: held by device while facts are taken back; ``changed``: told of rows that come and go."""
        self._node = node
        self._client = client
        self._journal = journal
        self._datapath = datapath
        self._presence = presence
        self._withdrawing = withdrawing
        self._changed = changed
        self._refused = refused
        self._locks = KeyedLocks()
        self._unfinished: set[asyncio.Task[None]] = set()

    async def add(self, call: Call) -> dict[str, Any]:
        """Attach; the CNI result. A repeated call of the same container finds its own work. Raises Refusal."""
        pointer = call.pointer()
        check_namespace(call, pointer)
        if namespaces.inode_of(call.netns) == namespaces.own_inode():
            raise Refusal(refusals.BAD_NAMESPACE, path=call.netns, why="it is the node's own")
        async with self._locks.hold(call.key):
            raw = await claiming.read(self._client, pointer)
            try:
                return await self._add(call, pointer, raw)
            except Refusal as refusal:
                self._refused(raw, refusal)
                raise

    async def delete(self, call: Call, *, not_after: int | None = None) -> None:
        """Detach what the journal says that this container owns; nothing to do is success.

        Done for the caller as soon as the container has no interface any more and the journal says that it leaves.
        Whatever follows goes on in a task that keeps the container's and the device's turn.
        ``not_after``: leave a row alone that is younger (nanoseconds since 1970): a kept DEL that comes late.
        """
        gone = asyncio.Event()
        deleting = self._begin(self._delete(call, not_after, gone))
        leaving = asyncio.ensure_future(gone.wait())
        try:
            await asyncio.wait({deleting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            if not deleting.done():
                deleting.add_done_callback(_tell_failure)
        if deleting.done():
            deleting.result()

    async def _delete(self, call: Call, not_after: int | None, gone: asyncio.Event) -> None:
        async with self._locks.hold(call.key):
            row = await self._journal.get(call.key)
            if row is None or (not_after is not None and row.at > not_after):
                return
            async with self._locks.hold(row.device):
                await self._remove(row, gone=gone.set)

    async def remove(self, row: Row) -> None:
        """Detach a row that was found in the journal, unless it has changed since."""
        async with self._locks.hold(row.key), self._locks.hold(row.device):
            if await self._journal.get(row.key) == row:
                await self._remove(row)

    async def heal(self, row: Row) -> None:
        """Put back whatever a live row is missing in the kernel, its device included."""
        async with self._locks.hold(row.key), self._locks.hold(row.device):
            if row.state is not State.ADDED or await self._journal.get(row.key) != row:
                return
            async with self._presence.using(row.vpc) as vpc:
                await self._presence.ensure(vpc)
                await self._datapath.adopt(row.record)
                differences = await self._datapath.check(row.record)
                if not differences:
                    return
                log.warning(
                    "kernel state is put back", device=row.device, differences=[str(one) for one in differences]
                )
                record = await self._datapath.prepare(row.record.attachment, row.record.netns)
                await self._datapath.bring_up(record)
                if record != row.record:
                    await self._journal.change(replace(row, record=record))

    async def settled(self) -> None:
        """Wait until nothing is being undone or taken down any more."""
        while self._unfinished:
            await asyncio.wait(self._unfinished)

    async def _add(self, call: Call, pointer: Pointer, raw: Raw) -> dict[str, Any]:
        seen = _examine(call, pointer, raw)
        async with self._locks.hold(seen.who.device):
            known = await self._clear_way(call, pointer, seen)
            async with self._presence.using(seen.who.vpc) as vpc:
                return await self._attach(call, pointer, seen, vpc, known)

    async def _clear_way(self, call: Call, pointer: Pointer, seen: Seen) -> Row | None:
        """Finish what is left of other containers on this device; refuse while one of them lives, here or elsewhere.

        Returns the row that this container's interface has already.
        """
        known = None
        for row in await self._journal.near(call.key, seen.who.device):
            if row.key == call.key:
                known = row
                continue
            if row.state is State.ADDED and not namespaces.sandbox_is_gone(row):
                raise Refusal(
                    refusals.OTHER_CONTAINER,
                    attachment=pointer,
                    container=row.container,
                    pod=row.request["pod"],
                    node=self._node,
                )
            await self._remove(row)
        await self._check_free(call, pointer, seen)
        return known

    async def _check_free(self, call: Call, pointer: Pointer, seen: Seen) -> None:
        recorded = seen.model.status.container_id
        if recorded and recorded != call.container:
            owed = await self._journal.withdrawals()
            departed = {item.container for item in owed if item.attachment == (pointer.namespace, pointer.name)}
            check_free(call, pointer, seen.model, departed)

    async def _attach(self, call: Call, pointer: Pointer, seen: Seen, vpc: Vpc, known: Row | None) -> dict[str, Any]:
        attachment = plan_attachment(call, pointer, seen.model, seen.who, vpc.index)
        if known is not None and known.device != attachment.device:
            raise Refusal(refusals.INTERFACE_TAKEN, container=call.container, ifname=call.ifname, device=known.device)
        netns = call.netns if attachment.mode is Mode.NETNS else None
        row = Row(
            container=call.container,
            ifname=call.ifname,
            state=State.ADDING,
            request={
                "netns": call.netns,
                "network": call.network,
                "pod": str(call.pod or "none"),
                "facts": node_facts(self._node, call, attachment),
            },
            attachment=(pointer.namespace, pointer.name),
            uid=seen.model.uid,
            netns_inode=namespaces.inode_of(call.netns),
            record=Record(attachment=attachment, netns=netns),
            at=time.time_ns(),  # of its begin: a DEL that was kept while the work was under way is for it
        )
        if known is not None and known.state is State.ADDED:
            # It works already: a repetition that fails must leave it working, so there is nothing to undo.
            return await self._make(call, pointer, seen, known)
        async with self._withdrawing.hold(row.device):
            await self._journal.begin(row)
        try:
            return await self._make(call, pointer, seen, row)
        except BaseException:
            await self._undo(row)
            raise

    async def _make(self, call: Call, pointer: Pointer, seen: Seen, row: Row) -> dict[str, Any]:
        attachment, facts = row.record.attachment, row.request["facts"]
        try:
            await self._presence.ensure(attachment.vpc)
            async with asyncio.TaskGroup() as both:
                # The claim first: it takes longer, and what the kernel is asked meanwhile needs little of this thread.
                both.create_task(self._claim(call, pointer, seen, facts, settled=row.state is State.ADDED))
                making = both.create_task(self._datapath.prepare(attachment, row.record.netns))
            record = making.result()
            await self._datapath.bring_up(record)
        except BaseExceptionGroup as group:
            raise _first(group, attachment) from group
        except (DatapathError, IndexesExhaustedError) as error:
            raise _kernel_refusal(error, attachment) from error
        result = cni_result(attachment, call.netns)
        made = replace(row, state=State.ADDED, record=record, result=result)
        await self._journal.change(made)
        self._changed(made)
        return result

    async def _claim(self, call: Call, pointer: Pointer, seen: Seen, facts: dict[str, Any], *, settled: bool) -> None:
        """Write the facts over what was seen; look again after a conflict. No link is up before this is done.

        ``settled``: the container has the attachment since an earlier ADD. Otherwise facts that are recorded already
        may just be taken back for an earlier try of this container, so they are written in any case.
        """
        planned = seen
        if settled and _recorded(seen.raw, facts):
            return
        for _ in range(CLAIM_ATTEMPTS):
            try:
                await claiming.claim(self._client, pointer, seen.resource_version, facts)
            except Conflict:
                seen = _examine(call, pointer, await claiming.read(self._client, pointer))
                await self._check_free(call, pointer, seen)
                if not seen.same_plan(planned):
                    break
            else:
                return
        raise Refusal(refusals.CONTENDED, attachment=pointer)

    async def _remove(self, row: Row, *, gone: Callable[[], None] = lambda: None) -> None:
        if row.state is not State.DELETING:
            await self._journal.change(replace(row, state=State.DELETING))
        try:
            await self._datapath.detach(row.record, gone=gone)
        except DatapathError as error:
            raise _kernel_refusal(error, row.record.attachment) from error
        await self._journal.end(row, row.withdrawal)
        self._changed(row)
        # The container is detached; that its VPC may be empty now is not for a runtime to wait for.
        self._begin(self._release(row.vpc))

    async def _release(self, vpc: int) -> None:
        try:
            await self._presence.release(vpc)
        except (DatapathError, sqlite3.Error) as error:
            log.warning("an empty VPC could not be taken down: the sweep tries again", vpc=vpc, error=str(error))

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work in a task of its own, which no caller's end cancels."""
        task = asyncio.create_task(work)
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        return task

    async def _undo(self, row: Row) -> None:
        """Detach in a task of its own: neither a deadline nor a second cancellation leaves it in the middle, and the
        locks that the caller holds stay held until it is done."""

        async def undo() -> None:
            try:
                async with asyncio.timeout(UNDO_WITHIN):
                    await self._remove(row)
            except (Refusal, TimeoutError, sqlite3.Error) as error:
                log.warning(
                    "a call could not be undone yet", container=row.container, device=row.device, error=str(error)
                )

        task = self._begin(undo())
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(task)


def _tell_failure(deleting: asyncio.Task[None]) -> None:
    error = None if deleting.cancelled() else deleting.exception()
    if error is not None:
        log.warning("what follows a DEL could not be finished: the sweep tries again", error=str(error))


def _examine(call: Call, pointer: Pointer, raw: Raw) -> Seen:
    """Every check that needs nothing but the call and the object."""
    model = read_attachment(pointer, raw)
    check_pod(call, model.spec.interface.mode)
    return Seen(raw, model, check_identity(pointer, model))


def _recorded(raw: Raw, facts: dict[str, Any]) -> bool:
    status = raw.get("status") or {}
    return all(status.get(name) == value for name, value in facts.items())


def _first(group: BaseExceptionGroup[BaseException], attachment: Attachment) -> BaseException:
    """What a caller is told when several things failed at once: a refusal before a fault of the kernel."""
    failures = list(group.exceptions)
    for failure in failures:
        if isinstance(failure, Refusal):
            return failure
    for failure in failures:
        if isinstance(failure, DatapathError):
            return _kernel_refusal(failure, attachment)
    return failures[0]


def _kernel_refusal(error: Exception, attachment: Attachment) -> Refusal:
    if isinstance(error, IndexesExhaustedError):
        return Refusal(refusals.NO_INDEX, why=error)
    if isinstance(error, DeviceTakenError):
        return Refusal(refusals.DEVICE_TAKEN, device=attachment.device, why=error)
    if isinstance(error, NamespaceGoneError):
        return Refusal(refusals.BAD_NAMESPACE, path=error.path, why=error)
    return Refusal(refusals.KERNEL, device=attachment.device, why=error)
