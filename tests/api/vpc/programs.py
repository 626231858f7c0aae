"""Our programs as processes of their own, which tests start, pause, kill and read the log of."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


class Program:
    """One of our programs as a process of its own, with its log."""

    def __init__(self, module: str, log: Path, *flags: str) -> None:
        self.log = log
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *flags],
                cwd=ROOT,
                stdout=sink,
                stderr=sink,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )

    async def says(self, text: str, timeout: float = 30.0) -> None:
        """Wait until the program's log holds the text."""
        await until(lambda: text in self.log.read_text() or self._fail_when_ended(), timeout=timeout, what=text)

    def _fail_when_ended(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"ended with {self._process.returncode}: {self.log.read_text()[-3000:]}")
        return False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Whatever the test came to, nothing of it goes on."""
        if self._process.poll() is None:
            self.kill()

    def kill(self) -> None:
        """End it without a word, as a crash does."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stop the clock for it, as a machine that hangs or a frozen cgroup does."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on as if nothing had been."""
        self._process.send_signal(signal.SIGCONT)

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.poll() is not None

    async def stop(self) -> int:
        """End it in order; returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self._process.wait, 30)

    async def ended(self) -> int:
        """Wait until it ends by itself; returns the exit code."""
        return await asyncio.to_thread(self._process.wait, 60)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def tracebacks(self) -> list[str]:
        """Lines of the log that show an unexpected error."""
        return [line for line in self.log.read_text().splitlines() if "Traceback" in line or '"exception"' in line]


def controller(control_plane: Any, log: Path, *flags: str) -> Program:
    """The VPC controller against the cell, in Netns mode."""
    kubeconfig = str(control_plane.cell_kubeconfig)
    return Program("vpc_controller", log, "--attachment-mode", "Netns", "--kubeconfig", kubeconfig, *flags)
