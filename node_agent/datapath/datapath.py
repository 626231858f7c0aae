"""The node's data path, as the agent uses it: open, set up the node, then attach, detach, route, check.

Order of one attachment: ``ensure_vpc`` -> ``prepare`` (device made DOWN, rules and firewall elements in place) -> the
caller claims the attachment at the API -> ``bring_up``. ``detach`` undoes any part of it, from the record alone.

Everything is idempotent: a repeated call finds its own work. Calls for different devices may run at the same time;
calls for one device, and a VPC's own set-up, take their turns. A cancelled call may leave half of its steps done: call
``detach``, or the same call again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Self
from weakref import WeakValueDictionary

from node_agent.datapath import checks, links, namespaces, plan, remotes, sweep
from node_agent.datapath.errors import (
    DatapathError,
    DeviceTakenError,
    FirewallError,
    LinkMissingError,
    NamespaceGoneError,
)
from node_agent.datapath.execute import Executor, write_settings
from node_agent.datapath.model import (
    Attachment,
    Difference,
    Mode,
    NodeConfig,
    Prefix,
    Record,
    RemoteNode,
    RemotePrefix,
    RouteChange,
    Sid,
    Stray,
    Vpc,
)
from node_agent.datapath.netlink import Netlink, route_socket
from node_agent.datapath.nft import Firewall
from node_agent.datapath.objects import Ensure, Remove, RemoveElements, RemoveLink, SetSysctl
from node_agent.datapath.observe import Observer
from node_agent.datapath.vpcs import Vpcs

__all__ = ["Datapath", "RouteChange", "Stray"]

_THREADS = 8
_REMOVALS = 4
"""Devices that the kernel may be at freeing at once."""
_LOG = logging.getLogger(__name__)
ENCAPSULATION = 40
"""Bytes that encap.red with one segment adds: an IPv6 header."""


class Datapath:
    """The data path of the network namespace that this process runs in. One instance per process."""

    def __init__(self, config: NodeConfig, netlink: Netlink, firewall: Firewall, threads: ThreadPoolExecutor) -> None:
        self.config = config
        self._netlink = netlink
        self._firewall = firewall
        self._threads = threads
        self._removal_threads = ThreadPoolExecutor(max_workers=_REMOVALS, thread_name_prefix="removal")
        self._removals = [Netlink.open(self._removal_threads) for _ in range(_REMOVALS)]
        self._executor = Executor(netlink, firewall, removals=self._removals)
        self._observer = Observer(netlink)
        self._live: dict[str, Record] = {}
        self._raised: dict[str, Record | Vpc] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._remotes = remotes.RemoteRoutes(config, self._executor, self._observer)
        self._vpcs = Vpcs(config, self._executor, self._remotes, live=self._live, raised=self._raised)

    @classmethod
    async def open(cls, config: NodeConfig) -> Self:
        """Open the kernel handles. Changes nothing. Raises LinkMissingError when the uplink is not there."""
        threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="netlink")
        netlink = Netlink.open(threads)
        firewall = Firewall()
        uplink = await Executor(netlink).device(config.uplink)
        if uplink is None:
            netlink.close()
            firewall.close()
            threads.shutdown(wait=False)
            raise LinkMissingError(config.uplink, "the underlay interface of this node")
        if config.mtu is None:
            config = replace(config, mtu=uplink.mtu - ENCAPSULATION)
        return cls(config, netlink, firewall, threads)

    async def setup_node(self) -> None:
        """Sysctls, rules, SID table, tunnel source and the default-drop firewall; again at any time to heal them.

        A firewall that was flushed comes back with what opens it for the guests that live here, at once; one of the
        layout before this one is replaced, open for whomever it was open for.
        """
        live = [record.attachment for record in self._live.values()]
        elements = {each for attachment in live for each in plan.attachment_elements(self.config, attachment)}
        elements |= await self._firewall.former()
        await self._executor.run(plan.node_up(self.config, elements))

    async def set_nodes(self, nodes: Iterable[RemoteNode]) -> RouteChange:
        """Make the routes to the other nodes' locators exactly these, by difference."""
        return await self._remotes.set_nodes(nodes)

    async def ensure_vpc(self, vpc: Vpc) -> None:
        """Tables, rules and the veth pair of a VPC. Cheap when they are there already."""
        await self._vpcs.ensure(vpc)

    def sids(self, vpc: Vpc) -> tuple[Sid, ...]:
        """The SIDs under which this node takes packets for the VPC (pure; the same before and after ``ensure_vpc``)."""
        return plan.sids(self.config, vpc)

    def prefixes(self, vpc: Vpc) -> set[Prefix]:
        """Every prefix of the VPC whose guest lives on this node (pure; no question to the kernel)."""
        live = [record.attachment for record in self._live.values()]
        return {address.block for each in live if each.vpc == vpc for address in each.addresses}

    async def prepare(self, attachment: Attachment, netns: str | None) -> Record:
        """Create the device DOWN (its peer in ``netns``), rules and firewall elements; put the record into the journal.

        A device of this name that carries our mark and the same owner is adopted (its state is completed); any other
        is DeviceTakenError. ``netns`` is the path of the guest's namespace, None for a tap. Raises NamespaceGoneError.
        """
        if attachment.mode is Mode.NETNS and netns is None:
            raise NamespaceGoneError("", "the call names none")
        netns = netns if attachment.mode is Mode.NETNS else None
        async with self._turn(attachment.device):
            return await self._prepare(attachment, netns)

    async def _prepare(self, attachment: Attachment, netns: str | None) -> Record:
        device, before = attachment.device, self._live.get(attachment.device)
        if before is not None and before.attachment.owner != attachment.owner:
            raise DeviceTakenError(device, before.attachment.owner, f"it belongs to {before.attachment.owner}")
        record = Record(attachment=attachment, netns=netns)
        self._live[device] = record  # from here on the VPC is not released
        await self.ensure_vpc(attachment.vpc)
        steps = plan.before_up(self.config, attachment, netns)
        try:
            try:
                await self._executor.run(steps)
            except FirewallError:
                if await self._firewall.present():
                    raise
                await self.setup_node()  # somebody flushed it
                await self._executor.run(steps)
        except DeviceTakenError:
            self._live.pop(device)
            raise
        await self._vpcs.ensure_gateways(attachment)
        record = record.with_ifindex(await self._executor.index(device) or 0)
        self._live[device] = record
        return record

    async def bring_up(self, record: Record) -> None:
        """Put both ends up: neighbours, routes, SIDs are there before the guest's end is up, so its first packet works.

        Again at any time: whatever is missing is put back (a device that went down and up has lost its routes).
        """
        async with self._turn(record.attachment.device):
            await self._bring_up(record)

    async def _bring_up(self, record: Record) -> None:
        attachment = record.attachment
        steps = plan.bring_up(self.config, attachment)

        async def raise_host() -> None:
            await self._executor.run(steps.host)
            self._raised[attachment.device] = record

        if record.netns is None:
            await raise_host()
            return
        settings = [step for step in steps.guest if isinstance(step, SetSysctl)]
        async with self._inside(record.netns, settings, meanwhile=raise_host()) as guest:
            peer = await self._executor.peer(attachment.device)
            inside = await guest.device(attachment.guest_ifname)
            if inside is None or inside.index != peer:
                raise DeviceTakenError(
                    attachment.guest_ifname, "", f"in {record.netns} it is not the other end of {attachment.device}"
                )
            await guest.run(step for step in steps.guest if not isinstance(step, SetSysctl))
        await self._executor.until_running(attachment.device)

    async def adopt(self, record: Record) -> None:
        """Say, after a restart, that this attachment is live and up. Touches nothing; healing counts on it."""
        self._live[record.attachment.device] = record
        self._raised[record.attachment.device] = record

    async def detach(self, record: Record, *, gone: Callable[[], None] = lambda: None) -> bool:
        """Remove what this record's owner has, in reverse order. False: the device is another owner's, nothing is done.

        Tolerant of anything that is already gone, the namespace included. ``gone`` is called as soon as the guest can
        send and receive nothing any more: both ends of its device are removed, what is left to do is tidying.
        """
        async with self._turn(record.attachment.device):
            return await self._detach(record, gone)

    async def _detach(self, record: Record, gone: Callable[[], None]) -> bool:
        attachment = record.attachment
        live = self._live.get(attachment.device)
        if live is not None and live.attachment.owner != attachment.owner:
            return False
        found = await self._executor.device(attachment.device)
        steps = plan.detach(self.config, attachment)
        if found is not None and not found.ours:
            # A stranger took the name after our device went: what would apply to it goes, the device stays.
            steps = tuple(step for step in steps if isinstance(step, Remove | RemoveElements))
        elif found is not None and found.alias not in ("", plan.alias(attachment.owner)):
            return False
        self._raised.pop(attachment.device, None)
        closing = [step for step in steps if isinstance(step, RemoveLink)]
        await self._executor.run(closing)
        gone()
        await self._executor.run(steps[len(closing) :])
        await self._leave_guest(record)
        self._live.pop(attachment.device, None)
        await self._vpcs.release_gateways(attachment)
        return True

    async def _leave_guest(self, record: Record) -> None:
        """In a guest that lives on, take away what does not go with its interface."""
        steps = plan.guest_down(record.attachment)
        if record.netns is None or not steps:
            return
        with contextlib.suppress(NamespaceGoneError):
            async with self._inside(record.netns) as guest:
                await guest.run(steps)

    async def release_vpc(self, vpc: Vpc) -> bool:
        """Remove everything of the VPC. False (and nothing happens) as long as one attachment of it is live here."""
        return await self._vpcs.release(vpc)

    async def set_remotes(self, vpc: Vpc, remote: Iterable[RemotePrefix], *, verify: bool = False) -> RouteChange:
        """Make the VPC's routes to other nodes exactly these, by difference with what was installed before.

        The first time, and with ``verify``, the difference is taken with what the kernel holds. A prefix inside the
        locator block, or a segment outside of it, is a ValueError and nothing is changed. The VPC has to be there.
        """
        return await self._remotes.set(vpc, remote, verify=verify)

    async def check(self, record: Record) -> list[Difference]:
        """Compare kernel and record: link, MAC, MTU, addresses, routes, rules, neighbours, SIDs, firewall."""
        found = await checks.host_side(self.config, record, self._executor, self._observer, self._firewall)
        if record.netns is None:
            return found
        try:
            async with self._inside(record.netns) as guest:
                return found + await checks.guest_side(record, guest, Observer(guest.netlink))
        except NamespaceGoneError as gone:
            return [*found, Difference(f"namespace {record.netns}", "there", str(gone))]

    async def check_node(self) -> list[Difference]:
        """The same for the node's own state (what ``setup_node`` made)."""
        return await checks.node_side(self.config, self._observer, self._firewall)

    async def check_remotes(
        self, remote: Mapping[Vpc, Iterable[RemotePrefix]], nodes: Iterable[RemoteNode]
    ) -> list[Difference]:
        """The same for the routes to other nodes, of these VPCs and to these nodes: what is missing, what is more."""
        return await self._remotes.check(remote, nodes)

    async def strays(self, records: Collection[Record]) -> frozenset[Stray]:
        """Everything in our name space that none of these records (nor a VPC of theirs) explains."""
        return await sweep.strays(self.config, records, self._observer, self._firewall)

    async def inventory(self) -> sweep.Inventory:
        """Everything in our name space: devices, rules, routes, firewall elements (to rebuild a lost journal from)."""
        return await sweep.inventory(self._observer, self._firewall)

    async def clear_node(self) -> None:
        """Undo ``setup_node``, and remove everything else of ours: the node is to be used without us.

        Sysctls stay as they are: nobody knows what they were.
        """
        await self.remove(await self.strays([]))
        await self.set_nodes([])
        await self._executor.run(plan.node_down(self.config))

    async def remove(self, strays: Iterable[Stray]) -> None:
        """Remove strays that two observations have seen, links first, rules last."""
        await sweep.remove(strays, self._executor, self._observer, self._firewall)

    async def follow_links(self) -> None:
        """Put back what a device loses that somebody else put down (or, of a VPC, removed), for as long as this runs.

        A device that goes down and up has lost its routes, neighbours and addresses, and the pair of a VPC finds its
        gateways in the table ``local`` again. Runs until cancelled.
        """
        async for event in links.events():
            if event.name is None:
                chosen = list(self._raised)
            elif event.name == self.config.uplink and event.up:
                chosen = [event.name]
            else:
                chosen = [event.name] if event.name in self._raised and (event.gone or not event.up) else []
            for name in chosen:
                try:
                    await self.heal(name)
                except DatapathError as error:
                    _LOG.warning("%s went down and could not be put back: %s", name, error)

    async def heal(self, device: str) -> None:
        """Put back everything that hangs on one device of ours, or on the uplink. Unknown devices are left alone."""
        if device == self.config.uplink:
            await self._executor.run([Ensure(each) for each in plan.node_objects(self.config)])
            await self._remotes.repair_nodes()
            return
        async with self._turn(device):
            match self._raised.get(device):
                case Record() as record:
                    await self._bring_up(record)
                case Vpc() as vpc:
                    await self._vpcs.ensure_again(vpc)
                    await self._remotes.repair(vpc)
                case None:
                    pass

    async def drops(self) -> dict[str, int]:
        """Packets dropped by the firewall so far, by reason (firewall.DROPS)."""
        return await self._firewall.counters()

    async def close(self) -> None:
        """Close the handles, once what they were handed is done. Nothing else changes in the kernel."""
        await self._executor.settled()
        for netlink in (self._netlink, *self._removals):
            netlink.close()
        self._firewall.close()
        for threads in (self._threads, self._removal_threads):
            threads.shutdown(wait=False)

    def _turn(self, device: str) -> asyncio.Lock:
        """One device is worked on by one call at a time, healing included; the lock lives while somebody holds it."""
        turn = self._turns.get(device)
        if turn is None:
            turn = self._turns[device] = asyncio.Lock()
        return turn

    @asynccontextmanager
    async def _inside(
        self, netns: str, settings: Collection[SetSysctl] = (), *, meanwhile: Awaitable[None] | None = None
    ) -> AsyncIterator[Executor]:
        """An executor in a guest's namespace, for as long as one call needs it; ``settings`` are written on the way in.

        ``meanwhile``: done outside while the namespace is entered, and before anything is done inside.
        Raises NamespaceGoneError, KernelRefusedError.
        """

        def enter() -> socket.socket:
            write_settings(settings)
            return route_socket()

        entering = asyncio.ensure_future(namespaces.within(netns, enter))
        try:
            if meanwhile is not None:
                await meanwhile
            opened = await entering
        except BaseException:
            entering.cancel()
            entering.add_done_callback(_close_unused)
            raise
        netlink = Netlink(opened, self._threads)
        try:
            yield Executor(netlink, netns=netns)
        finally:
            netlink.close()


def _close_unused(entering: asyncio.Future[socket.socket]) -> None:
    if not entering.cancelled() and entering.exception() is None:
        entering.result().close()
