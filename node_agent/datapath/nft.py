"""nftables, through libnftables in this process: no process is started per call.

libnftables is not safe for several threads and may wait for the kernel, so it lives in one thread of its own. A
transaction is all or nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from node_agent.datapath.errors import FirewallError
from node_agent.datapath.model import Address, Prefix
from node_agent.datapath.names import TABLE
from node_agent.datapath.objects import LENGTHS, Element, Nftables, SetName, map_of

_SETS: tuple[tuple[Nftables, SetName], ...] = (
    ("inet", "own4"),
    ("inet", "own6"),
    ("inet", "range4"),
    ("inet", "range6"),
    ("arp", "src4"),
)
_LAYOUT = frozenset({("inet", "guest4"), ("arp", "input")})
"""Chains by which our tables are known: the layout before this one had no ``guest4``."""


class Firewall:
    """Our tables in the network namespace that this process runs in."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="nftables")
        self._library: Any = None

    def close(self) -> None:
        """Let the thread end. The tables stay."""
        self._thread.shutdown(wait=False)

    async def load(self, ruleset: str) -> None:
        """Run a ruleset in one transaction. Raises FirewallError."""
        await self._run("the static tables", ruleset)

    async def add(self, elements: Iterable[Element]) -> None:
        """Add elements in one transaction; one that is there already is success. Raises FirewallError."""
        wanted = tuple(elements)
        what, adding = f"to add {', '.join(map(str, wanted))}", [_command("add", each) for each in wanted]
        try:
            await self._run(what, adding)
        except FirewallError:
            # One that is there with another mark refuses the whole transaction: it goes in the same as the new one.
            if not await self.present():
                raise
            keys = {(each.set, each.device, each.source) for each in wanted}
            present = await self.elements({(each.family, each.set) for each in wanted})
            others = [each for each in present if (each.set, each.device, each.source) in keys]
            await self._run(what, [_command("delete", each) for each in others] + adding)

    async def remove(self, elements: Iterable[Element]) -> None:
        """Remove elements in one transaction; those that are gone already are success. Raises FirewallError."""
        unwanted = tuple(elements)
        what = f"to remove {', '.join(map(str, unwanted))}"
        try:
            await self._run(what, [_command("delete", each) for each in unwanted])
        except FirewallError:
            # One that is missing refuses the whole transaction: once more, with those that are really there.
            if not await self.present():
                return
            present = await self.elements({(each.family, each.set) for each in unwanted})
            left = [_command("delete", each) for each in unwanted if each in present]
            if left:
                await self._run(what, left)

    async def elements(self, sets: Iterable[tuple[str, str]] = _SETS) -> frozenset[Element]:
        """Every element of these sets. Raises FirewallError when the tables are not there."""
        chosen = set(sets)
        found: set[Element] = set()
        for family, name in _SETS:
            if (family, name) in chosen:
                kind = "map" if family == "inet" else "set"
                query = {"list": {kind: {"family": family, "table": TABLE, "name": name}}}
                answer = await self._run(f"to list {family} {name}", [query])
                for item in answer:
                    for element in item.get(kind, {}).get("elem", ()):
                        found.add(_element(family, name, element))
        return frozenset(found)

    async def counters(self) -> dict[str, int]:
        """Packets counted by each of our named counters."""
        packets: dict[str, int] = {}
        for family in ("inet", "arp"):
            query = {"list": {"counters": {"family": family, "table": TABLE}}}
            for item in await self._run(f"to list the counters of {family}", [query]):
                if "counter" in item and item["counter"]["table"] == TABLE:
                    packets[item["counter"]["name"]] = item["counter"]["packets"]
        return packets

    async def former(self) -> frozenset[Element]:
        """What a table of the layout before this one opened, as elements of this layout; none where there is none."""
        if ("inet", TABLE) not in await self._tables():
            return frozenset()
        query = {"list": {"table": {"family": "inet", "name": TABLE}}}
        found: dict[str, list[Any]] = {}
        for item in await self._run("to list the table inet", [query]):
            for kind in ("set", "map"):
                if kind in item:
                    found[item[kind]["name"]] = item[kind].get("elem", [])
        marks = dict(found.get("marks", ()))
        sources = [each["concat"] for name in ("src4", "src6") for each in found.get(name, ())]
        blocks = [(device, ip_network(_text(source))) for device, source in sources]
        # Without VRF every guest had a mark: one that has lost it is opened by who knows which.
        return frozenset(
            Element("inet", map_of(block), device, block, marks.get(device, 0))
            for device, block in blocks
            if device in marks or not marks
        )

    async def present(self) -> bool:
        """Whether both of our tables are there, in the layout of this version."""
        found: set[tuple[str, str]] = set()
        for family, _ in _LAYOUT:
            answer = await self._run(f"to list the chains of {family}", [{"list": {"chains": {"family": family}}}])
            chains = [item["chain"] for item in answer if "chain" in item]
            found |= {(family, each["name"]) for each in chains if each["table"] == TABLE}
        return found >= _LAYOUT

    async def _tables(self) -> set[tuple[str, str]]:
        answer = await self._run("to list the tables", [{"list": {"tables": {}}}])
        return {(item["table"]["family"], item["table"]["name"]) for item in answer if "table" in item}

    async def _run(self, what: str, commands: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self._thread, self._run_blocking, what, commands))

    def _run_blocking(self, what: str, commands: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._library is None:
            try:
                self._library = _load_library()
            except OSError as error:
                raise FirewallError(what, f"libnftables.so.1 cannot be loaded: {error}") from error
        if isinstance(commands, str):
            code, output, said = self._library.cmd(commands)
        else:
            code, output, said = self._library.cmd(json.dumps({"nftables": commands}))
        if code != 0:
            raise FirewallError(what, " ".join(said.split()))
        return json.loads(output)["nftables"] if output else []


def _load_library() -> Any:
    import nftables

    library = nftables.Nftables()
    library.set_json_output(True)
    return library


def try_ruleset(ruleset: str) -> str | None:
    """Load a ruleset in the calling thread's namespace; None, or what is wrong with it. Raises OSError: no library."""
    code, _, said = _load_library().cmd(ruleset)
    return None if code == 0 else " ".join(said.split()) or f"code {code}"


def _command(verb: str, element: Element) -> dict[str, Any]:
    item: Any = {"concat": [_part(each) for each in element.key]}
    if element.value is not None:
        item = [item, element.value]
    return {verb: {"element": {"family": element.family, "table": TABLE, "name": element.set, "elem": [item]}}}


def _part(part: str | Address | Prefix) -> Any:
    if isinstance(part, IPv4Network | IPv6Network):
        return {"prefix": {"addr": str(part.network_address), "len": part.prefixlen}}
    return str(part)


def _element(family: Nftables, name: SetName, item: Any) -> Element:
    item, value = item if isinstance(item, list) else (item, None)
    source, device = item["concat"] if family == "inet" else reversed(item["concat"])
    length = f"/{LENGTHS[name]}" if name in LENGTHS else ""
    return Element(family, name, device, ip_network(_text(source) + length), value)


def _text(source: Any) -> str:
    """A source as libnftables writes it: an address, or a prefix."""
    return f"{source['prefix']['addr']}/{source['prefix']['len']}" if isinstance(source, dict) else source
