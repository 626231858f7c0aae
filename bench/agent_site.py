"""Where the benchmarks of the node agent run: a real API server, one node in a namespace, the real agent and binary.

``NETCLAIM_RUN_DIR`` names running control planes (``python -m dev up --nodes 0``) to use instead of starting them.
"""

import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.runner import Call, Runner, Timed, a_runner
from dev.builds import build_cni_binary
from netclaim.kube.client import Client
from tests.control_plane import ControlPlane
from tests.net.agent.checker import a_checker
from tests.net.agent.node import Node
from tests.net.agent.plumbing import Guest
from tests.net.agent.world import World, a_world

CRDS = Path(__file__).resolve().parent.parent / "crds"
FIRST_VPC = 36


@dataclass
class AgentSite:
    """One node with its agent, and whoever executes the binary on it."""

    world: World
    node: Node
    runner: Runner

    @property
    def agent(self) -> Path:
        """The agent's folder below /proc. (`ip netns exec` has replaced itself by it.)"""
        assert self.node.process is not None
        return Path(f"/proc/{self.node.process.pid}")

    async def guests(self, count: int, *, first: int = 0, vpcs: int = 4, **interface: object) -> list[Guest]:
        """As many attachments, spread over some VPCs, with a sandbox each."""
        made = []
        for number in range(first, first + count):
            name = f"bench-{number}"
            await self.world.attach(name, FIRST_VPC + number % vpcs, 1 + number, 2 + number, **interface)
            made.append(await self.world.guest(name))
        return made

    def call(self, verb: str, guest: Guest, kill_after: float | None = None) -> Call:
        """One execution of netclaim-cni."""
        env, config = self.node.call_of(verb, guest)
        return Call((str(self.world.binary),), env, config, kill_after)

    async def each(self, verb: str, guests: Sequence[Guest]) -> list[Timed]:
        """The verb for one guest after the other. Raises RuntimeError when one fails."""
        done = await self.runner.run([self.call(verb, guest) for guest in guests])
        for timed in done:
            if timed.code:
                raise RuntimeError(f"{verb} failed: {timed.out}\n{self.node.log[-2000:]}")
        return done

    def resident(self, *, peak: bool = False) -> float:
        """The agent's resident memory in MiB, now or at its highest."""
        word = "VmHWM:" if peak else "VmRSS:"
        lines = (self.agent / "status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(word))


@asynccontextmanager
async def agent_site(*, start: bool = True) -> AsyncIterator[AgentSite]:
    """A node with a running agent (``start`` False: the caller starts it), gone afterwards."""
    if os.geteuid():
        raise PermissionError("network namespaces need root")
    running = os.environ.get("NETCLAIM_RUN_DIR")
    with tempfile.TemporaryDirectory(prefix="netclaim-bench-") as scratch:
        folder = Path(scratch)
        plane = ControlPlane.attach(Path(running)) if running else ControlPlane.start(folder / "run")
        try:
            plane.install_crds(CRDS)
            client = await Client.connect(str(plane.cell_kubeconfig), user_agent="netclaim-bench")
            try:
                (folder / "world").mkdir()
                async with (
                    a_checker() as checker,
                    a_world(client, plane.cell_kubeconfig, build_cni_binary(), folder / "world", checker) as world,
                ):
                    (node,) = await world.add_nodes("a", start=start)
                    async with a_runner(node.namespace) as runner:
                        yield AgentSite(world, node, runner)
            finally:
                await client.close()
        finally:
            if not running:
                plane.stop()
