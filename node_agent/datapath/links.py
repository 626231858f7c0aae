"""Link events of the namespace that this process runs in, read from the kernel's own notifications.

Only three things of an event matter (name, whether it is up, whether it is gone), so it is read as it lies there: a
full decoding would cost a millisecond for every link that anybody on the node touches.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass

_LINK_GROUP = 1
_NEW_LINK, _DEL_LINK = 16, 17
_HEADER = struct.Struct("=IHHII")
_INTERFACE = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")
_NAME = 3
_UP = 0x1


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """A device that changed. ``name`` None: events were lost, anything may have changed."""

    name: str | None
    up: bool
    gone: bool = False


async def events() -> AsyncIterator[LinkEvent]:
    """Every link event from now on, until the caller stops listening. Raises OSError when no socket can be had."""
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
    with contextlib.closing(opened):
        opened.bind((0, _LINK_GROUP))
        opened.settimeout(0)
        loop = asyncio.get_running_loop()
        while True:
            try:
                datagram = await loop.sock_recv(opened, 1 << 16)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                yield LinkEvent(None, up=False)
                continue
            for event in parse(datagram):
                yield event


def parse(datagram: bytes) -> list[LinkEvent]:
    """The events of one datagram; what is not about a link is left out. Pure."""
    found = []
    offset = 0
    while offset + _HEADER.size + _INTERFACE.size <= len(datagram):
        length, kind, _, _, _ = _HEADER.unpack_from(datagram, offset)
        if length < _HEADER.size:
            break
        if kind in (_NEW_LINK, _DEL_LINK):
            flags = _INTERFACE.unpack_from(datagram, offset + _HEADER.size)[3]
            name = _name(datagram[offset + _HEADER.size + _INTERFACE.size : offset + length])
            if name is not None:
                found.append(LinkEvent(name, up=bool(flags & _UP), gone=kind == _DEL_LINK))
        offset += length + 3 & ~3
    return found


def _name(attributes: bytes) -> str | None:
    offset = 0
    while offset + _ATTRIBUTE.size <= len(attributes):
        length, kind = _ATTRIBUTE.unpack_from(attributes, offset)
        if length < _ATTRIBUTE.size:
            return None
        if kind == _NAME:
            return attributes[offset + _ATTRIBUTE.size : offset + length].rstrip(b"\0").decode("ascii", "replace")
        offset += length + 3 & ~3
    return None
