"""Lives of `nso`: real processes that are killed, paused and started again many times a test.

A life is forked from a server that has imported the program already, so that the next one begins in a blink; from there
on it is the program as it is: its own flags, event loop, connections and log, and nothing tidies up behind SIGKILL.
"""

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.waiting import until

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["nso.__main__", "nso.networks", "nso.claims", "nso.compute", "nso.ipam", __name__])
_END_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: the server ends with the tests, and each life with the server."""


def _live(flags: tuple[str, ...], log: str) -> None:
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    sink = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    from netclaim.kube.process import run
    from nso.__main__ import PROGRAM, main
    from nso.settings import Settings

    sys.exit(run(main, Settings, PROGRAM, flags))


class Life:
    """One `nso` with these flags; `begin` again after its end."""

    def __init__(self, log: Path, *flags: str) -> None:
        self.path = log
        self._flags = (*flags, "--metrics-address=")
        self._process: ForkServerProcess | None = None
        self._read_from = 0

    async def begin(self, *, working: bool = True) -> None:
        """Start it, and wait until it leads and works."""
        self._read_from = self.path.stat().st_size if self.path.exists() else 0
        self._process = _SERVER.Process(target=_live, args=(self._flags, str(self.path)), daemon=True)
        # Not on the loop: the first one waits for the server's imports.
        await asyncio.to_thread(self._process.start)
        if working:
            await self.says("working: ")

    async def says(self, text: str, *, timeout: float = 90.0) -> None:
        """Wait until the log of this life holds the text."""

        def look() -> bool:
            assert self._process is not None
            assert self._process.exitcode is None, self.log[-3000:]
            return text in self.log

        await until(look, timeout=timeout, what=f"{self.path.name} says {text!r}", interval=0.02)

    @property
    def log(self) -> str:
        """What this life has said."""
        if not self.path.exists():
            return ""
        with self.path.open() as told:
            told.seek(self._read_from)
            return told.read()

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process is None or self._process.exitcode is not None

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still for the body of a `with`."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def no_traceback(self) -> None:
        """Nothing unexpected happened in any of its lives."""
        told = self.path.read_text() if self.path.exists() else ""
        assert "Traceback" not in told, told[max(0, told.index("Traceback") - 1500) :][:5000]
