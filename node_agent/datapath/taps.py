"""Persistent taps: made by an ioctl of /dev/net/tun, everything else about them is netlink's."""

from __future__ import annotations

import fcntl
import os
import struct

_TUN = "/dev/net/tun"
_SET_INTERFACE = 0x400454CA
_SET_PERSIST = 0x400454CB
_TAP, _NO_PACKET_INFO, _EXCLUSIVE = 0x0002, 0x1000, 0x8000


def create(name: str) -> int:
    """Make a tap that is down. It ends with the descriptor (to be closed by the caller) unless ``keep`` is called.

    So a tap that has no mark of ours yet never outlives who makes it. Raises FileExistsError when a device of that name
    is there, else OSError.
    """
    descriptor = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
    request = struct.pack("16sH22x", name.encode(), _TAP | _NO_PACKET_INFO | _EXCLUSIVE)
    try:
        fcntl.ioctl(descriptor, _SET_INTERFACE, request)
    except OSError as error:
        os.close(descriptor)
        # IFF_TUN_EXCL says EBUSY for a tap of that name, and EINVAL for a device of another kind.
        raise FileExistsError(error.errno, f"a device {name} is there already") from error
    return descriptor


def keep(descriptor: int) -> None:
    """Make the tap persistent. Raises OSError."""
    fcntl.ioctl(descriptor, _SET_PERSIST, 1)
