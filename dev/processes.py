"""Child processes that never outlive their parent, and what is known of them."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import random
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.errors import ClusterError

PR_SET_PDEATHSIG = 1
PORTS = range(20000, 32000)
"""Below the kernel's ephemeral ports, so that no outgoing connection takes one between choice and use."""
STOP_GRACE = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel to SIGKILL this process when the thread that made it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def free_ports(count: int) -> list[int]:
    """Return `count` different ports of 127.0.0.1 on which nothing listens."""
    chosen: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise ClusterError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")


def start_time(pid: int) -> str | None:
    """Return the kernel's start time of a process, None when it is gone; it tells the process from a later one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]


def children_of(pid: int) -> list[int]:
    """Return the children of a process, oldest first; none when it is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def resident_mib(pid: int) -> int:
    """Return the resident memory of a process in MiB; 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS:")), 0)


def listens(pid: int, port: int) -> bool:
    """Tell whether process `pid` itself listens on TCP `port`: an answer on the port alone may be somebody else's."""
    inodes = set()
    try:
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
        return bool(inodes) and any(link in inodes for link in _open_files(pid))
    except (FileNotFoundError, ProcessLookupError):
        return False


def _open_files(pid: int) -> list[str]:
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(str(entry.readlink()))
        except FileNotFoundError:
            continue
    return links


def process_in_container(container: str) -> int:
    """Return the host's id of the first process of a container (its full id); 0 when there is none."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if container in (entry / "cgroup").read_text() and _is_first(entry):
                return int(entry.name)
    return 0


def _is_first(entry: Path) -> bool:
    """Tell whether a process is number 1 of a process namespace of its own."""
    lines = (entry / "status").read_text().splitlines()
    numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"


class Child:
    """One process of the cluster: how it is started, its log, and whether it runs."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        *,
        port: int = 0,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ):
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log
        self.port = port
        self.cwd = cwd
        self.env = dict(env or {})
        self.began = 0.0
        self.wanted = False
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process id of the running process, else 0."""
        return self._process.pid if self._process is not None and self._process.returncode is None else 0

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None while it runs or before its first start."""
        return self._process.returncode if self._process is not None else None

    async def start(self) -> None:
        """Start the process; its output is appended to its log."""
        self.wanted = True
        self.began = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | self.env,
                cwd=self.cwd,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    async def stop(self, grace: float = STOP_GRACE) -> None:
        """End the process: SIGTERM, and SIGKILL after `grace` seconds."""
        self.wanted = False
        process = self._process
        if process is None or process.returncode is not None:
            return
        if grace > 0:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), grace)
            except TimeoutError:
                pass
            else:
                return
        process.kill()
        await process.wait()

    def send_signal(self, number: int) -> None:
        """Send a signal to the running process; raises ClusterError when it does not run."""
        if not self.pid:
            raise ClusterError(f"{self.name} does not run")
        os.kill(self.pid, number)

    async def wait(self) -> None:
        """Return when the process has ended."""
        if self._process is not None:
            await self._process.wait()

    def check(self) -> None:
        """Raise ClusterError with the end of its log when the process has ended."""
        if self.exit_code is not None:
            raise ClusterError(f"{self.name} ended with {describe_exit(self.exit_code)}\n{self.tail()}")

    def ready_to_ask(self) -> bool:
        """Tell whether the process listens on its own port; raises ClusterError when it has ended."""
        self.check()
        return listens(self.pid, self.port)

    def tail(self, lines: int = 12) -> str:
        """Return where its log is, and its last lines."""
        return tail(self.log, lines)


def tail(log: Path, lines: int) -> str:
    """Return the name of a log file and its last lines."""
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([f"last lines of {log}:", *(f"  {line[:400]}" for line in text[-lines:])])


def describe_exit(code: int) -> str:
    """Return an exit code in words."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def kill_and_wait(pids: Sequence[int], deadline: float = 10.0) -> None:
    """SIGKILL processes and return when all of them are gone; raises ClusterError when one is not."""
    ends = time.monotonic() + deadline
    waiting = set(pids)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while waiting := {pid for pid in waiting if start_time(pid) is not None}:
        if time.monotonic() > ends:
            raise ClusterError(f"processes {sorted(waiting)} are still there {deadline:.0f} s after SIGKILL")
        time.sleep(0.02)
