"""The local cluster as other code uses it: start one, find one that runs, its paths, and commands on it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev import builds, images, packages
from dev.certificates import Authority, write_private
from dev.environment import read_environment
from dev.errors import ClusterError
from dev.node import Node
from dev.paths import CHECKOUT, PLANES, RunDir, cache_dir, default_run_dir
from dev.processes import kill_and_wait, tail
from dev.progress import Display, PlainDisplay
from dev.state import State
from dev.sweep import sweep

DOWN_DEADLINE = 30.0
_supervisors: dict[Path, subprocess.Popen[str]] = {}
"""Those that this process started: their exit status is its to collect."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs: its files, and commands that work on it."""

    run: RunDir
    state: State
    env: dict[str, str]

    @classmethod
    def load(cls, run_dir: Path | None = None) -> Cluster:
        """Return the cluster that runs in `run_dir`; raises ClusterError when none does."""
        run = RunDir((run_dir or default_run_dir()).resolve())
        state = State.load(run)
        if state is not None and state.running and not state.ready:
            raise ClusterError(f"the cluster in {run.root} is still starting; its logs are in {run.log}")
        if state is None or not state.running:
            raise ClusterError(f"no cluster runs in {run.root}; start one with: python -m dev up --run-dir {run.root}")
        return cls(run, state, read_environment(run))

    @classmethod
    def up(
        cls,
        run_dir: Path | None = None,
        *,
        nodes: int = 2,
        control_plane: str = "process",
        detach: bool = False,
        display: Display | None = None,
    ) -> Cluster:
        """Start a cluster and return when it is ready; one that runs already with as many nodes is taken as it is.

        Unless detached, the cluster ends when the calling process does, however that ends. With `control_plane` =
        `container`, etcd and the rest run in containers (dev.containers) instead of processes. Raises ClusterError.
        """
        run = RunDir((run_dir or default_run_dir()).resolve())
        shown = display or PlainDisplay()
        state = State.load(run)
        if state is not None and state.running:
            if state.ready and len(state.nodes) == nodes and state.control_plane == control_plane:
                return cls.load(run.root)
            doing = "runs" if state.ready else "is starting"
            raise ClusterError(
                f"a cluster with {len(state.nodes)} nodes ({state.control_plane}) {doing} in {run.root}; "
                f"end it first with: python -m dev down --run-dir {run.root}"
            )
        if nodes:
            _check_places(run)
            packages.ensure(shown)
        binaries = builds.ensure([*builds.COMMON, *(builds.NODE if nodes else ())], shown)
        made = [images.pause(binaries["pause"]), images.busybox(packages.BUSYBOX)] if nodes else []
        dockerd = _engine(shown) if control_plane == "container" else None
        _rotate_logs(run)
        message = {
            "nodes": nodes,
            "control_plane": control_plane,
            "dockerd": str(dockerd) if dockerd else None,
            "owner": 0 if detach else os.getpid(),
            "binaries": {name: str(path) for name, path in binaries.items()},
            "images": [str(image.archive()) for image in made],
        }
        _start_supervisor(run, message, shown)
        return cls.load(run.root)

    def down(self) -> None:
        """End the cluster; returns when nothing of it is left."""
        down(self.run)

    @property
    def run_dir(self) -> Path:
        """The cluster's folder."""
        return self.run.root

    @property
    def bin_dir(self) -> Path:
        """The folder with the cluster's programs."""
        return self.run.bin

    @property
    def kubectl_path(self) -> Path:
        """The kubectl of the cluster's version."""
        return self.run.bin / "kubectl"

    @property
    def node_names(self) -> list[str]:
        """The names of the nodes: none, or `node1` and `node2`."""
        return list(self.state.nodes)

    def node(self, name: str) -> Node:
        """Return a node's paths and commands; raises ClusterError when there is none of this name."""
        if name not in self.state.nodes:
            raise ClusterError(
                f"no node {name!r} in {self.run.root}; there are: {', '.join(self.state.nodes) or 'none'}"
            )
        return Node(name, self.run, self.state)

    @property
    def cell_kubeconfig(self) -> Path:
        """The administrator's kubeconfig of the cell."""
        return self.run.kubeconfig("cell")

    @property
    def ipam_kubeconfig(self) -> Path:
        """The administrator's kubeconfig of the IPAM control plane."""
        return self.run.kubeconfig("ipam")

    def kubectl(
        self, *args: str, plane: str = "cell", stdin: str | None = None, timeout: float = 60.0, check: bool = True
    ) -> str:
        """Run kubectl as administrator of a plane and return its output; raises ClusterError with what it said.

        One that may fail (not `check`) returns what it complained about when it does.
        """
        command = [str(self.kubectl_path), "--kubeconfig", str(self.run.kubeconfig(plane)), *args]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(args)} ({plane}): {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout if done.returncode == 0 else done.stderr

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), *, plane: str = "cell") -> Path:
        """Return a kubeconfig whose client certificate says that its holder is `user` in `groups`; made once."""
        if plane not in PLANES:
            raise ValueError(f"no plane {plane!r}")
        name = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in user)
        path = self.run.root / f"{plane}-{name}.kubeconfig"
        authority = Authority.load(self.run.pki(plane))
        server = f"https://127.0.0.1:{self.state.api_ports[plane]}"
        write_private(path, authority.kubeconfig(server, authority.issue(user, groups)).encode())
        return path

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        node: str | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start a program that ends with the cluster at the latest; its log is `<run dir>/log/<name>.log`.

        With `node` it runs inside that node (see Node.command). One that ends by itself stays ended: `check` says so.
        """
        message = {"argv": list(argv), "node": node, "cwd": str(cwd) if cwd else None, "env": dict(env or {})}
        request(self.state, verb="run", name=name, program=message)

    def stop(self, name: str) -> None:
        """End a process (see `processes`) with SIGTERM; it stays down until `restart`."""
        request(self.state, verb="stop", name=name)

    def kill(self, name: str) -> None:
        """End a process with SIGKILL; it stays down until `restart`."""
        request(self.state, verb="kill", name=name)

    def signal(self, name: str, number: int) -> None:
        """Send a signal (SIGSTOP and SIGCONT, say) to a process."""
        request(self.state, verb="signal", name=name, number=number)

    def restart(self, name: str) -> None:
        """Start a process that has ended, as it was started before; returns when it listens again, if it does."""
        request(self.state, verb="restart", name=name)

    def power_off(self, node: str) -> None:
        """End a node at once, as a power cut does: processes, links and /run are gone, its disk stays."""
        request(self.state, verb="power-off", name=node)

    def power_on(self, node: str) -> None:
        """Start a node that was powered off; returns when it is Ready."""
        request(self.state, verb="power-on", name=node)

    def processes(self) -> list[dict[str, Any]]:
        """Return name, pid, state, resident MiB and log of each process."""
        found: list[dict[str, Any]] = request(self.state, verb="status")["processes"]
        return found

    def pid(self, name: str) -> int:
        """Return the process id of a process; 0 when it does not run."""
        return int(self._process(name)["pid"])

    def check(self, name: str) -> None:
        """Raise ClusterError with the end of its log when a process does not run."""
        process = self._process(name)
        if not process["pid"]:
            raise ClusterError(f"{name} does not run ({process['state']})\n{self.log_tail(name)}")

    def log_tail(self, name: str, lines: int = 20) -> str:
        """Return where the log of a process is, and its last lines."""
        return tail(self.run.log / f"{name}.log", lines)

    def _process(self, name: str) -> dict[str, Any]:
        found = next((process for process in self.processes() if process["name"] == name), None)
        if found is None:
            raise ClusterError(f"no process {name!r} in {self.run.root}")
        return found


def request(state: State, **message: object) -> dict[str, Any]:
    """Ask a run's supervisor for something; raises ClusterError when it refuses or is not there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(180)
        try:
            connection.connect(str(state.control_socket))
            connection.sendall(json.dumps(message).encode() + b"\n")
            answer: dict[str, Any] = json.loads(connection.makefile().readline() or "{}")
        except OSError as error:
            raise ClusterError(f"the supervisor of run {state.run_id} does not answer: {error}") from error
    if not answer.get("ok"):
        raise ClusterError(str(answer.get("error", "the supervisor ended while answering")))
    return answer


def down(run: RunDir) -> bool:
    """End what runs in a run folder and remove what is left of an earlier run; returns whether there was anything."""
    state = State.load(run)
    if state is None:
        return False
    if state.running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.supervisor_pid, signal.SIGTERM)
        ends = time.monotonic() + DOWN_DEADLINE
        while state.running and time.monotonic() < ends:
            time.sleep(0.02)
        if state.running:
            kill_and_wait([state.supervisor_pid])
        if run.root in _supervisors:
            _supervisors.pop(run.root).wait()
    ends = time.monotonic() + DOWN_DEADLINE
    while _locked(run) and _is_of(run, state.run_id) and time.monotonic() < ends:
        time.sleep(0.02)
    if State.load(run) is not None:
        sweep(run, state)
    return True


def _is_of(run: RunDir, run_id: str) -> bool:
    """Tell whether nobody has started another cluster in the folder since."""
    now = State.load(run)
    return now is None or now.run_id == run_id


def _locked(run: RunDir) -> bool:
    with run.lock.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _check_places(run: RunDir) -> None:
    """Refuse what a node cannot see: its /run is its own."""
    for path in (run.root, cache_dir(), CHECKOUT):
        if path.is_relative_to("/run"):
            raise ClusterError(f"{path} is below /run, which every node has of its own; use a folder elsewhere")


def _engine(display: Display) -> Path | None:
    """Return the engine to start; None when one answers already."""
    from dev.containers import engine_answers

    return None if engine_answers() else packages.dockerd(display)


def _await_reaper(run: RunDir, supervisor: int) -> None:
    """Return when the reaper of a supervisor that ended has removed what it left."""
    ends = time.monotonic() + DOWN_DEADLINE
    while (state := State.load(run)) and state.supervisor_pid == supervisor and time.monotonic() < ends:
        time.sleep(0.02)


def _rotate_logs(run: RunDir) -> None:
    previous = run.root / "log.previous"
    run.root.mkdir(parents=True, exist_ok=True)
    if run.log.exists():
        shutil.rmtree(previous, ignore_errors=True)
        run.log.rename(previous)
    run.log.mkdir()


def _start_supervisor(run: RunDir, message: dict[str, object], display: Display) -> None:
    command = [sys.executable, "-m", "dev.supervisor", str(run.root)]
    log = run.log / "supervisor.log"
    with log.open("ab") as errors:
        supervisor = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    if supervisor.stdin is None or supervisor.stdout is None:
        raise AssertionError("both were asked for")
    try:
        supervisor.stdin.write(json.dumps(message) + "\n")
        supervisor.stdin.close()
        for line in supervisor.stdout:
            if _shown(json.loads(line), display):
                supervisor.stdout.close()
                _supervisors[run.root] = supervisor
                return
    except BaseException:
        supervisor.terminate()
        supervisor.wait()
        _await_reaper(run, supervisor.pid)
        raise
    raise ClusterError(f"the supervisor ended without a word; see {log}:\n{log.read_text()[-2000:]}")


def _shown(report: dict[str, Any], display: Display) -> bool:
    if "failed" in report:
        raise ClusterError(report["failed"])
    if "begin" in report:
        display.begin(report["begin"])
    if "end" in report:
        display.end(report["end"], report.get("outcome", ""))
    return "ready" in report
