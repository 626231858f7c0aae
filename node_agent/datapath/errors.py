"""Errors of the data path. Each carries what it was about, so that a caller can decide and a user can act."""

from __future__ import annotations

import errno
import os


class DatapathError(Exception):
    """Anything that the data path could not do. ``retry``: whether the same call may succeed later as it is."""

    retry = True


class KernelRefusedError(DatapathError):
    """The kernel refused one step. ``step``: printable; ``code``: the errno; ``said``: the kernel's own words."""

    def __init__(self, step: object, code: int, said: str = "") -> None:
        self.step = step
        self.code = code
        self.said = said
        name = errno.errorcode.get(code, str(code))
        super().__init__(f"the kernel refused {step}: {said or os.strerror(code)} ({name})")


class KernelSilentError(DatapathError):
    """The kernel did not answer in time, or its answers were lost: what was asked for may or may not be done."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the kernel did not answer a netlink request: {why}")


class DeviceTakenError(DatapathError):
    """A device of that name is there and is not ours to touch. ``owner``: its alias (empty when it has none)."""

    retry = False

    def __init__(self, device: str, owner: str, why: str) -> None:
        self.device = device
        self.owner = owner
        super().__init__(f"the device {device} is taken: {why}")


class NamespaceGoneError(DatapathError):
    """The guest's network namespace is not there (any more), or the path names something else."""

    retry = False

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"the network namespace {path} cannot be entered: {why}")


class FirewallError(DatapathError):
    """nftables refused a transaction; nothing of it is installed."""

    def __init__(self, what: object, said: str) -> None:
        self.what = what
        self.said = said
        super().__init__(f"nftables refused {what}: {said}")


class LinkMissingError(DatapathError):
    """A device that a step names is not there."""

    def __init__(self, device: str, step: object) -> None:
        self.device = device
        self.step = step
        super().__init__(f"the device {device} is not there ({step})")
