"""Network namespaces as paths and inode numbers: is it there, and is it still the same."""

from __future__ import annotations

from pathlib import Path


def inode_of(path: str) -> int:
    """The namespace's inode, 0 when there is none at the path (any more)."""
    try:
        return Path(path).stat().st_ino if path else 0
    except OSError:
        return 0


def own_inode() -> int:
    """The inode of the namespace that this process runs in."""
    return inode_of("/proc/self/ns/net")


def is_gone(path: str, inode: int) -> bool:
    """Whether the namespace that was recorded as (path, inode) is no longer what the path names.

    A namespace that is merely unmounted leaves an ordinary file or nothing behind, which has another inode.
    """
    return inode != 0 and inode_of(path) != inode
