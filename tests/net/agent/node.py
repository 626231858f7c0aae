"""A node of a test: a network namespace, the agent's process in it, and the CNI binary as a runtime executes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.net.agent.plumbing import Door, Guest, Outcome, run
from tests.waiting import until

if TYPE_CHECKING:
    from tests.net.agent.world import World

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
    world: World
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
        """Every link, rule, route, neighbour and firewall element of a tenant that is on this node.

        Without the state of a link's carrier, which the kernel follows with a delay of up to a second.
        """
        texts = [
            re.sub(r"NO-CARRIER,| state \S+", "", await self.ip("-o", "link")),
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
