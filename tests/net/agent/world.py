"""Nodes in network namespaces of their own, each with a real agent process, against a real API server.

A node reaches the API server through a listening socket that lives in its namespace and is served by the test: no link,
route or rule of the machine's own namespace is touched, and the API server can be taken away for a while.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netclaim import identity
from netclaim.api import managers, resources
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError
from tests.net.agent.checker import Checker
from tests.net.agent.node import Node
from tests.net.agent.plumbing import Door, Guest, run
from tests.waiting import until


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
        name = identity.advertisement_name(*self.attachments[attachment])
        return await self.cell.find(resources.BGP_ADVERTISEMENTS, self.system, name)

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
