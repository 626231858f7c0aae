"""nftables, through libnftables in this process: no process is started per call.

libnftables is not safe for several threads and may wait for the kernel, so it lives in one thread of its own. A
transaction is all or nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from typing import Any, Literal

from node_agent.datapath.errors import FirewallError
from node_agent.datapath.model import Prefix
from node_agent.datapath.names import TABLE
from node_agent.datapath.objects import Element

_SETS: tuple[tuple[Literal["inet", "arp"], Literal["src4", "src6", "marks"]], ...] = (
    ("inet", "src4"),
    ("inet", "src6"),
    ("inet", "marks"),
    ("arp", "src4"),
)


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
        await self._run(f"to add {', '.join(map(str, wanted))}", [_command("add", each) for each in wanted])

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
                kind = "map" if name == "marks" else "set"
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

    async def present(self) -> bool:
        """Whether both of our tables are there."""
        answer = await self._run("to list the tables", [{"list": {"tables": {}}}])
        tables = {item["table"]["family"] for item in answer if item.get("table", {}).get("name") == TABLE}
        return tables >= {"inet", "arp"}

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
    key: Any = element.device
    if element.source is not None:
        key = {"concat": [element.device, _prefix(element.source)]}
    item = key if element.value is None else [key, element.value]
    return {verb: {"element": {"family": element.family, "table": TABLE, "name": element.set, "elem": [item]}}}


def _prefix(prefix: Prefix) -> Any:
    if prefix.num_addresses == 1:
        return str(prefix.network_address)
    return {"prefix": {"addr": str(prefix.network_address), "len": prefix.prefixlen}}


def _element(family: Literal["inet", "arp"], name: Literal["src4", "src6", "marks"], item: Any) -> Element:
    if isinstance(item, list):
        return Element(family, name, item[0], value=item[1])
    device, source = item["concat"]
    if isinstance(source, dict):
        source = f"{source['prefix']['addr']}/{source['prefix']['len']}"
    return Element(family, name, device, ip_network(source))
