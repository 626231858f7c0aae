"""Carries out steps, in order, with as few round trips as their order allows."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from node_agent.datapath import decode, messages, namespaces, taps
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

_ALWAYS = {"lo": 1}
_BATCH = 128
_MEMORY_TRIES = 9
_Judge = Callable[[list[Received] | Refusal], None]


@dataclass(frozen=True, slots=True)
class _Request:
    message: Message
    judge: _Judge
    guards: bool = False
    """Whether no device may be put up when this is refused."""


class Executor:
    """Runs steps in the namespace of its netlink handle. Not for steps of several namespaces at once."""

    def __init__(self, netlink: Netlink, firewall: Firewall | None = None, netns: str | None = None) -> None:
        """``netns``: the guest's namespace that the handle belongs to; None: the process's own."""
        self.netlink = netlink
        self._firewall = firewall
        self._netns = netns
        self._index = dict(_ALWAYS)
        self._peer: dict[str, int] = {}

    async def run(self, steps: Iterable[Step]) -> None:
        """Carry out steps in order; the first that fails ends it. Raises DatapathError.

        Steps travel together up to one that must not be reached after a failure: a device is put up only after the
        rules before it are known to be there.
        """
        pending: list[_Request] = []
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
                        await self._flush(pending)
                    pending.append(await self._set_link_request(step, pending))
                case RemoveLink(device):
                    pending.append(_Request(messages.del_link(device), _judge_removal(step)))
                    await self._flush(pending)
                    # Its peer, whose name is not known here, is gone too: every index is asked for again.
                    self._forget()
                case SetSysctl():
                    await self._flush(pending)
                    settings.append(step)
                case _:
                    await self._flush(pending)
                    await self._run_alone(step)
        await self._write(settings)
        await self._flush(pending)

    async def device(self, name: str) -> Device | None:
        """The device of this name, None when there is none."""
        (answer,) = await self.netlink.exchange([messages.get_link(name)])
        if isinstance(answer, Refusal):
            if answer.code == errno.ENODEV:
                self._index.pop(name, None)
                return None
            raise KernelRefusedError(f"to read the device {name}", answer.code, answer.said)
        return self._learned(decode.device(answer[0]))

    async def peer(self, name: str) -> int | None:
        """The index of the other end of a veth, in its own namespace; from memory where it is known."""
        if name not in self._peer:
            await self.device(name)
        return self._peer.get(name)

    def _learned(self, found: Device) -> Device:
        self._index[found.name] = found.index
        self._peer[found.name] = found.peer
        return found

    def _forget(self) -> None:
        self._index = dict(_ALWAYS)
        self._peer = {}

    async def index(self, name: str) -> int | None:
        """The index of a device, from memory where it is known."""
        if name not in self._index:
            await self.device(name)
        return self._index.get(name)

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

    async def _flush(self, pending: list[_Request]) -> None:
        if not pending:
            return
        requests = list(pending)
        pending.clear()
        for first in range(0, len(requests), _BATCH):
            await self._send(requests[first : first + _BATCH])

    async def _send(self, requests: list[_Request]) -> None:
        """One datagram. What the kernel has no memory for is asked again.

        An encapsulating route takes memory of each processor without waiting for it: of some hundred at once the last
        are refused (ENOMEM) until the kernel has made room, a moment later.
        """
        for attempt in range(_MEMORY_TRIES):
            answers = await self.netlink.exchange([request.message for request in requests])
            if any(isinstance(answer, Refusal) and answer.code == errno.ENODEV for answer in answers):
                self._forget()  # somebody removed a device: no index is to be trusted
            short_of_memory = []
            for request, answer in zip(requests, answers, strict=True):
                last = attempt == _MEMORY_TRIES - 1
                if isinstance(answer, Refusal) and answer.code == errno.ENOMEM and not last:
                    short_of_memory.append(request)
                else:
                    request.judge(answer)
            if not short_of_memory:
                return
            requests = short_of_memory
            await asyncio.sleep(0.005 * 2**attempt)

    async def _learn(self, step: Ensure | Remove, pending: list[_Request]) -> None:
        """Have the index of the step's device; a device that may come with a pending request is asked for after it."""
        for name in messages.devices_of(step.object):
            if name not in self._index:
                await self._flush(pending)
                if await self.device(name) is None and isinstance(step, Ensure):
                    raise LinkMissingError(name, step)

    def _object_requests(self, step: Ensure | Remove) -> list[_Request]:
        if any(name not in self._index for name in messages.devices_of(step.object)):
            return []  # to be removed, and its device is gone: so is the object
        if isinstance(step, Remove):
            return [_Request(messages.remove(step.object, self._index), _judge_removal(step))]
        guards = isinstance(step.object, Rule)
        return [_Request(messages.ensure(step.object, self._index), _judge_presence(step), guards)]

    async def _set_link_request(self, step: SetLink, pending: list[_Request]) -> _Request:
        master = None
        if step.master is not None:
            await self._flush(pending)
            master = await self.index(step.master)
            if master is None:
                raise LinkMissingError(step.master, step)
        message = messages.set_link(step.device, up=step.up, master=master, no_link_local=step.no_link_local)
        closing = step.up is False
        return _Request(message, _judge_removal(step) if closing else _judge(step))

    async def _create(self, step: Create, link: Link) -> None:
        existing = await self.device(link.name)
        if existing is not None:
            _adopt(link, existing)
            await self._exchange(step, [*_adorn(link, new=False), *_repair(link, existing)])
            await self._learn_peer(link)
            return
        creating: list[Message] = []
        match link:
            case Tap():
                try:
                    await asyncio.to_thread(taps.create, link.name)
                except OSError as error:
                    raise KernelRefusedError(step, error.errno or errno.EIO, str(error)) from error
            case Veth():
                creating = [messages.new_veth(link)]
            case Vrf():
                creating = [messages.new_vrf(link)]
        await self._exchange(step, [*creating, *_adorn(link, new=True)], then_read=link.name)
        await self._learn_peer(link)

    async def _learn_peer(self, link: Link) -> None:
        """A pair that was made anew has new indexes on both ends."""
        if isinstance(link, Veth) and link.netns is None:
            await self.device(link.peer)

    async def _exchange(self, step: Step, batch: list[Message], *, then_read: str | None = None) -> None:
        """One datagram for one step; ``then_read``: the device whose index is learned on the way."""
        pending = [_Request(message, _judge(step)) for message in batch]

        def learn(answer: list[Received] | Refusal) -> None:
            _judge(step)(answer)
            if isinstance(answer, list) and then_read is not None:
                self._learned(decode.device(answer[0]))

        if then_read is not None:
            pending.append(_Request(messages.get_link(then_read), learn))
        await self._flush(pending)

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
            pending = [_Request(messages.remove_any(route), _judge_removal(step)) for route in found]
            await self._flush(pending)

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


def _judge(step: Step) -> _Judge:
    def judge(answer: list[Received] | Refusal) -> None:
        if isinstance(answer, Refusal):
            raise KernelRefusedError(step, answer.code, answer.said)

    return judge


def _judge_presence(step: Ensure) -> _Judge:
    """A rule that is there already is the same rule: the kernel compares all of it."""

    def judge(answer: list[Received] | Refusal) -> None:
        if isinstance(answer, Refusal) and not (answer.code == errno.EEXIST and isinstance(step.object, Rule)):
            raise KernelRefusedError(step, answer.code, answer.said)

    return judge


def _judge_removal(step: Step) -> _Judge:
    def judge(answer: list[Received] | Refusal) -> None:
        if isinstance(answer, Refusal) and answer.code not in messages.GONE:
            raise KernelRefusedError(step, answer.code, answer.said)

    return judge
