"""A virtual machine of the tests: started, watched, ended with the test."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from tests.waiting import until


class Machine:
    """A running QEMU. ``console``: what its kernel and first process say; ``output``: its second serial port."""

    def __init__(self, process: asyncio.subprocess.Process, console: Path, output: Path, log: Path) -> None:
        self._process = process
        self._console = console
        self._output = output
        self._log = log

    @property
    def console(self) -> str:
        return _text(self._console)

    @property
    def output(self) -> str:
        return _text(self._output)

    @property
    def ended(self) -> int | None:
        """QEMU's exit code, None while it runs."""
        return self._process.returncode

    async def says(self, words: str, *, timeout: float) -> None:
        """Wait until the machine has written ``words`` to its second serial port."""

        def said() -> bool:
            if words in self.output:
                return True
            if self.ended is not None:
                raise RuntimeError(f"QEMU ended with {self.ended}: {_text(self._log)}{self.console[-2000:]}")
            return False

        await until(said, timeout=timeout, interval=0.1, what=f"{words!r} from the machine\n{self.console[-2000:]}")

    async def complaint(self, *, timeout: float) -> str:
        """Wait until QEMU has ended; what it wrote to stderr."""
        async with asyncio.timeout(timeout):
            await self._process.wait()
        return _text(self._log)

    async def kill(self) -> None:
        """Cut its power."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


@contextlib.asynccontextmanager
async def running(argv: Sequence[str], folder: Path, name: str) -> AsyncIterator[Machine]:
    """A machine by its command line (which names no serial port), gone afterwards."""
    console, output, log = (folder / f"{name}.{kind}" for kind in ("console", "output", "log"))
    serial = ("-serial", f"file:{console}", "-serial", f"file:{output}")
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(*argv, *serial, stdin=asyncio.subprocess.DEVNULL, stderr=errors)
    machine = Machine(process, console, output, log)
    try:
        yield machine
    finally:
        await machine.kill()


def _text(path: Path) -> str:
    return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""
