"""The process that owns a cluster: it starts every part, answers requests about them, and takes them down with it.

Every child dies with the supervisor (PR_SET_PDEATHSIG), the supervisor ends with its owner when it has one, and a
reaper that was forked first cleans up what the kernel does not (cgroups, named namespaces, files) even when the
supervisor was killed. Lines on standard output are JSON: {"begin": step}, {"end": step}, {"ready": true},
{"failed": text}.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dev.controlplane import ChildMaker, Plane, Ports
from dev.environment import write_environment
from dev.errors import ClusterError
from dev.fleet import Fleet, admit_all, boot_all
from dev.paths import PLANES, RunDir
from dev.processes import Child, describe_exit, free_ports, resident_mib, start_time
from dev.state import State
from dev.sweep import sweep
from dev.waiting import POLL, http_get, until

if TYPE_CHECKING:
    from dev.containers import Engine

CONTROL_PLANE_DEADLINE = 120.0
ACCOUNT_DEADLINE = 120.0
LOCK_DEADLINE = 20.0


class Supervisor:
    """One running cluster."""

    def __init__(
        self,
        run: RunDir,
        state: State,
        binaries: Mapping[str, Path],
        *,
        images: Sequence[Path],
        dockerd: Path | None,
        owner: int,
    ):
        self.run = run
        self.state = state
        self.binaries = binaries
        self.dockerd = dockerd
        self.owner = owner
        self.children: dict[str, Child] = {}
        self.planes: dict[str, Plane] = {}
        self.fleet = Fleet(self, run, state, binaries, images)
        self._inside: dict[str, tuple[str, list[str]]] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._down = asyncio.Event()
        self._reports: TextIO | None = sys.stdout

    async def main(self) -> int:
        """Start everything, serve until asked to end, and take everything down; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._down.set)
        if self.owner:
            loop.add_reader(os.pidfd_open(self.owner), self._down.set)
        starting = asyncio.create_task(self.start())
        asked_to_end = asyncio.create_task(self._down.wait())
        try:
            await asyncio.wait({starting, asked_to_end}, return_when=asyncio.FIRST_COMPLETED)
            problem = await _outcome(starting)
            if problem:
                self.report(failed=problem)
                return 1
            self.report(ready=True)
            self._close_reports()
            await asked_to_end
        finally:
            await self.take_down()
        return 0

    def report(self, **line: object) -> None:
        """Tell whoever started the supervisor; after it was told that all is ready, tell the log."""
        print(json.dumps(line), file=self._reports or sys.stderr, flush=True)

    def _close_reports(self) -> None:
        self._reports = None
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.close(null)

    @asynccontextmanager
    async def step(self, text: str, deadline: float) -> AsyncIterator[None]:
        """Report a step that is waited for, and fail with its name when it takes longer than `deadline` seconds."""
        self.report(begin=text)
        try:
            async with asyncio.timeout(deadline):
                yield
        except TimeoutError:
            tails = "\n".join(child.tail(6) for child in self.children.values())
            raise ClusterError(f"waited {deadline:.0f} s for: {text}\n{tails}") from None
        self.report(end=text)

    async def start(self) -> None:
        """Bring the whole cluster up."""
        self.state.sockets.mkdir(mode=0o700, exist_ok=True)
        await asyncio.start_unix_server(self._answer, self.state.control_socket)
        make: ChildMaker = Child if self.state.control_plane == "process" else (await self._start_engine()).child
        ports = iter(free_ports(3 * len(PLANES)))
        for name in PLANES:
            egress = self.state.egress_socket if self.state.nodes and name == "cell" else None
            chosen = Ports(next(ports), next(ports), next(ports))
            self.planes[name] = Plane(name, self.run, chosen, self.binaries, make, egress)
            self.state.api_ports[name] = chosen.api
        self.state.save(self.run)
        if self.state.nodes:
            await self.fleet.open_egress()
        async with asyncio.TaskGroup() as group:
            for plane in self.planes.values():
                plane.prepare().write(self.run.pki(plane.name), "admin")
                group.create_task(self._start_plane(plane))
            group.create_task(boot_all(self.fleet, self.planes["cell"]))
        await admit_all(self.fleet)
        self.state.ready = True
        self.state.save(self.run)
        write_environment(self.run, self.state)

    async def _start_engine(self) -> Engine:
        from dev.containers import Engine

        engine = Engine(self.run, self.state, self.dockerd)
        daemon = engine.daemon()
        if daemon is not None:
            await self.launch(daemon)

            def answers() -> bool:
                daemon.check()
                return self.state.engine_socket.is_socket()

            async with self.step("container engine", CONTROL_PLANE_DEADLINE):
                await until(answers)
        async with self.step("control plane image", CONTROL_PLANE_DEADLINE):
            await asyncio.to_thread(engine.build, self.binaries)
        return engine

    async def _start_plane(self, plane: Plane) -> None:
        etcd = await self.launch(plane.etcd())
        async with self.step(f"{plane.name}: etcd", CONTROL_PLANE_DEADLINE):
            await until(etcd.ready_to_ask)
        server = await self.launch(plane.api_server())
        async with self.step(f"{plane.name}: kube-apiserver", CONTROL_PLANE_DEADLINE):
            await until(server.ready_to_ask)
            await self._until_answered(plane, server, "/readyz")
        manager = await self.launch(plane.controller_manager())
        if plane.name == "cell":
            await self.launch(plane.scheduler())
        async with self.step(f"{plane.name}: kube-controller-manager (default service account)", ACCOUNT_DEADLINE):
            await self._until_answered(plane, manager, "/api/v1/namespaces/default/serviceaccounts/default")

    async def _until_answered(self, plane: Plane, child: Child, path: str) -> None:
        async def answered() -> bool:
            child.check()
            return (await http_get(plane, path))[0] == 200

        await until(answered)

    async def launch(self, child: Child) -> Child:
        """Start a process and keep it among the children."""
        self.children[child.name] = child
        await child.start()
        watching = asyncio.create_task(self._watch(child))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return child

    async def _watch(self, child: Child) -> None:
        await child.wait()
        if child.wanted and child.exit_code is not None:
            self.report(exited=child.name, how=describe_exit(child.exit_code))

    async def take_down(self) -> None:
        """End every child. Nothing of a run is used again, so nobody is given time to tidy up."""
        await asyncio.gather(*(child.stop(grace=0) for child in reversed(self.children.values())))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            request = json.loads(await reader.readline())
            try:
                answer: dict[str, Any] = {"ok": True} | (await self._do(**request) or {})
            except (ClusterError, TypeError) as error:
                answer = {"ok": False, "error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
            writer.close()

    async def _do(
        self, verb: str, name: str = "", number: int = 0, program: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        match verb:
            case "status":
                processes = [describe(child) for child in self.children.values()] + self.fleet.describe()
                return {"ready": self.state.ready, "processes": processes}
            case "stop":
                await self._child(name).stop()
            case "kill":
                await self._child(name).stop(grace=0)
            case "signal":
                self._child(name).send_signal(number)
            case "run":
                await self._run_program(name, **program or {})
            case "restart":
                await self._restart(self._child(name))
            case "power-off":
                await self.fleet.power_off(name)
            case "power-on":
                await self.fleet.power_on(name)
            case _:
                raise ClusterError(f"unknown request {verb!r}")
        return None

    def _child(self, name: str) -> Child:
        if name not in self.children:
            raise ClusterError(f"no process {name!r}; there are: {', '.join(self.children)}")
        return self.children[name]

    async def _run_program(
        self, name: str, argv: list[str], node: str | None, cwd: str | None, env: dict[str, str]
    ) -> None:
        known = self.children.get(name)
        if known is not None and known.pid:
            raise ClusterError(f"{name} runs already (pid {known.pid}); end it first")
        self._inside.pop(name, None)
        if node is not None:
            self._inside[name] = (node, argv)
        child = Child(name, argv, self.run.log / f"{name}.log", env=env, cwd=Path(cwd) if cwd else None)
        await self._launch_program(child)

    async def _launch_program(self, child: Child) -> None:
        if child.name in self._inside:
            node, argv = self._inside[child.name]
            child.argv = self.fleet.node(node).command(argv)
        try:
            await self.launch(child)
        except OSError as error:
            raise ClusterError(f"{child.name} cannot be started: {error}") from error

    async def _restart(self, child: Child) -> None:
        if not child.pid:
            await self._launch_program(child)
        plane = self.planes.get(child.name.rpartition("-")[2])
        async with self.step(f"{child.name} again", CONTROL_PLANE_DEADLINE):
            if child.port:
                await until(child.ready_to_ask)
            if plane is not None and child.name.startswith("kube-apiserver"):
                await self._until_answered(plane, child, "/readyz")


async def _outcome(starting: asyncio.Task[None]) -> str | None:
    """Return why the start did not succeed, None when it did; one that has not finished is given up."""
    if not starting.done():
        starting.cancel()
        await asyncio.wait({starting})
    if starting.cancelled():
        return "asked to end while starting"
    error = starting.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None or isinstance(error, ClusterError):
        return str(error) if error else None
    raise error


def describe(child: Child) -> dict[str, Any]:
    """Return what `status` shows of a process."""
    how = "runs" if child.pid else "stopped" if not child.wanted else describe_exit(child.exit_code or 0)
    return {"name": child.name, "pid": child.pid, "state": how, "mib": resident_mib(child.pid), "log": str(child.log)}


def fork_reaper(run: RunDir) -> None:
    """Fork the process that sweeps up when this one has ended, however it ended. It shares, so prolongs, the lock."""
    supervisor = os.getpid()
    death = os.pidfd_open(supervisor)
    if os.fork():
        os.close(death)
        return
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(null, descriptor)
    select.select([death], [], [])
    state = State.load(run)
    if state is not None:
        sweep(run, state)
    os._exit(0)


def take_lock(lock: TextIO) -> bool:
    """Take the run's lock, giving the reaper of an earlier run the time to finish; returns whether it was taken."""
    ends = time.monotonic() + LOCK_DEADLINE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                return False
            time.sleep(POLL)
        else:
            return True


def link_binaries(run: RunDir, binaries: Mapping[str, str]) -> dict[str, Path]:
    """Make the run's bin folder, one link per program, so that names in the cache are seen nowhere else."""
    run.bin.mkdir(parents=True, exist_ok=True)
    for name, path in binaries.items():
        (run.bin / name).symlink_to(path)
    return {name: run.bin / name for name in binaries}


def main() -> None:
    """Run `python -m dev.supervisor RUN_DIR`; the rest of the request is one JSON line on standard input."""
    run = RunDir(Path(sys.argv[1]))
    request = json.loads(sys.stdin.readline())
    with run.lock.open("w") as lock:
        if not take_lock(lock):
            print(
                json.dumps({"failed": f"another cluster runs in {run.root}, or is still being cleaned up"}), flush=True
            )
            sys.exit(1)
        left = State.load(run)
        if left is not None:
            sweep(run, left)
        dockerd = Path(request["dockerd"]) if request["dockerd"] else None
        state = State.new(request["nodes"], request["control_plane"], own_engine=dockerd is not None)
        state.supervisor_pid = os.getpid()
        state.supervisor_start = start_time(os.getpid()) or ""
        state.save(run)
        fork_reaper(run)
        binaries = link_binaries(run, request["binaries"])
        images = [Path(path) for path in request["images"]]
        owner = request["owner"]
        supervisor = Supervisor(run, state, binaries, images=images, dockerd=dockerd, owner=owner)
        code = asyncio.run(supervisor.main())
    sys.exit(code)


if __name__ == "__main__":
    main()
