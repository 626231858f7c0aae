"""A conversation with the kernel: requests in batches, which refusals count, and the devices that were met."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass

from node_agent.datapath import decode, messages
from node_agent.datapath.decode import Device
from node_agent.datapath.errors import KernelRefusedError
from node_agent.datapath.messages import Message, Received
from node_agent.datapath.netlink import Netlink, Refusal
from node_agent.datapath.objects import Ensure, Rule, Step

_ALWAYS = {"lo": 1}
_BATCH = 128
_MEMORY_TRIES = 9
Judge = Callable[[list[Received] | Refusal], None]
"""Looks at an answer. Raises KernelRefusedError for a refusal that counts."""


@dataclass(frozen=True, slots=True)
class Request:
    """A message, and who looks at its answer."""

    message: Message
    judge: Judge
    guards: bool = False
    """Whether no device may be put up when this is refused."""


class Conversation:
    """A netlink handle, with the indexes of the devices that were met through it."""

    def __init__(self, netlink: Netlink) -> None:
        self.netlink = netlink
        self._index = dict(_ALWAYS)
        self._peer: dict[str, int] = {}

    async def device(self, name: str) -> Device | None:
        """The device of this name, None when there is none."""
        (answer,) = await self.netlink.exchange([messages.get_link(name)])
        if isinstance(answer, Refusal):
            if answer.code == errno.ENODEV:
                self._index.pop(name, None)
                return None
            raise KernelRefusedError(f"to read the device {name}", answer.code, answer.said)
        return self.learned(decode.device(answer[0]))

    async def peer(self, name: str) -> int | None:
        """The index of the other end of a veth, in its own namespace; from memory where it is known."""
        if name not in self._peer:
            await self.device(name)
        return self._peer.get(name)

    def learned(self, found: Device) -> Device:
        """Remember a device that was read on the way."""
        self._index[found.name] = found.index
        self._peer[found.name] = found.peer
        return found

    def forget(self) -> None:
        """Ask for every device anew: one has vanished, and perhaps its peer."""
        self._index = dict(_ALWAYS)
        self._peer = {}

    async def index(self, name: str) -> int | None:
        """The index of a device, from memory where it is known."""
        if name not in self._index:
            await self.device(name)
        return self._index.get(name)

    async def flush(self, pending: list[Request]) -> None:
        """Send what is pending, in few datagrams, and look at every answer. Raises DatapathError; empties the list."""
        if not pending:
            return
        requests = list(pending)
        pending.clear()
        for first in range(0, len(requests), _BATCH):
            await self._send(requests[first : first + _BATCH])

    async def _send(self, requests: list[Request]) -> None:
        """One datagram. What the kernel has no memory for is asked again.

        An encapsulating route takes memory of each processor without waiting for it: of some hundred at once the last
        are refused (ENOMEM) until the kernel has made room, a moment later.
        """
        for attempt in range(_MEMORY_TRIES):
            answers = await self.netlink.exchange([request.message for request in requests])
            if any(isinstance(answer, Refusal) and answer.code == errno.ENODEV for answer in answers):
                self.forget()  # somebody removed a device: no index is to be trusted
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


def judge(step: Step) -> Judge:
    """Every refusal counts."""

    def judge(answer: list[Received] | Refusal) -> None:
        if isinstance(answer, Refusal):
            raise KernelRefusedError(step, answer.code, answer.said)

    return judge


def judge_presence(step: Ensure) -> Judge:
    """A rule that is there already is the same rule: the kernel compares all of it."""

    def judge(answer: list[Received] | Refusal) -> None:
        if isinstance(answer, Refusal) and not (answer.code == errno.EEXIST and isinstance(step.object, Rule)):
            raise KernelRefusedError(step, answer.code, answer.said)

    return judge


def judge_removal(step: Step) -> Judge:
    """What is gone already is success."""

    def judge(answer: list[Received] | Refusal) -> None:
        if isinstance(answer, Refusal) and answer.code not in messages.GONE:
            raise KernelRefusedError(step, answer.code, answer.said)

    return judge
