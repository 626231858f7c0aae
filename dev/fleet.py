"""The nodes as the supervisor runs them: made beside the control planes, let go when the API server is there, ended."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from dev import isolation, nodes
from dev.controlplane import Plane
from dev.errors import ClusterError
from dev.node import Node
from dev.paths import MANIFESTS, RunDir
from dev.processes import Child, children_of, kill_and_wait, resident_mib
from dev.state import State
from dev.waiting import http_get, until

NODE_DEADLINE = 120.0


class Host(Protocol):
    """What a fleet needs of its supervisor."""

    def step(self, text: str, deadline: float) -> contextlib.AbstractAsyncContextManager[None]:
        """Report a step that is waited for."""

    async def launch(self, child: Child) -> Child:
        """Start a process and watch it."""


class Fleet:
    """The nodes of one cluster."""

    def __init__(self, host: Host, run: RunDir, state: State, binaries: Mapping[str, Path], images: Sequence[Path]):
        self.host = host
        self.run = run
        self.state = state
        self.binaries = binaries
        self.images = images
        self.nodes = [Node(name, run, state) for name in state.nodes]
        self._running: dict[str, tuple[Child, Child]] = {}
        self._cell: Plane | None = None

    async def open_egress(self) -> None:
        """Start what the cell's API server reaches nodes through; needed before that server starts."""
        isolation.mark_netns_mount()
        nodes.make_hub(self.state.hub)
        child = await self.host.launch(nodes.egress(self.state.egress_socket, self.nodes, self.run.log))

        def listens() -> bool:
            child.check()
            return self.state.egress_socket.exists()

        async with self.host.step("way from the API server to the nodes", NODE_DEADLINE):
            await until(listens)

    async def boot(self, node: Node, cell: Plane) -> None:
        """Make a node and start its container runtime; its kubelet waits for `admit`."""
        self._cell = cell
        others = [other for other in self.nodes if other != node]
        nodes.make_network(node, others)
        nodes.prepare(node, cell, self.binaries)
        (node.folder / "go").unlink(missing_ok=True)
        relay = await self.host.launch(nodes.relay(node, list(self.state.api_ports.values())))
        first = await self.host.launch(nodes.first_process(node, self.binaries, self.images))
        self._running[node.name] = (first, relay)

        def forked() -> bool:
            first.check()
            return bool(children_of(first.pid))

        async with self.host.step(f"{node.name}: namespaces", NODE_DEADLINE):
            await until(forked)
        (node.folder / "pid").write_text(str(children_of(first.pid)[0]))

    async def admit(self, node: Node) -> None:
        """Let the kubelet start, now that all it needs of the cell is there; returns when the node is Ready."""
        first, _ = self._running[node.name]
        admitted = dt.datetime.now(dt.UTC).replace(microsecond=0)
        (node.folder / "go").touch()

        async def ready() -> bool:
            first.check()
            if self._cell is None:
                return False
            status, body = await http_get(self._cell, f"/api/v1/nodes/{node.name}")
            return status == 200 and is_ready(json.loads(body), since=admitted)

        async with self.host.step(f"{node.name}: Ready", NODE_DEADLINE):
            await until(ready)

    def install_multus(self) -> None:
        """Apply Multus' custom resource and rights to the cell."""
        kubeconfig = str(self.run.kubeconfig("cell"))
        command = [str(self.run.bin / "kubectl"), "--kubeconfig", kubeconfig, "apply", "--server-side", "-f"]
        applied = subprocess.run(
            [*command, str(MANIFESTS / "multus.yaml")],
            capture_output=True,
            text=True,
            check=False,
            timeout=NODE_DEADLINE,
        )
        if applied.returncode != 0:
            raise ClusterError(f"Multus' manifest was refused: {applied.stderr.strip()}")

    async def power_off(self, name: str) -> None:
        """End a node at once, as a power cut does: its processes, links and /run are gone, its disk stays."""
        node = self.node(name)
        for child in self._running.pop(name, ()):
            await child.stop(grace=0)
        kill_and_wait(isolation.processes_in([node.netns.name]))
        isolation.remove_cgroup(self.state.cgroup(name))
        nodes.cut_network(node)
        isolation.remove_netns(node.netns.name)
        (node.folder / "pid").unlink(missing_ok=True)

    async def power_on(self, name: str) -> None:
        """Start a node that was powered off; returns when it is Ready."""
        node = self.node(name)
        if name in self._running:
            raise ClusterError(f"{name} is on; power it off first")
        if self._cell is None:
            raise ClusterError("the cell's control plane has not been started")
        await self.boot(node, self._cell)
        await self.admit(node)

    def describe(self) -> list[dict[str, Any]]:
        """Return what `status` shows of the programs inside the nodes."""
        found = []
        for node in self.nodes:
            for pid in children_of(node.pid) if node.pid else []:
                with contextlib.suppress(OSError):
                    program = Path(f"/proc/{pid}/comm").read_text().strip()
                    if program in {"containerd", "kubelet"}:
                        log = str(self.run.log / f"{program}-{node.name}.log")
                        row = {"name": f"{program}-{node.name}", "pid": pid, "state": "runs", "mib": resident_mib(pid)}
                        found.append(row | {"log": log})
        return found

    def node(self, name: str) -> Node:
        """Return a node by its name; raises ClusterError when there is none of it."""
        found = next((node for node in self.nodes if node.name == name), None)
        if found is None:
            raise ClusterError(f"no node {name!r}; there are: {', '.join(self.state.nodes) or 'none'}")
        return found


def is_ready(node: Mapping[str, Any], since: dt.datetime) -> bool:
    """Tell whether a Node takes Pods and its kubelet has said so after `since`: a word from before a reboot is void."""
    ready = next((entry for entry in node["status"].get("conditions", []) if entry["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True" or node["spec"].get("taints"):
        return False
    return dt.datetime.fromisoformat(ready["lastHeartbeatTime"]) >= since


async def boot_all(fleet: Fleet, cell: Plane) -> None:
    """Boot every node at once."""
    async with asyncio.TaskGroup() as group:
        for node in fleet.nodes:
            group.create_task(fleet.boot(node, cell))


async def admit_all(fleet: Fleet) -> None:
    """Let every kubelet start, and return when every node is Ready."""
    if fleet.nodes:
        fleet.install_multus()
    async with asyncio.TaskGroup() as group:
        for node in fleet.nodes:
            group.create_task(fleet.admit(node))
