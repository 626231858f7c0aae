"""Network namespaces as paths and inode numbers: is one there, and is it still the same."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from pathlib import Path
from typing import Final

from node_agent.datapath.errors import NamespaceGoneError
from node_agent.datapath.namespaces import within
from node_agent.rows import Row

_GET_HARDWARE_ADDRESS: Final = 0x8927
RUNTIME_FOLDERS: Final = ("/run/netns", "/var/run/netns")
"""Where runtimes mount the namespaces of their sandboxes."""


def inode_of(path: str) -> int:
    """The namespace's inode, 0 when there is none at the path (any more)."""
    try:
        return Path(path).stat().st_ino if path else 0
    except OSError:
        return 0


def own_inode() -> int:
    """The inode of the namespace that this process runs in."""
    return inode_of("/proc/self/ns/net")


def sandbox_is_gone(row: Row) -> bool:
    """Whether the namespace that the row's container had is no more.

    That its path names nothing, or another namespace, is not enough: an agent that cannot see the runtime's mounts
    would cut off every Pod. A veth dies with the namespace of its peer, so as long as the row's device is there, the
    sandbox is too. A tap has no such end.
    """
    if row.netns_inode == 0 or inode_of(row.request["netns"]) == row.netns_inode:
        return False
    return row.record.netns is None or index_of(row.device) != row.record.ifindex


def index_of(device: str) -> int:
    """Index of a device in this process's namespace, 0 when there is none."""
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return 0


def mac_of(device: str) -> str:
    """MAC of a device in the calling thread's namespace, empty when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking, _GET_HARDWARE_ADDRESS, struct.pack("16s24x", device.encode()))
        except OSError:
            return ""
    return answer[18:24].hex(":")


async def path_of(ifname: str, mac: str, index: int) -> str | None:
    """The path of the namespace that has this interface, among those that a runtime has mounted.

    None when there is none, or more than one could be meant.
    """
    found = []
    for path in _mounted():
        with contextlib.suppress(NamespaceGoneError):
            if await within(path, lambda: (index_of(ifname), mac_of(ifname))) == (index, mac):
                found.append(path)
    return found[0] if len(found) == 1 else None


def _mounted() -> list[str]:
    """A path of every namespace but this process's own, each namespace once."""
    paths: dict[int, str] = {}
    for folder in RUNTIME_FOLDERS:
        for path in sorted(Path(folder).glob("*")):
            paths.setdefault(inode_of(str(path)), str(path))
    return [path for inode, path in paths.items() if inode not in (0, own_inode())]
