"""Two nodes and their guests, each in a network namespace of its own, without any way to the machine's network."""

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from node_agent.datapath import namespaces, plan
from node_agent.datapath.model import Attachment
from tests.net.datapath import frames
from tests.net.datapath.backend import ROUTING, SOON
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
BLOCK = "fd5f::/32"
GATEWAY4, GATEWAY6 = "10.128.0.1", "fd20:0:1::1"
Vpc = tuple[int, int]


class CallError(Exception):
    """The data path raised: ``kind`` is the name of its error."""

    def __init__(self, kind: str, text: str) -> None:
        self.kind = kind
        super().__init__(f"{kind}: {text}")


def run(*command: str) -> str:
    """Run a command; its output, or its complaint as an error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass
class Namespace:
    """A network namespace of the test's own."""

    name: str

    @property
    def path(self) -> str:
        return f"/run/netns/{self.name}"

    def ip(self, *arguments: str) -> str:
        return run("ip", "-n", self.name, *arguments)

    def exec(self, *command: str) -> str:
        return run("ip", "netns", "exec", self.name, *command)

    async def socket(self, make: Callable[[], socket.socket]) -> socket.socket:
        """A socket of this namespace, for the test's own process."""
        return await namespaces.within(self.path, make)


class Sniffer:
    """Every frame that comes in on a device (not those that go out)."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self.frames: list[bytes] = []

    def read(self) -> list[bytes]:
        """All frames so far."""
        while True:
            try:
                frame, origin = self._socket.recvfrom(65535)
            except BlockingIOError:
                return self.frames
            if origin[2] != socket.PACKET_OUTGOING:
                self.frames.append(frame)

    def saw(self, token: bytes) -> bool:
        return any(token in frame for frame in self.read())

    async def until(self, token: bytes, timeout: float = 20.0) -> None:
        await until(lambda: self.saw(token), timeout=timeout, interval=0.005, what=f"frame with {token!r}")

    def send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def close(self) -> None:
        self._socket.close()


@dataclass
class Guest:
    """A guest: its namespace and what the data path was told about it."""

    namespace: Namespace
    node: "Node"
    attachment: dict[str, Any]
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def vpc(self) -> Vpc:
        return self.attachment["vpc"], self.attachment["index"]

    @property
    def host_device(self) -> str:
        return Attachment.from_json(self.attachment).device

    @property
    def ipv6(self) -> str:
        return str(self.attachment["addresses"][0]["address"]).split("/")[0]

    @property
    def ipv4(self) -> str:
        return str(self.attachment["addresses"][1]["address"]).split("/")[0]

    @property
    def blocks(self) -> list[str]:
        guest = Attachment.from_json(self.attachment)
        return [str(each.block) for each in guest.addresses]

    def address(self, family: int) -> str:
        return self.ipv4 if family == 4 else self.ipv6

    async def sniffer(self) -> Sniffer:
        return Sniffer(await self.namespace.socket(lambda: frames.packet_socket("eth0")))

    async def udp(self, family: int, port: int = 4001) -> socket.socket:
        return await self.namespace.socket(lambda: frames.udp_socket(self.address(family), port))


class Node:
    """A node: its namespace, and the driver program in it."""

    def __init__(self, namespace: Namespace, locator: str, underlay: str, process: asyncio.subprocess.Process) -> None:
        self.namespace = namespace
        self.locator = locator
        self.underlay = underlay
        self.mtu = 0
        self._process = process
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {0: asyncio.get_running_loop().create_future()}
        self._reading = asyncio.create_task(self._read())

    async def ready(self) -> None:
        self.mtu = await self._waiting[0]

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            answer = json.loads(line)
            waiting = self._waiting[answer["id"]]
            if "error" in answer:
                waiting.set_exception(CallError(answer["error"], answer["text"]))
            else:
                waiting.set_result(answer["result"])
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(CallError("Ended", f"the driver of {self.namespace.name} ended"))

    async def call(self, op: str, **arguments: Any) -> Any:
        """One call of the node's data path."""
        assert self._process.stdin is not None
        self._number += 1
        number = self._number
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps({"id": number, "op": op, **arguments}).encode() + b"\n")
        try:
            return await asyncio.wait_for(self._waiting[number], 6 * SOON)
        finally:
            del self._waiting[number]

    async def sids(self, vpc: Vpc) -> dict[int, str]:
        """The SIDs of a VPC on this node by family (with VRF one for both)."""
        found = dict(await self.call("ensure_vpc", vpc=vpc))
        return {4: found[0], 6: found[0]} if 0 in found else found

    async def uplink(self) -> Sniffer:
        return Sniffer(await self.namespace.socket(lambda: frames.packet_socket("up0")))

    async def close(self) -> None:
        """End the driver: its standard input ends, so does it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), SOON)
        await self._reading

    async def restart(self) -> None:
        """Kill the driver and start another one, as an agent that crashed and came back."""
        self._process.kill()
        await self._process.wait()
        await self._reading
        self._process = await _driver(self.namespace, self.locator, self.underlay)
        self._waiting = {0: asyncio.get_running_loop().create_future()}
        self._reading = asyncio.create_task(self._read())
        await self.ready()

    def traces(self, *words: str) -> list[str]:
        """Every line of the kernel's state that names one of the words."""
        namespace = self.namespace
        state = [
            namespace.ip("-4", "rule"),
            namespace.ip("-6", "rule"),
            namespace.ip("-4", "route", "show", "table", "all"),
            namespace.ip("-6", "route", "show", "table", "all"),
            namespace.ip("neigh"),
            namespace.ip("-6", "neigh", "show", "proxy"),
            namespace.ip("-o", "link"),
            namespace.ip("-o", "addr"),
            namespace.exec("nft", "list", "ruleset"),
        ]
        return [line for lines in state for line in lines.splitlines() if any(word in line for word in words)]


async def _driver(namespace: Namespace, locator: str, underlay: str) -> asyncio.subprocess.Process:
    config = {
        "node": namespace.name,
        "uplink": "up0",
        "underlay": underlay,
        "locator": f"{locator}::/64",
        "block": BLOCK,
        "routing": ROUTING.value,
    }
    return await asyncio.create_subprocess_exec(
        "ip",
        "netns",
        "exec",
        namespace.name,
        sys.executable,
        "-m",
        "tests.net.datapath.driver",
        json.dumps(config),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        limit=1 << 22,
    )


class Lab:
    """Makes and removes namespaces, nodes and guests."""

    def __init__(self) -> None:
        self._prefix = f"nc{secrets.token_hex(3)}"
        self._namespaces: list[Namespace] = []
        self.nodes: dict[str, Node] = {}

    def namespace(self, name: str) -> Namespace:
        """A new namespace with its loopback up."""
        made = Namespace(f"{self._prefix}-{name}")
        run("ip", "netns", "add", made.name)
        self._namespaces.append(made)
        made.ip("link", "set", "lo", "up")
        return made

    async def two_nodes(self) -> None:
        """Nodes A and B on one link (MTU 1500), set up and known to each other."""
        ends = {name: self.namespace(name) for name in ("A", "B")}
        ends["A"].ip(
            "link", "add", "up0", "mtu", "1500", "type", "veth", "peer", "name", "up0", "netns", ends["B"].name
        )
        for number, (name, namespace) in enumerate(ends.items(), start=1):
            # An underlay that is long up: its link-local address does not wait for duplicate address detection.
            await namespaces.within(
                namespace.path, lambda: namespaces.write_sysctl("net/ipv6/conf/up0/accept_dad", "0")
            )
            namespace.ip("link", "set", "up0", "up")
            namespace.ip("addr", "add", f"fd00:aa::{number}/64", "dev", "up0", "nodad")
            namespace.ip("addr", "add", f"192.0.2.{number}/24", "dev", "up0")
            locator, underlay = f"fd5f:0:0:{number:x}", f"fd00:aa::{number}"
            self.nodes[name] = Node(namespace, locator, underlay, await _driver(namespace, locator, underlay))
        for node in self.nodes.values():
            await node.ready()
            await node.call("setup_node")
        for node, other in (("A", "B"), ("B", "A")):
            far = self.nodes[other]
            await self.nodes[node].call("set_nodes", nodes=[[f"{far.locator}::/64", far.underlay]])

    def guest(self, node: str, vpc: Vpc, identifier: int, number: int, *, mtu: int = 1460, name: str = "") -> Guest:
        """A guest that is not attached yet: 10.128.0.<number> and the /96 of that number."""
        namespace = self.namespace(name or f"g{vpc[1]}-{identifier}-{number}")
        attachment = {
            "vpc": vpc[0],
            "index": vpc[1],
            "attachment": identifier,
            "mode": "Netns",
            "mtu": mtu,
            "guestInterface": "eth0",
            "guestMAC": plan.guest_mac(vpc[0], identifier),
            "addresses": [
                {"address": f"fd20:0:1:0:0:{number:x}:0:1/96", "gateway": GATEWAY6},
                {"address": f"10.128.0.{number}/32", "gateway": GATEWAY4},
            ],
            "owner": secrets.token_hex(8),
        }
        return Guest(namespace, self.nodes[node], attachment)

    async def attach(self, guest: Guest) -> Guest:
        """All of an ADD: VPC, device, up."""
        await guest.node.call("ensure_vpc", vpc=guest.vpc)
        guest.record = await guest.node.call("prepare", attachment=guest.attachment, netns=guest.namespace.path)
        await guest.node.call("bring_up", record=guest.record)
        return guest

    async def announce(self, *guests: Guest) -> None:
        """Tell every node of the guests on the other one, as their advertisements would."""
        for node in self.nodes.values():
            for vpc in {guest.vpc for guest in guests}:
                remotes: list[list[str]] = []
                for guest in guests:
                    if guest.node is not node and guest.vpc == vpc:
                        sids = await guest.node.sids(vpc)
                        remotes += [[block, sids[4 if "." in block else 6]] for block in guest.blocks]
                await node.call("ensure_vpc", vpc=vpc)
                await node.call("set_remotes", vpc=vpc, remotes=remotes)

    async def close(self) -> None:
        """Leave nothing."""
        for node in self.nodes.values():
            await node.close()
        for namespace in self._namespaces:
            run("ip", "netns", "del", namespace.name)


@asynccontextmanager
async def lab() -> AsyncIterator[Lab]:
    """A lab that is gone afterwards."""
    made = Lab()
    try:
        yield made
    finally:
        await made.close()
