"""The data path of one node as a program of the tests: one JSON request a line, one JSON answer a line.

It runs inside the node's namespace, as the agent does. It ends when its standard input does.
"""

import asyncio
import json
import os
import random
import sys
import threading
from dataclasses import asdict
from ipaddress import IPv6Address, IPv6Network, ip_network
from typing import Any

from node_agent.datapath.datapath import Datapath
from node_agent.datapath.model import Attachment, NodeConfig, Record, RemoteNode, RemotePrefix, Routing, Stray, Vpc

Answer = Any


class Driver:
    """Turns requests into calls of a Datapath."""

    def __init__(self, datapath: Datapath) -> None:
        self._datapath = datapath

    async def call(self, request: dict[str, Any]) -> Answer:
        """One request: the method of this class by the name in ``op``."""
        operation = getattr(self, request.pop("op"))
        return await operation(**request)

    async def setup_node(self) -> Answer:
        await self._datapath.setup_node()

    async def ensure_vpc(self, vpc: list[int]) -> Answer:
        await self._datapath.ensure_vpc(Vpc(*vpc))
        return [[sid.family, str(sid.address)] for sid in self._datapath.sids(Vpc(*vpc))]

    async def prepare(self, attachment: dict[str, Any], netns: str | None) -> Answer:
        record = await self._datapath.prepare(Attachment.from_json(attachment), netns)
        return record.as_json()

    async def bring_up(self, record: dict[str, Any]) -> Answer:
        await self._datapath.bring_up(Record.from_json(record))

    async def adopt(self, record: dict[str, Any]) -> Answer:
        await self._datapath.adopt(Record.from_json(record))

    async def detach(self, record: dict[str, Any]) -> Answer:
        return await self._datapath.detach(Record.from_json(record))

    async def release_vpc(self, vpc: list[int]) -> Answer:
        return await self._datapath.release_vpc(Vpc(*vpc))

    async def set_nodes(self, nodes: list[list[str]]) -> Answer:
        chosen = [RemoteNode(IPv6Network(locator), IPv6Address(underlay)) for locator, underlay in nodes]
        return asdict(await self._datapath.set_nodes(chosen))

    async def set_remotes(self, vpc: list[int], remotes: list[list[str]], *, verify: bool = False) -> Answer:
        chosen = [RemotePrefix(ip_network(prefix), IPv6Address(sid)) for prefix, sid in remotes]
        return asdict(await self._datapath.set_remotes(Vpc(*vpc), chosen, verify=verify))

    async def check(self, record: dict[str, Any]) -> Answer:
        return [str(each) for each in await self._datapath.check(Record.from_json(record))]

    async def check_node(self) -> Answer:
        return [str(each) for each in await self._datapath.check_node()]

    async def strays(self, records: list[dict[str, Any]]) -> Answer:
        found = await self._datapath.strays([Record.from_json(each) for each in records])
        return sorted([each.kind, each.name] for each in found)

    async def remove(self, strays: list[list[str]]) -> Answer:
        await self._datapath.remove([Stray(*each) for each in strays])

    async def follow_links(self) -> Answer:
        self._following = asyncio.create_task(self._datapath.follow_links())

    async def clear_node(self) -> Answer:
        await self._datapath.clear_node()

    async def inventory(self) -> Answer:
        found = await self._datapath.inventory()
        return {"devices": {each.name: each.alias for each in found.devices}, "rules": len(found.rules)}

    async def heal(self, device: str) -> Answer:
        await self._datapath.heal(device)

    async def drops(self) -> Answer:
        return await self._datapath.drops()

    async def usage(self) -> Answer:
        """What this process holds: open descriptors and threads."""
        return {"descriptors": len(os.listdir("/proc/self/fd")), "threads": threading.active_count()}  # noqa: PTH208

    async def churn(self, attachment: dict[str, Any], netns: str, rounds: int) -> Answer:
        """Attach and detach, many times."""
        for _ in range(rounds):
            record = await self._datapath.prepare(Attachment.from_json(attachment), netns)
            await self._datapath.bring_up(record)
            await self._datapath.detach(record)

    async def cancel_storm(self, attachment: dict[str, Any], netns: str, rounds: int) -> Answer:
        """Attach and cancel at a random moment, then detach; how many attaches were cut short."""
        cut = 0
        for _ in range(rounds):
            chosen = Attachment.from_json(attachment)
            task = asyncio.create_task(self._attach(chosen, netns))
            await asyncio.wait({task}, timeout=random.uniform(0, 0.02))
            cut += not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._datapath.detach(Record(attachment=chosen, netns=netns))
        return cut

    async def _attach(self, attachment: Attachment, netns: str) -> None:
        await self._datapath.bring_up(await self._datapath.prepare(attachment, netns))


async def main() -> None:
    """Serve requests, several at a time: each line carries an ``id`` that its answer repeats."""
    config = json.loads(sys.argv[1])
    datapath = await Datapath.open(
        NodeConfig(
            node_name=config["node"],
            uplink=config["uplink"],
            underlay=IPv6Address(config["underlay"]),
            locator=IPv6Network(config["locator"]),
            locator_block=IPv6Network(config["block"]),
            routing=Routing(config["routing"]),
        )
    )
    driver = Driver(datapath)
    reader = asyncio.StreamReader(limit=1 << 22)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(request: dict[str, Any]) -> None:
        number = request.pop("id")
        try:
            answer = {"id": number, "result": await driver.call(request)}
        except Exception as error:  # noqa: BLE001 - it is the test that judges it
            answer = {"id": number, "error": type(error).__name__, "text": str(error)}
        print(json.dumps(answer), flush=True)

    print(json.dumps({"id": 0, "result": datapath.config.mtu}), flush=True)
    while line := await reader.readline():
        task = asyncio.create_task(serve(json.loads(line)))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await datapath.close()


if __name__ == "__main__":
    asyncio.run(main())
