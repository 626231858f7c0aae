"""Carries out steps, in order, with as few round trips as their order allows."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Iterable, Sequence

from node_agent.datapath import decode, messages, namespaces, taps
from node_agent.datapath.conversation import Conversation, Request, judge, judge_presence, judge_removal
from node_agent.datapath.decode import Device
from node_agent.datapath.errors import DeviceTakenError, KernelRefusedError, LinkMissingError
from node_agent.datapath.messages import Message, Received
from node_agent.datapath.model import Address
from node_agent.datapath.netlink import Netlink, Refusal, set_tunnel_source
from node_agent.datapath.nft import Firewall
from node_agent.datapath.objects import (
    FAMILIES,
    AddElements,
    AwaitLocal,
    Create,
    Ensure,
    EnsureHidden,
    FlushTable,
    Link,
    LoadFirewall,
    Remove,
    RemoveElements,
    RemoveLink,
    Rule,
    SetLink,
    SetSysctl,
    SetTunnelSource,
    Step,
    Tap,
    Veth,
    Vrf,
)


class Executor(Conversation):
    """Runs steps in the namespace of its netlink handle. Not for steps of several namespaces at once."""

    def __init__(
        self,
        netlink: Netlink,
        firewall: Firewall | None = None,
        netns: str | None = None,
        removals: Sequence[Netlink] = (),
    ) -> None:
        """``netns``: the guest's namespace that the handle belongs to; None: the process's own.

        ``removals``: further handles of the same namespace, for what the kernel takes its time for.
        """
        super().__init__(netlink)
        self._firewall = firewall
        self._netns = netns
        self._removals = itertools.cycle(removals or (netlink,))
        self._removing: set[asyncio.Future[list[list[Received] | Refusal]]] = set()

    async def run(self, steps: Iterable[Step]) -> None:
        """Carry out steps in order; the first that fails ends it. Raises DatapathError.

        Steps travel together up to one that must not be reached after a failure: a device is put up only after the
        rules before it are known to be there.
        """
        pending: list[Request] = []
        settings: list[SetSysctl] = []
        for step in steps:
            if settings and not isinstance(step, SetSysctl):
                await self._write(settings)
            match step:
                case Ensure() | Remove():
                    await self._learn(step, pending)
                    pending += self._object_requests(step)
                case SetLink():
                    if step.up and any(request.guards for request in pending):
                        await self.flush(pending)
                    pending.append(await self._set_link_request(step, pending))
                case RemoveLink():
                    await self.flush(pending)
                    await self._remove_link(step)
                case SetSysctl():
                    await self.flush(pending)
                    settings.append(step)
                case _:
                    await self.flush(pending)
                    await self._run_alone(step)
        await self._write(settings)
        await self.flush(pending)

    async def until_running(self, name: str, deadline: float = 2.0) -> None:
        """Wait until a device that was put up really passes packets (the kernel follows its carrier with a delay)."""
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        pause = 0.0005
        while not ((found := await self.device(name)) and found.running):
            if loop.time() > end:
                raise KernelRefusedError(f"to put up {name}", errno.ETIMEDOUT, "its carrier does not come")
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)

    async def _run_alone(self, step: Step) -> None:
        match step:
            case Create(link):
                await self._create(step, link)
            case FlushTable(table):
                await self._flush_table(step, table)
            case EnsureHidden():
                await self._hide_address(step)
            case AwaitLocal(address):
                await self._await_local(step, address)
            case SetTunnelSource(source):
                try:
                    await set_tunnel_source(source.address)
                except Refusal as refusal:
                    raise KernelRefusedError(step, refusal.code, refusal.said) from refusal
            case LoadFirewall(ruleset):
                await self._walls.load(ruleset)
            case AddElements(elements):
                if elements:
                    await self._walls.add(elements)
            case RemoveElements(elements):
                if elements:
                    await self._walls.remove(elements)

    async def _await_local(self, step: AwaitLocal, address: Address, deadline: float = 3.0) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        pause = 0.0005
        while True:
            (answer,) = await self.netlink.exchange([messages.get_route(address)])
            if not isinstance(answer, Refusal) and decode.is_local(answer[0]):
                return
            if loop.time() > end:
                raise KernelRefusedError(step, errno.ETIMEDOUT, "the kernel does not take packets for it")
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.05)

    async def _hide_address(self, step: EnsureHidden, deadline: float = 2.0) -> None:
        """Both in one datagram: IPv4 is local for no time at all; the route of IPv6 comes a moment later."""
        if await self.index(step.address.dev) is None:
            raise LinkMissingError(step.address.dev, step)
        add, hide = messages.add_address(step.address, self._index), messages.remove(step.local, self._index)
        added, hidden = await self.netlink.exchange([add, hide])
        is_new = not isinstance(added, Refusal)
        if isinstance(added, Refusal) and added.code != errno.EEXIST:
            raise KernelRefusedError(step, added.code, added.said)
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline
        while isinstance(hidden, Refusal):
            if hidden.code not in messages.GONE or (is_new and loop.time() > end):
                raise KernelRefusedError(step, hidden.code, hidden.said)
            if not is_new:
                return
            await asyncio.sleep(0.0005)
            (hidden,) = await self.netlink.exchange([hide])

    @property
    def _walls(self) -> Firewall:
        if self._firewall is None:
            raise ValueError("there is no firewall inside a guest")
        return self._firewall

    async def _learn(self, step: Ensure | Remove, pending: list[Request]) -> None:
        """Have the index of the step's device; a device that may come with a pending request is asked for after it."""
        for name in messages.devices_of(step.object):
            if name not in self._index:
                await self.flush(pending)
                if await self.device(name) is None and isinstance(step, Ensure):
                    raise LinkMissingError(name, step)

    def _object_requests(self, step: Ensure | Remove) -> list[Request]:
        if any(name not in self._index for name in messages.devices_of(step.object)):
            return []  # to be removed, and its device is gone: so is the object
        if isinstance(step, Remove):
            return [Request(messages.remove(step.object, self._index), judge_removal(step))]
        guards = isinstance(step.object, Rule)
        return [Request(messages.ensure(step.object, self._index), judge_presence(step), guards)]

    async def _set_link_request(self, step: SetLink, pending: list[Request]) -> Request:
        master = None
        if step.master is not None:
            await self.flush(pending)
            master = await self.index(step.master)
            if master is None:
                raise LinkMissingError(step.master, step)
        message = messages.set_link(step.device, up=step.up, master=master, no_link_local=step.no_link_local)
        closing = step.up is False
        return Request(message, judge_removal(step) if closing else judge(step))

    async def _remove_link(self, step: RemoveLink) -> None:
        """Remove a device and return once nobody finds it.

        It and its other end are closed then, their addresses, neighbours and routes are gone. The kernel answers ten
        times later: when no processor can refer to the device any more, and its memory is free.
        """
        found = await self.device(step.device)
        if found is not None:
            removing = asyncio.ensure_future(next(self._removals).exchange([messages.del_link(found.index)]))
            self._removing.add(removing)
            removing.add_done_callback(self._removing.discard)
            pause = 0.0005
            while not removing.done() and (seen := await self.device(step.device)) and seen.index == found.index:
                await asyncio.wait({removing}, timeout=pause)
                pause = min(pause * 2, 0.05)
            if removing.done():
                judge_removal(step)(removing.result()[0])
        # Its peer, whose name is not known here, is gone too: every index is asked for again.
        self.forget()

    async def settled(self) -> None:
        """Wait until the kernel has answered for every device that was removed."""
        if self._removing:
            await asyncio.wait(self._removing)

    async def _create(self, step: Create, link: Link) -> None:
        existing = await self.device(link.name)
        if existing is not None:
            _adopt(link, existing)
            await self._exchange(step, [*_adorn(link, new=False), *_repair(link, existing)])
            await self._learn_peer(link)
            return
        match link:
            case Tap():
                await self._create_tap(step, link)
            case Veth():
                await self._exchange(step, [messages.new_veth(link), *_adorn(link, new=True)], then_read=link.name)
            case Vrf():
                await self._exchange(step, [messages.new_vrf(link), *_adorn(link, new=True)], then_read=link.name)
        await self._learn_peer(link)

    async def _create_tap(self, step: Step, tap: Tap) -> None:
        """It is kept only once it carries our marks: one without would be a stranger's for whoever finds it."""
        try:
            descriptor = await asyncio.to_thread(taps.create, tap.name)
            try:
                await self._exchange(step, _adorn(tap, new=True), then_read=tap.name)
                taps.keep(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise KernelRefusedError(step, error.errno or errno.EIO, str(error)) from error

    async def _learn_peer(self, link: Link) -> None:
        """A pair that was made anew has new indexes on both ends."""
        if isinstance(link, Veth) and link.netns is None:
            await self.device(link.peer)

    async def _exchange(self, step: Step, batch: list[Message], *, then_read: str | None = None) -> None:
        """One datagram for one step; ``then_read``: the device whose index is learned on the way."""
        pending = [Request(message, judge(step)) for message in batch]

        def learn(answer: list[Received] | Refusal) -> None:
            judge(step)(answer)
            if isinstance(answer, list) and then_read is not None:
                self.learned(decode.device(answer[0]))

        if then_read is not None:
            pending.append(Request(messages.get_link(then_read), learn))
        await self.flush(pending)

    async def _flush_table(self, step: FlushTable, table: int) -> None:
        names = {index: name for name, index in self._index.items()}
        for family in FAMILIES:
            try:
                found = await self.netlink.dump(
                    messages.dump_routes(family, table=table), lambda message: decode.route(message, names)
                )
            except Refusal as refusal:
                if refusal.code in messages.GONE:
                    continue
                raise KernelRefusedError(step, refusal.code, refusal.said) from refusal
            # A route of a device that is unknown here goes by its destination and metric alone.
            pending = [Request(messages.remove_any(route), judge_removal(step)) for route in found]
            await self.flush(pending)

    async def _write(self, settings: list[SetSysctl]) -> None:
        """Write settings that follow each other; in a guest's namespace by one thread that ends with them."""
        chosen = list(settings)
        settings.clear()
        if not chosen:
            return
        if self._netns is None:
            write_settings(chosen)
        else:
            await namespaces.within(self._netns, lambda: write_settings(chosen))


def write_settings(settings: Iterable[SetSysctl]) -> None:
    """Write settings of the calling thread's namespace. Raises KernelRefusedError."""
    for each in settings:
        try:
            namespaces.write_sysctl(each.path, each.value, optional=each.optional)
        except OSError as error:
            said = f"/proc/sys/{each.path}: {error.strerror}"
            raise KernelRefusedError(each, error.errno or errno.EIO, said) from error


def _adorn(link: Link, *, new: bool) -> list[Message]:
    """What a device gets after it was made. Setting a MAC, even the same, costs a device its neighbours: once only."""
    if isinstance(link, Tap) and new:
        return [messages.adorn_tap(link)]
    adorned = [messages.adorn_link(link.name, link.alias)]
    if isinstance(link, Veth) and link.netns is None:
        adorned.append(messages.adorn_link(link.peer, link.alias))
    return adorned


def _repair(link: Link, existing: Device) -> list[Message]:
    """A device of ours whose MAC or MTU somebody changed."""
    if isinstance(link, Vrf) or (existing.mac, existing.mtu) == (link.mac, link.mtu):
        return []
    return [messages.set_hardware(link.name, link.mac, link.mtu)]


def _adopt(link: Link, existing: Device) -> None:
    """A device of this name is there: it must be ours, of the same kind, and nobody else's. Raises DeviceTakenError."""
    kind = {Veth: "veth", Tap: "tun"}.get(type(link), "vrf")
    if not existing.ours:
        raise DeviceTakenError(link.name, existing.alias, "a device of that name is there that is not of our making")
    if existing.kind != kind:
        raise DeviceTakenError(link.name, existing.alias, f"it is of the kind {existing.kind}, not {kind}")
    if existing.alias not in ("", link.alias):
        raise DeviceTakenError(link.name, existing.alias, f"it belongs to {existing.alias}")
