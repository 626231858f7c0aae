"""Can this process do its work here? Everything that is missing is said at once, each with what to do."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Final

from node_agent.datapath.features import choose_routing, kernel_features
from node_agent.datapath.model import NodeConfig
from node_agent.settings import Settings

_ADDRESSES: Final = Path("/proc/net/if_inet6")
_GLOBAL_SCOPE: Final = "00"
_TENTATIVE: Final = 0x40


class StartupError(Exception):
    """The agent cannot work here. ``problems``: one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


async def find_node(settings: Settings) -> NodeConfig:
    """This node, found out from flags and kernel. Raises StartupError with everything that is missing."""
    features = await kernel_features()
    problems = [*features.missing, *_state_problems(settings.state_dir)]
    underlay = settings.next_hop or underlay_address(settings.underlay_interface, settings.locator_block)
    if underlay is None:
        problems.append(
            f"--underlay-interface {settings.underlay_interface}: the device is not there or has no IPv6 address"
            " beyond link-local; give it one, or name the node's address with --next-hop"
        )
    if problems or underlay is None:
        raise StartupError(problems)
    try:
        routing = choose_routing(settings.routing, features)
        return NodeConfig(
            node_name=settings.node_name,
            uplink=settings.underlay_interface,
            underlay=underlay,
            locator=settings.locator,
            locator_block=settings.locator_block,
            routing=routing,
        )
    except ValueError as error:
        raise StartupError([str(error)]) from error


def underlay_address(interface: str, block: IPv6Network) -> IPv6Address | None:
    """The first settled IPv6 address of the device that is neither link-local nor in the locators' block."""
    for line in _ADDRESSES.read_text().splitlines():
        digits, _, _, scope, flags, device = line.split()
        address = IPv6Address(int(digits, 16))
        if device == interface and scope == _GLOBAL_SCOPE and not int(flags, 16) & _TENTATIVE and address not in block:
            return address
    return None


@contextmanager
def state_lock(folder: Path) -> Iterator[None]:
    """Keep a second agent off the state folder. Raises StartupError when one has it."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StartupError([f"another node agent uses --state-dir {folder}: stop it first"]) from error
        yield


def _state_problems(folder: Path) -> list[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "pending").mkdir(exist_ok=True, mode=0o700)
    except OSError as error:
        return [f"--state-dir {folder} cannot be made: {error.strerror}"]
    return [] if os.access(folder, os.W_OK | os.X_OK) else [f"--state-dir {folder} cannot be written"]
