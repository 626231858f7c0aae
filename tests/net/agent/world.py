"""Nodes in network namespaces of their own, each with a real agent process, against a real API server.

A node reaches the API server through a listening socket that lives in its namespace and is served by the test: no link,
route or rule of the machine's own namespace is touched, and the API server can be taken away for a while.
"""

import asyncio
import contextlib
import json
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netclaim import identity
from netclaim.api import managers, resources
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError, NotFound
from tests.net.agent.checker import Checker
from tests.net.agent.plumbing import Door, Guest, Outcome, run
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Node:
    """A node: its namespace, and the agent that runs there."""

    name: str
    namespace: str
    locator: str
    underlay: str
    folder: Path
    door: Door
    world: "World"
    process: asyncio.subprocess.Process | None = None
    flags: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    """Whom the agent is to the API server; None: the administrator."""

    @property
    def socket(self) -> Path:
        return self.folder / "agent.sock"

    @property
    def _orders(self) -> Path:
        return self.folder / "die-at"

    @property
    def spool(self) -> Path:
        return self.folder / "state" / "pending"

    @property
    def log(self) -> str:
        path = self.folder / "agent.log"
        return path.read_text() if path.exists() else ""

    async def ip(self, *arguments: str) -> str:
        return (await run("ip", "-n", self.namespace, *arguments)).out

    async def start(self, *, mortal: bool = False) -> None:
        """Start the agent and wait until it listens. ``mortal``: it heeds ``die_at``."""
        await self.launch(mortal=mortal)
        await self.listens()

    async def launch(self, *, mortal: bool = False) -> None:
        """Start the agent."""
        dying = (str(ROOT / "tests/net/agent/dying_agent.py"), str(self._orders))
        program = dying if mortal else ("-m", "node_agent")
        kubeconfig = self.kubeconfig or self.world.kubeconfig
        with (self.folder / "agent.log").open("a") as log:
            self.process = await asyncio.create_subprocess_exec(
                "ip", "netns", "exec", self.namespace, sys.executable, *program,
                "--node-name", self.name, "--srv6-locator", self.locator, "--underlay-interface", "up0",
                "--kubeconfig", str(kubeconfig), "--state-dir", str(self.folder / "state"),
                "--socket", str(self.socket), "--system-namespace", self.world.system,
                *self.flags,
                stdout=log, stderr=log, cwd=ROOT,
            )  # fmt: skip

    def pause(self) -> None:
        """Stop the agent's process without ending it: it hangs."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    async def listens(self) -> None:
        """Wait until the agent listens."""
        process = self.process
        assert process is not None

        def listens() -> bool:
            if process.returncode is not None:
                raise RuntimeError(f"the agent ended with {process.returncode}:\n{self.log[-3000:]}")
            return self.socket.exists()

        await until(listens, timeout=60, what=f"the agent of {self.name} listens")

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """End the agent; its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        async with asyncio.timeout(30):
            code = await process.wait()
        if number == signal.SIGKILL:
            assert self.socket.exists()
            self.socket.unlink()
        return code

    async def lose_journal(self, fate: str) -> None:
        """Kill the agent and take its journal away, or (``damaged``) leave something else in its place."""
        await self.stop(9)
        state = self.folder / "state"
        for file in state.glob("journal.db*"):
            file.unlink()
        if fate == "damaged":
            (state / "journal.db").write_bytes(b"no database")

    async def lacks_device(self, name: str) -> bool:
        """Whether no device of the node has this name."""
        return name not in await self.ip("-o", "link")

    def die_at(self, step: str) -> None:
        """From now on a mortal agent kills itself at this step, in this life."""
        self._orders.write_text(step)

    async def spared(self) -> bool:
        """Take the order to die back; whether the agent lives on. One that has read the order is dead in no time."""
        assert self.process is not None
        self._orders.unlink()
        _, running = await asyncio.wait({asyncio.ensure_future(self.process.wait())}, timeout=3)
        return bool(running)

    async def died(self) -> None:
        """Wait until the agent has killed itself."""
        assert self.process is not None
        async with asyncio.timeout(30):
            assert await self.process.wait() == -signal.SIGKILL
        self.process = None
        self._orders.unlink(missing_ok=True)
        self.socket.unlink()

    def call_of(self, verb: str, guest: Guest, **changes: Any) -> tuple[dict[str, str], str]:
        """Environment and standard input of one execution of netclaim-cni; ``changes`` as of ``cni``."""
        env = {
            "CNI_COMMAND": verb,
            "CNI_CONTAINERID": guest.container,
            "CNI_NETNS": guest.netns,
            "CNI_IFNAME": "eth0",
            "CNI_PATH": "/opt/cni/bin",
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={guest.kube_namespace};K8S_POD_NAME={guest.pod}"
            f";K8S_POD_UID=uid-of-{guest.pod}",
            "NETCLAIM_CNI_SOCKET": str(self.socket),
            "NETCLAIM_CNI_SPOOL": str(self.spool),
            **changes.pop("env", {}),
        }
        return env, json.dumps({**self.world.configuration(guest.attachment), **changes})

    async def cni(self, verb: str, guest: Guest, *, check: bool = True, **changes: Any) -> Outcome:
        """Execute netclaim-cni as a runtime does. ``changes``: configuration keys, or env= for CNI variables.

        A call that is cancelled kills the binary, as a runtime does that gives up.
        """
        env, config = self.call_of(verb, guest, **changes)
        argv = ("ip", "netns", "exec", self.namespace, str(self.world.binary))
        outcome = await run(*argv, env=env, stdin=config, check=False)
        if check and outcome.code:
            raise AssertionError(f"{verb}: {outcome.out or outcome.err}\n{self.log[-3000:]}")
        return outcome

    async def clean(self) -> None:
        """Wait until nothing of a tenant is left: whoever is at work in a VPC as its last guest goes takes it down."""

        async def gone() -> bool:
            left = await self.traces()
            assert not left, left
            return True

        await until(gone, timeout=60, what=f"nothing of a tenant left on {self.name}\n{self.log[-2000:]}")

    async def traces(self) -> list[str]:
        """Every link, rule, route, neighbour and firewall element of a tenant that is on this node."""
        texts = [
            await self.ip("-o", "link"),
            await self.ip("-4", "rule"),
            await self.ip("-6", "rule"),
            await self.ip("-4", "route", "show", "table", "all"),
            await self.ip("-6", "route", "show", "table", "all"),
            await self.ip("neigh"),
            (await run("ip", "netns", "exec", self.namespace, "nft", "list", "ruleset")).out,
        ]
        marks = ("G0", "V0", "10.128.", "fd20:", " 10000", " 15000")
        found = [line.strip() for text in texts for line in text.splitlines() if any(mark in line for mark in marks)]
        # The node's own tables are the first of their ranges.
        return [line for line in found if not any(f" {own}" in line for own in ("100000", "150000"))]


@dataclass
class World:
    """Everything of one test, with names that no other test has."""

    cell: Client
    kubeconfig: Path
    binary: Path
    folder: Path
    checker: Checker
    mark: str = field(default_factory=lambda: secrets.token_hex(3))
    nodes: dict[str, Node] = field(default_factory=dict)
    attachments: dict[str, tuple[int, int]] = field(default_factory=dict)
    drifted: list[str] = field(default_factory=list)
    """Words of findings that a test has made itself and leaves."""
    _namespaces: list[str] = field(default_factory=list)
    _registered: list[str] = field(default_factory=list)
    _guests: int = 0

    @property
    def system(self) -> str:
        return f"system-{self.mark}"

    @property
    def shop(self) -> str:
        return f"shop-{self.mark}"

    async def open(self) -> None:
        for name in (self.system, self.shop):
            await self.cell.create(resources.NAMESPACES, {"metadata": {"name": name}})

    async def close(self) -> None:
        for node in self.nodes.values():
            with contextlib.suppress(TimeoutError):
                await node.stop()
            if node.process is not None:
                node.process.kill()
            await node.door.shut()
        for name in self._registered:
            with contextlib.suppress(ApiError):
                await self.cell.delete(resources.NODES, None, name)
        for namespace in self._namespaces:
            await run("ip", "netns", "del", namespace, check=False)
        for name in (self.shop, self.system):
            with contextlib.suppress(ApiError):
                await self.cell.delete(resources.NAMESPACES, None, name)

    async def sound(self, *, but: Collection[str] = ()) -> None:
        """Wait until the node check finds nothing on any node whose agent runs, except what contains one of ``but``."""
        for node in self.nodes.values():
            if node.process is not None and node.process.returncode is None:
                await until(lambda node=node: self._is_sound(node, but), timeout=30, interval=0.5, what="sound nodes")

    async def _is_sound(self, node: Node, but: Collection[str]) -> bool:
        found = await self.checker.findings(node.namespace, node.folder / "state", self.kubeconfig)
        left = [one for one in found if not any(word in one for word in (*self.drifted, *but))]
        assert not left, f"{node.name}: {left}"
        return True

    async def rename(self, node: Node, name: str) -> None:
        """From its next start on the machine is another Node with another locator; the old Node stays."""
        await self._register(name)
        node.name, node.locator = name, node.locator.replace("::", "1::")

    async def _register(self, name: str) -> None:
        await self.cell.create(resources.NODES, {"metadata": {"name": name}})
        self._registered.append(name)

    async def add_nodes(self, *letters: str, start: bool = True) -> list[Node]:
        """Nodes with one underlay segment between them (a bridge in a namespace of its own)."""
        hub = await self._namespace("hub")
        await run("ip", "-n", hub, "link", "add", "hub0", "type", "bridge")
        await run("ip", "-n", hub, "link", "set", "hub0", "up")
        for letter in letters:
            namespace = await self._namespace(letter)
            await run(
                "ip",
                "-n",
                namespace,
                "link",
                "add",
                "up0",
                "type",
                "veth",
                "peer",
                "name",
                f"port-{letter}",
                "netns",
                hub,
            )
            await run("ip", "-n", hub, "link", "set", "dev", f"port-{letter}", "master", "hub0", "up")
            underlay = f"fd00:aa::{letter}"
            for arguments in (
                ("link", "set", "lo", "up"),
                ("link", "set", "up0", "up"),
                ("-6", "addr", "add", f"{underlay}/64", "dev", "up0", "nodad"),
            ):
                await run("ip", "-n", namespace, *arguments)
            folder = self.folder / letter
            folder.mkdir()
            name = f"node-{letter}-{self.mark}"
            door = Door(namespace, self.cell.server)
            await door.open()
            node = Node(name, namespace, f"fd5f:0:0:{letter}::/64", underlay, folder, door, self)
            self.nodes[letter] = node
            await self._register(name)
            if start:
                await node.start()
        return [self.nodes[letter] for letter in letters]

    async def attach(self, name: str, vpc: int, own: int, number: int, **interface: Any) -> None:
        """A VPCAttachment as the VPC controller makes it; ``number`` chooses the guest's addresses."""
        spec = {
            "vpc": {"name": f"net-{vpc}"},
            "interfaceRef": {"name": name},
            "interface": {
                "name": "eth0",
                "mode": "Netns",
                "mtu": 1460,
                "addresses": [f"fd20:0:1:{number:x}::1/96", f"10.128.0.{number}/32"],
                "gateways": ["fd20:0:1::1", "10.128.0.1"],
                **interface,
            },
        }
        metadata = {"namespace": self.shop, "name": name}
        await self.cell.create(resources.ATTACHMENTS, {"metadata": metadata, "spec": spec})
        status = {"vpc": identity.to_base62(vpc), "vpcAttachment": identity.to_base62(own)}
        await self.cell.apply_status(
            resources.ATTACHMENTS, {"metadata": metadata, "status": status}, manager=managers.VPC_CONTROLLER
        )
        self.attachments[name] = (vpc, own)

    async def guest(self, attachment: str, pod: str = "") -> Guest:
        """A fresh sandbox for a Pod that uses ``attachment``."""
        self._guests += 1
        namespace = await self._namespace(f"g{self._guests}")
        await run("ip", "-n", namespace, "link", "set", "lo", "up")
        return Guest(namespace, f"{self._guests:02x}{secrets.token_hex(31)}", pod or attachment, attachment, self.shop)

    def configuration(self, attachment: str) -> dict[str, Any]:
        """The CNI configuration that the attachment's NAD holds."""
        vpc, own = self.attachments[attachment]
        return {
            "cniVersion": "1.0.0",
            "name": f"{self.shop}.{attachment}",
            "type": "netclaim-cni",
            "vpc": identity.to_base62(vpc),
            "vpcAttachment": identity.to_base62(own),
            "attachment": {"namespace": self.shop, "name": attachment},
        }

    async def facts(self, attachment: str) -> dict[str, Any]:
        """The node facts of an attachment's status."""
        raw = await self.cell.get(resources.ATTACHMENTS, self.shop, attachment)
        owned = ("vpc", "vpcAttachment", "conditions")
        return {name: value for name, value in raw["status"].items() if name not in owned}

    async def advertisement(self, attachment: str) -> dict[str, Any] | None:
        """The attachment's advertisement, None without one."""
        try:
            name = identity.advertisement_name(*self.attachments[attachment])
            return await self.cell.get(resources.BGP_ADVERTISEMENTS, self.system, name)
        except NotFound:
            return None

    async def advertised(self, attachment: str) -> dict[str, Any]:
        """The advertisement once its node says that it is advertised."""

        async def ready() -> dict[str, Any] | None:
            raw = await self.advertisement(attachment)
            conditions = ((raw or {}).get("status") or {}).get("conditions") or []
            return raw if any((c["type"], c["status"]) == ("Advertised", "True") for c in conditions) else None

        found = await until(ready, what=f"{attachment} is advertised")
        assert found is not None
        return found

    async def withdrawn(self, attachment: str, *, timeout: float = 40.0) -> None:
        """Wait until neither facts nor an advertisement are left."""

        async def gone() -> bool:
            return not await self.facts(attachment) and await self.advertisement(attachment) is None

        await until(gone, timeout=timeout, what=f"{attachment} is withdrawn")

    async def _namespace(self, name: str) -> str:
        full = f"nc{self.mark}{name}"
        await run("ip", "netns", "add", full)
        self._namespaces.append(full)
        return full


@contextlib.asynccontextmanager
async def a_world(cell: Client, kubeconfig: Path, binary: Path, folder: Path, checker: Checker) -> AsyncIterator[World]:
    """A world that is taken down whatever the test does."""
    world = World(cell, kubeconfig, binary, folder, checker)
    try:
        await world.open()
        yield world
    finally:
        await world.close()
