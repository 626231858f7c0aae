"""Executes CNI plugins inside a node's network namespace and times each execution, from outside and from inside.

As a program (inside): it enters the namespace, then serves one JSON request a line. A request is a list of calls; they
run one after the other, or all at once.
"""

import asyncio
import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Call:
    """One execution. ``kill_after``: seconds after which it is killed, as by a runtime that gives up."""

    argv: tuple[str, ...]
    env: dict[str, str]
    stdin: str
    kill_after: float | None = None


@dataclass(frozen=True)
class Timed:
    """How an execution went: milliseconds from start to end, exit code (negative: killed), standard output."""

    milliseconds: float
    code: int
    out: str

    @property
    def json(self) -> Any:
        return json.loads(self.out) if self.out.strip() else None


class Runner:
    """The program, from outside."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def run(self, calls: Sequence[Call], *, at_once: bool = False) -> list[Timed]:
        """Execute calls; how each went, in order."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"atOnce": at_once, "calls": [asdict(call) for call in calls]}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        line = await self._process.stdout.readline()
        return [Timed(*each) for each in json.loads(line)]

    async def one(self, call: Call) -> Timed:
        """Execute one call."""
        (timed,) = await self.run([call])
        return timed


@asynccontextmanager
async def a_runner(namespace: str) -> AsyncIterator[Runner]:
    """A runner inside a named network namespace, gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.runner", namespace,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT, limit=1 << 26,
    )  # fmt: skip
    try:
        yield Runner(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def execute(call: dict[str, Any]) -> tuple[float, int, str]:
    """Run one call to its end."""
    began = time.perf_counter()
    with subprocess.Popen(
        call["argv"],
        env={**os.environ, **call["env"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            out, _ = process.communicate(call["stdin"], timeout=call["kill_after"])
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
    return (time.perf_counter() - began) * 1000, process.returncode, out


def main(namespace: str) -> None:
    """Serve until standard input ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/run/netns/{namespace}").open() as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    for line in sys.stdin:
        request = json.loads(line)
        if request["atOnce"]:
            with ThreadPoolExecutor(max_workers=len(request["calls"])) as threads:
                answer = list(threads.map(execute, request["calls"]))
        else:
            answer = [execute(call) for call in request["calls"]]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
