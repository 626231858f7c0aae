"""Network namespaces as paths and inode numbers: is one there, and is it still the same."""

from __future__ import annotations

import socket
from pathlib import Path

from node_agent.rows import Row


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
