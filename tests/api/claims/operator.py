"""``netclaimctl`` as an operator runs it: a process of its own, its exit code and what it prints."""

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.control_plane import ControlPlane

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Answer:
    """`found` is what it prints to stdout, line by line; `remarks` what it prints to stderr."""

    code: int
    found: list[str]
    remarks: str

    def link(self, kind: str, state: str | None = None) -> str:
        """The first line of an `explain` about that kind (in that state)."""
        for line in self.found:
            words = line.split()
            if words[1:2] == [kind] and state in {None, words[0]}:
                return line
        raise AssertionError(f"no {kind} {state or ''} in {self}")

    @property
    def first(self) -> str:
        """What `explain` names as the first thing that is not as it should be."""
        return next((line for line in self.found if line.startswith("first: ")), "")


@dataclass(frozen=True)
class Operator:
    """Someone with a shell and both kubeconfigs."""

    control_plane: ControlPlane

    async def run(self, *arguments: str, env: dict[str, str] | None = None) -> Answer:
        """`netclaimctl` with these words."""
        return await self.execute(sys.executable, "-m", "netclaimctl", *arguments, env=env)

    async def execute(self, *argv: str, env: dict[str, str] | None = None) -> Answer:
        """Any program; the test's loop goes on meanwhile."""
        clean = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        done = await asyncio.to_thread(
            subprocess.run,
            argv,
            cwd=ROOT,
            env=clean | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"} | (env or {}),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, done.stdout.splitlines(), done.stderr)

    async def ipam(self, verb: str, *arguments: str, with_cell: bool = True) -> Answer:
        """`netclaimctl ipam <verb>`, with the cell's kubeconfig too unless told otherwise."""
        flags = [f"--kubeconfig={self.control_plane.ipam_kubeconfig}"]
        if with_cell:
            flags.append(f"--cell-kubeconfig={self.control_plane.cell_kubeconfig}")
        return await self.run("ipam", verb, *flags, *arguments)

    async def explain(self, claim: str, namespace: str, *arguments: str) -> Answer:
        """`netclaimctl explain <claim> -n <namespace>`."""
        flags = [f"--kubeconfig={self.control_plane.cell_kubeconfig}"]
        if not any(word.startswith("--ipam-kubeconfig") for word in arguments):
            flags.append(f"--ipam-kubeconfig={self.control_plane.ipam_kubeconfig}")
        return await self.run("explain", claim, "-n", namespace, *flags, *arguments)
