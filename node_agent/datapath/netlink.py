"""The kernel's netlink. The only module that imports pyroute2 (for generic netlink).

A ``Netlink`` is one routing socket of one network namespace. Requests are sent many in one datagram: the kernel works
them off in order while it takes the datagram, so a batch costs one round trip, and what belongs together happens
without a gap in between. The kernel may hold on to a datagram for as long as a device takes to vanish, so a thread
hands it over.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address
from typing import Any, Self

from node_agent.datapath import wire
from node_agent.datapath.errors import KernelSilentError
from node_agent.datapath.messages import Decoded, Decoder, Message, Received
from node_agent.datapath.namespaces import open_namespace

_SOL_NETLINK, _EXT_ACK, _STRICT_CHECK = 270, 11, 12
_RECEIVE_BUFFER = 1 << 20
_DATAGRAM = 1 << 17
_TIMEOUT = 15.0
_DUMP_TRIES = 20


class Refusal(Exception):  # noqa: N818 - an answer, turned into an error by the one who knows the step
    """The kernel's refusal of one message: ``code`` an errno, ``said`` its own words."""

    def __init__(self, code: int, said: str) -> None:
        self.code = code
        self.said = said
        super().__init__(code, said)


def route_socket() -> socket.socket:
    """A routing socket of the namespace that the calling thread is in. Raises OSError."""
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    opened.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)
    opened.setsockopt(_SOL_NETLINK, _STRICT_CHECK, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    opened.settimeout(_TIMEOUT)
    return opened


class Netlink:
    """One routing socket of one namespace: one conversation with the kernel at a time."""

    def __init__(self, opened: socket.socket, threads: ThreadPoolExecutor) -> None:
        self._socket = opened
        self._threads = threads
        self._sequence = 0
        self._turn = asyncio.Lock()

    @classmethod
    def open(cls, threads: ThreadPoolExecutor) -> Self:
        """A socket of the namespace that this process runs in. Raises OSError."""
        return cls(route_socket(), threads)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    async def exchange(self, messages: Sequence[Message]) -> list[list[Received] | Refusal]:
        """Send all messages in one datagram; one answer for each, in order: what it returned, or its refusal.

        A refused message does not keep the kernel from the next ones. A cancelled caller does not cancel the exchange:
        what was handed over is done, and its answers have to be read. Raises KernelSilentError.
        """
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(self._exchange, messages)))

    async def dump(self, message: Message, decode: Decoder[Decoded]) -> list[Decoded]:
        """Everything that matches, decoded as the kernel walks over it (None: left out). Raises Refusal.

        Once more from the start when a change interrupted it.
        """
        return await asyncio.shield(asyncio.ensure_future(self._in_turn(self._dump, message, decode)))

    async def _in_turn(self, work: Any, *arguments: Any) -> Any:
        async with self._turn:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
            except OSError as error:  # a time-out, or a receive buffer that ran over
                raise KernelSilentError(str(error)) from error

    def _exchange(self, messages: Sequence[Message]) -> list[list[Received] | Refusal]:
        first = self._next(len(messages))
        with contextlib.ExitStack() as opened:
            datagram = b"".join(_encode(each, first + number, opened) for number, each in enumerate(messages))
            self._socket.send(datagram)
        answers: list[list[Received] | Refusal] = [[] for _ in messages]
        missing = len(messages)
        while missing:
            for part in wire.parts(self._socket.recv(_DATAGRAM)):
                number = part.sequence - first
                if not 0 <= number < len(messages):
                    continue  # the rest of a conversation that timed out
                answer = answers[number]
                if part.type == wire.ERROR:
                    refused = wire.refusal(part)
                    if refused is not None:
                        answers[number] = Refusal(*refused)
                    missing -= 1
                elif isinstance(answer, list) and (decoded := wire.decode(part)) is not None:
                    answer.append(decoded)
        return answers

    def _dump(self, message: Message, decode: Decoder[Decoded]) -> list[Decoded]:
        for _ in range(_DUMP_TRIES):
            found = self._dump_once(message, decode)
            if found is not None:
                return found
        raise Refusal(errno.EAGAIN, "what is to be read changes too fast")

    def _dump_once(self, message: Message, decode: Decoder[Decoded]) -> list[Decoded] | None:
        sequence = self._next(1)
        self._socket.send(wire.encode(message, sequence))
        found: list[Decoded] = []
        interrupted = False
        while True:
            for part in wire.parts(self._socket.recv(_DATAGRAM)):
                if part.sequence != sequence:
                    continue
                interrupted |= bool(part.flags & wire.INTERRUPTED)
                if part.type in (wire.DONE, wire.ERROR):
                    refused = wire.refusal(part) if part.body else None
                    if refused is not None:
                        raise Refusal(*refused)
                    return None if interrupted else found
                content = wire.decode(part)
                decoded = decode(content) if content is not None else None
                if decoded is not None:
                    found.append(decoded)

    def _next(self, count: int) -> int:
        first = self._sequence + 1
        if first + count >= 1 << 31:
            first = 1
        self._sequence = first + count - 1
        return first


def _encode(message: Message, sequence: int, opened: contextlib.ExitStack) -> bytes:
    if message.namespace is None:
        return wire.encode(message, sequence)
    descriptor = open_namespace(message.namespace)
    opened.callback(os.close, descriptor)
    return wire.encode(message, sequence, descriptor)


_SET_TUNNEL_SOURCE, _GET_TUNNEL_SOURCE = 3, 4


async def set_tunnel_source(address: IPv6Address) -> None:
    """Outer source address of everything this namespace encapsulates. Raises Refusal (ENOENT: no segment routing)."""
    await _seg6(_SET_TUNNEL_SOURCE, [["SEG6_ATTR_DST", str(address)]])


async def tunnel_source() -> IPv6Address:
    """The outer source address that is set (``::`` when none is). Raises Refusal."""
    (answer,) = await _seg6(_GET_TUNNEL_SOURCE, [])
    return IPv6Address(answer.get("SEG6_ATTR_DST"))


async def _seg6(command: int, attributes: list[list[Any]]) -> list[Any]:
    """One request to the generic netlink family SEG6 (linux/seg6_genl.h)."""
    from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST, genlmsg
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.generic import AsyncGenericNetlinkSocket

    class Seg6Message(genlmsg):  # type: ignore[misc]
        prefix = "SEG6_ATTR_"
        nla_map = (("SEG6_ATTR_UNSPEC", "none"), ("SEG6_ATTR_DST", "ip6addr"))

    handle = AsyncGenericNetlinkSocket()
    try:
        await handle.bind("SEG6", Seg6Message)
        message = Seg6Message()
        message["cmd"] = command
        message["version"] = 1
        message["attrs"] = attributes
        flags = NLM_F_REQUEST | (NLM_F_ACK if command == _SET_TUNNEL_SOURCE else 0)
        return [each async for each in await handle.nlm_request(message, msg_type=handle.prid, msg_flags=flags)]
    except NetlinkError as error:
        raise Refusal(error.code, str(error)) from error
    finally:
        handle.close()
