"""Work inside another network namespace, without ever taking a shared thread there.

A namespace belongs to a thread. So whatever needs one (a socket, a value below /proc/sys/net) is done by a thread made
for it alone, which ends right after: no thread of a pool, and no file descriptor, is left behind in a guest.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from node_agent.datapath.errors import NamespaceGoneError

CLONE_NEWNET = 0x40000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 2, 4, 8, 32, 4096
_LIBC = ctypes.CDLL(None, use_errno=True)
Result = TypeVar("Result")


def open_namespace(path: str) -> int:
    """A descriptor of a network namespace, to be closed by the caller. Raises NamespaceGoneError."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise NamespaceGoneError(path, error.strerror or str(error)) from error


async def within(path: str, work: Callable[[], Result]) -> Result:
    """Run ``work`` in the namespace at ``path``, in a thread of its own. Raises NamespaceGoneError."""
    descriptor = open_namespace(path)

    def enter() -> None:
        # Closed by the thread: a cancelled caller must not close it, and let its number go to another namespace, first.
        try:
            if _LIBC.setns(descriptor, CLONE_NEWNET) != 0:
                raise NamespaceGoneError(path, os.strerror(ctypes.get_errno()))
        finally:
            os.close(descriptor)

    return await _in_thread(enter, work)


async def within_new(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a new network namespace that ends with whatever ``work`` returns. Raises PermissionError."""

    def enter() -> None:
        if _LIBC.unshare(CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise PermissionError(code, os.strerror(code))

    return await _in_thread(enter, work)


async def _in_thread(enter: Callable[[], None], work: Callable[[], Result]) -> Result:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if done.cancelled():
            if isinstance(result, socket.socket):
                result.close()
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            enter()
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            loop.call_soon_threadsafe(settle, None, error)
        else:
            loop.call_soon_threadsafe(settle, result, None)

    threading.Thread(target=run, name="namespace", daemon=True).start()
    return await done


def write_sysctl(path: str, value: str, *, optional: bool = False) -> None:
    """Write a value below /proc/sys of the calling thread's namespace, unless it is there already. Raises OSError."""
    file = Path("/proc/sys") / path
    try:
        if file.read_text().strip() != value:
            file.write_text(value)
    except FileNotFoundError:
        if not optional:
            raise


def remount_writable(path: str) -> bool:
    """Take a mount's read-only flag back, in this process's mount namespace only; whether the kernel agreed."""
    flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC
    return bool(_LIBC.mount(None, path.encode(), None, ctypes.c_ulong(flags), None) == 0)
