"""The page of reasons: every constant that code puts into a condition, an event, a refusal or an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from dev.reference.markdown import code, page, table
from dev.reference.modules import Constant, constants, modules
from netclaim.api.networking import ALLOCATED, BOUND, PREPARED, PROGRAMMED

PARTS: Final[Mapping[str, str]] = {
    "nso.compute": "compute: Workload and Instance",
    "nso.claims": "claims: NetworkInterfaceClaim and NetworkInterface",
    "nso.networks": "networks: Network, NetworkContext, Subnet, NetworkBinding, SubnetClaim",
    "nso.ipam": "ipam: IPClass, IPPool, IPClaim",
    "netclaim.api.ipam": "ipam: IPClass, IPPool, IPClaim",
    "vpc_controller": "VPC controller: Prepared, Programmed, VPC, VPCAttachment",
    "webhook": "webhook: refusals of a Pod",
    "node_agent": "node agent: answers to CNI calls, and events",
}
"""Where reasons are defined, by the beginning of the module's name, and whose they are."""

CHECKS: Final = ("nso.ipam.invariants", "netclaimctl.cells")
"""Modules whose names are findings of `netclaimctl ipam check`."""

_WORD = re.compile(r"^(?:[A-Z][A-Za-z0-9]*|Not\{first\})$")
_FIRST = (BOUND, ALLOCATED, PREPARED, PROGRAMMED)


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, whose it is, and its message where that is one text."""

    name: str
    part: str
    message: str


def pages() -> dict[str, str]:
    """File name -> text."""
    intro = (
        "What each reason means and what cures it: [troubleshooting](../troubleshooting.md). Words in braces are filled"
        " in; where no message is shown it is made for the case."
    )
    sections = []
    for part in dict.fromkeys(PARTS.values()):
        rows = sorted((each.name, each.message) for each in reasons() if each.part == part)
        sections.append(
            f"## {part}\n\n" + table(("reason", "message"), ((code(name), message) for name, message in rows))
        )
    return {"reasons.md": page("Reasons", intro, sections)}


@cache
def reasons() -> tuple[Reason, ...]:
    """Every reason once for each part that gives it, with every message that it has there."""
    found: dict[tuple[str, str], list[str]] = {}
    for module in modules():
        for constant in constants(module):
            for name, message in _read(constant):
                messages = found.setdefault((_part(constant), name), [])
                if message and message not in messages:
                    messages.append(message)
    return tuple(Reason(name, part, " / ".join(messages)) for (part, name), messages in found.items())


def findings() -> set[str]:
    """Names of what `netclaimctl ipam check` finds."""
    return {
        constant.value
        for module in modules()
        if module.__name__ in CHECKS
        for constant in constants(module)
        if isinstance(constant.value, str) and _WORD.match(constant.value)
    }


def _read(constant: Constant) -> Iterator[tuple[str, str]]:
    """The reasons that a constant is, with their messages."""
    value, home = constant.value, constant.module.rsplit(".", 1)[-1]
    if type(value).__name__ == "Reason":
        name = getattr(value, "name", "") or getattr(value, "word", "")
        message = getattr(value, "template", "") or getattr(value, "text", "")
        if "{first}" in name:
            yield from ((name.format(first=first), message) for first in _FIRST)
        else:
            yield name, message
        return
    is_named_so = home in {"reasons", "refusals"} or "REASON" in constant.name or constant.name.endswith("_EVENT")
    if is_named_so and isinstance(value, str) and _WORD.match(value):
        yield value, _webhook_message(value) if constant.module.startswith("webhook") else ""


def _webhook_message(reason: str) -> str:
    from webhook.refusals import MESSAGES

    return MESSAGES[reason]


def _part(constant: Constant) -> str:
    return next(part for module, part in PARTS.items() if constant.module.startswith(module))
