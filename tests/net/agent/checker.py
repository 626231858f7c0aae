"""The node check (`netclaimctl node check`) for many nodes in turn, by one process that enters each node's namespace.

One JSON request a line, one JSON answer a line: {"node": namespace, "state": folder, "kubeconfig": path} -> findings.
"""

import asyncio
import ctypes
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CLONE_NEWNET = 0x40000000


class Checker:
    """The process, from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    async def findings(self, namespace: str, state_dir: Path, kubeconfig: Path) -> list[str]:
        """What the check finds on one node, looking once."""
        request = {"node": namespace, "state": str(state_dir), "kubeconfig": str(kubeconfig)}
        async with self._turn, asyncio.timeout(60):
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the checker ended")
        found: list[str] = json.loads(line)
        return found


@asynccontextmanager
async def a_checker() -> AsyncIterator[Checker]:
    """A checker that is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.net.agent.checker",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        yield Checker(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(30):
            await process.wait()


def main() -> None:
    """Serve until standard input ends."""
    from netclaim.kube.client import Client
    from node_agent.inspection import inspect

    libc = ctypes.CDLL(None, use_errno=True)

    async def look(request: dict[str, Any]) -> list[str]:
        client = await Client.connect(request["kubeconfig"], user_agent="netclaim-tests")
        try:
            return [str(finding) for finding in await inspect(Path(request["state"]), client)]
        finally:
            await client.close()

    for line in sys.stdin:
        request = json.loads(line)
        with Path(f"/run/netns/{request['node']}").open() as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        try:
            answer = asyncio.run(look(request))
        except Exception as error:  # noqa: BLE001 - it is the test that judges it
            answer = [f"the check failed: {type(error).__name__}: {error}"]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
