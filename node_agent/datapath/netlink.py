"""The kernel's netlink, through pyroute2. The only module that imports it.

A ``Netlink`` is one socket of one network namespace. Requests are sent many in one datagram: the kernel works them off
in order, so a batch costs one round trip, and what belongs together happens without a gap in between.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv6Address
from typing import Any, Self

from pyroute2 import AsyncIPRoute
from pyroute2.netlink import NLM_F_ACK, NLM_F_REQUEST, genlmsg
from pyroute2.netlink.exceptions import NetlinkDumpInterrupted, NetlinkError
from pyroute2.netlink.generic import AsyncGenericNetlinkSocket
from pyroute2.netlink.nlsocket import NetlinkRequest
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from node_agent.datapath.messages import RED, Decoded, Decoder, Message, Received

_CLASSES = {"link": ifinfmsg, "address": ifaddrmsg, "route": rtmsg, "neighbour": ndmsg, "rule": fibmsg}
_SEG6_MODE_RED = 3
_DUMP_INTERRUPTED = 0x10
_DUMP_TRIES = 20


def _teach_reduced_encapsulation() -> None:
    """pyroute2 knows two seg6 modes and turns every other into ``encap``: 24 bytes more, full-size packets die."""
    for outer in (rtmsg.seg6_encap_info, rtmsg.seg6local_encap_info):
        header = outer.ipv6_sr_hdr
        header.encapmodes[RED] = _SEG6_MODE_RED
        header.r_encapmodes[_SEG6_MODE_RED] = RED


_teach_reduced_encapsulation()


class Refusal(Exception):  # noqa: N818 - an answer, turned into an error by the one who knows the step
    """The kernel's refusal of one message: ``code`` an errno, ``said`` its own words."""

    def __init__(self, code: int, said: str) -> None:
        self.code = code
        self.said = said
        super().__init__(code, said)


class Netlink:
    """One rtnetlink socket of one namespace."""

    def __init__(self, route: Any, sender: ThreadPoolExecutor | None) -> None:
        self._route = route
        self._socket: socket.socket = route.socket
        self._sender = sender
        self._dumping = asyncio.Lock()

    @classmethod
    async def open(cls, sender: ThreadPoolExecutor | None = None, *, use: socket.socket | None = None) -> Self:
        """Open a socket in the current namespace, or take over ``use``, opened in another one.

        ``sender``: the thread that hands datagrams to the kernel, which may hold on to it for as long as a device
        takes to vanish; None: the caller's own (for a namespace where nothing takes long).
        """
        route = AsyncIPRoute(ext_ack=True, strict_check=True, use_socket=use)
        if use is not None:
            use.setsockopt(270, 11, 1)  # SOL_NETLINK, NETLINK_EXT_ACK
            use.setsockopt(270, 12, 1)  # SOL_NETLINK, NETLINK_GET_STRICT_CHK
        await route.setup_endpoint()
        return cls(route, sender)

    def close(self) -> None:
        """Close the socket."""
        self._route.close()
        self._socket.close()

    async def exchange(self, messages: Sequence[Message]) -> list[list[Received] | Refusal]:
        """Send all messages in one datagram; one answer for each, in order: what it returned, or its refusal.

        A refused message does not keep the kernel from the next ones. A cancelled caller does not cancel the exchange:
        what was sent is done, and its answers have to be taken off the queue.
        """
        return await asyncio.shield(asyncio.ensure_future(self._exchange(messages)))

    async def dump(self, message: Message, decode: Decoder[Decoded]) -> list[Decoded]:
        """Everything that matches, decoded as the kernel walks over it (None: left out). Raises Refusal.

        One dump at a time, since a socket has room for one; once more from the start when a change interrupted it.
        """
        return await asyncio.shield(asyncio.ensure_future(self._dump(message, decode)))

    async def _exchange(self, messages: Sequence[Message]) -> list[list[Received] | Refusal]:
        requests = [self._request(message) for message in messages]
        for request in requests:
            await request.prepare()
        payload = b"".join(bytes(request.msg.data) for request in requests)
        if self._sender is None:
            self._socket.send(payload)
        else:
            await asyncio.get_running_loop().run_in_executor(self._sender, self._socket.send, payload)
        return [await self._answer(request) for request in requests]

    async def _dump(self, message: Message, decode: Decoder[Decoded]) -> list[Decoded]:
        async with self._dumping:
            for _ in range(_DUMP_TRIES):
                request = self._request(message)
                await request.send()
                found: list[Decoded] = []
                interrupted = False
                try:
                    async for response in request.response():
                        interrupted |= bool(response["header"]["flags"] & _DUMP_INTERRUPTED)
                        decoded = decode(response)
                        if decoded is not None:
                            found.append(decoded)
                except NetlinkDumpInterrupted:
                    continue
                except NetlinkError as error:
                    raise _refusal(error) from error
                if not interrupted:
                    return found
        raise Refusal(errno.EAGAIN, f"{message} changes too fast to be read")

    def _request(self, message: Message) -> Any:
        return NetlinkRequest(self._route, _content(message), msg_type=message.type, msg_flags=message.flags)

    async def _answer(self, request: Any) -> list[Received] | Refusal:
        try:
            return [response async for response in request.response()]
        except NetlinkError as error:
            return _refusal(error)


def _content(message: Message) -> Any:
    content = _CLASSES[message.kind]()
    for name, value in message.fields.items():
        content[name] = value
    content["attrs"] = [list(attribute) for attribute in message.attributes]
    return content


def encode(message: Message) -> Any:
    """The message in pyroute2's class for it, its bytes in ``data``: to be read as the kernel reads it."""
    content = _content(message)
    content["header"]["type"] = message.type
    content["header"]["flags"] = message.flags
    content.encode()
    return content


def _refusal(error: Any) -> Refusal:
    return Refusal(error.code, str(error.args[1]) if len(error.args) > 1 else "")


class _Seg6Message(genlmsg):  # type: ignore[misc]
    """The generic netlink family SEG6 (linux/seg6_genl.h)."""

    prefix = "SEG6_ATTR_"
    nla_map = (
        ("SEG6_ATTR_UNSPEC", "none"),
        ("SEG6_ATTR_DST", "ip6addr"),
        ("SEG6_ATTR_DSTLEN", "int32"),
        ("SEG6_ATTR_HMACKEYID", "uint32"),
        ("SEG6_ATTR_SECRET", "hex"),
        ("SEG6_ATTR_SECRETLEN", "uint8"),
        ("SEG6_ATTR_ALGID", "uint8"),
        ("SEG6_ATTR_HMACINFO", "hex"),
    )


_SET_TUNNEL_SOURCE, _GET_TUNNEL_SOURCE = 3, 4


async def set_tunnel_source(address: IPv6Address) -> None:
    """Outer source address of everything this namespace encapsulates. Raises Refusal (ENOENT: no segment routing)."""
    await _seg6(_SET_TUNNEL_SOURCE, [["SEG6_ATTR_DST", str(address)]])


async def tunnel_source() -> IPv6Address:
    """The outer source address that is set (``::`` when none is). Raises Refusal."""
    (answer,) = await _seg6(_GET_TUNNEL_SOURCE, [])
    return IPv6Address(answer.get("SEG6_ATTR_DST"))


async def _seg6(command: int, attributes: list[list[Any]]) -> list[Any]:
    handle = AsyncGenericNetlinkSocket()
    try:
        await handle.bind("SEG6", _Seg6Message)
        message = _Seg6Message()
        message["cmd"] = command
        message["version"] = 1
        message["attrs"] = attributes
        flags = NLM_F_REQUEST | (NLM_F_ACK if command == _SET_TUNNEL_SOURCE else 0)
        return [each async for each in await handle.nlm_request(message, msg_type=handle.prid, msg_flags=flags)]
    except NetlinkError as error:
        raise Refusal(error.code, str(error)) from error
    finally:
        handle.close()
