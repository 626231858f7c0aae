"""The control plane in containers: one image FROM scratch with the same static programs, started by testcontainers.

Every process of a control plane is a container of that image on the host's network, with the run folder at its own
path, under the user who started it: so each flag, file and port is what it is for a process.

An engine that answers ($DOCKER_HOST, or the machine's own) is used. Else one is started for the run: Debian's dockerd
in process and mount namespaces of its own, without a bridge and without a packet filter rule, gone with the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dev.paths import RunDir
from dev.processes import Child, listens, process_in_container
from dev.state import State

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "netclaim.run"
REPOSITORY = "netclaim-control-plane"
DOCKERFILE = "FROM scratch\nCOPY bin/ /bin/\n"
KILLED = -int(signal.SIGKILL)


def client(timeout: int = 120) -> DockerClient:
    """Return a client of the environment's engine; `timeout`: seconds that a request may be without an answer."""
    import docker

    return docker.from_env(timeout=timeout)


def engine_answers() -> bool:
    """Tell whether the environment's engine answers."""
    import docker

    try:
        found = client()
        found.ping()
        found.close()
    except docker.errors.DockerException:
        return False
    return True


class Engine:
    """The container engine of one run."""

    def __init__(self, run: RunDir, state: State, dockerd: Path | None):
        self.run = run
        self.state = state
        self.dockerd = dockerd
        self.image = ""

    @property
    def url(self) -> str:
        """Where an engine of this run answers."""
        return f"unix://{self.state.engine_socket}"

    def daemon(self) -> Child | None:
        """Return the process of an engine for this run, and choose it; None when the environment's is used."""
        if self.dockerd is None:
            return None
        os.environ["DOCKER_HOST"] = self.url
        folder = self.run.root / "engine"
        folder.mkdir(exist_ok=True)
        flags = {
            "data-root": folder / "data",
            "exec-root": "/run/netclaim-engine",
            "pidfile": folder / "pid",
            "host": self.url,
            "cgroup-parent": f"/{self.state.cgroup('engine')}",
            "bridge": "none",
            "iptables": "false",
            "ip6tables": "false",
            "ip-forward": "false",
            "ip-masq": "false",
            "userland-proxy": "false",
        }
        own_run = 'mount -n -t tmpfs tmpfs /run && exec "$@"'
        apart = [
            "unshare",
            "--pid",
            "--fork",
            "--kill-child=KILL",
            "--mount",
            "--mount-proc",
            "--propagation",
            "private",
        ]
        argv = [*apart, "sh", "-c", own_run, "sh", str(self.dockerd), *(f"--{k}={v}" for k, v in flags.items())]
        path = f"{self.dockerd.parent}:{self.dockerd.parent.parent / 'bin'}:{os.environ.get('PATH', '')}"
        return Child("dockerd", argv, self.run.log / "dockerd.log", env={"PATH": path})

    def build(self, binaries: Mapping[str, Path]) -> None:
        """Build the image of the control plane, named by its content."""
        names = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
        key = "-".join(binaries[name].resolve().name.rpartition("-")[2] for name in names)
        context = self.run.root / "engine" / "context"
        (context / "bin").mkdir(parents=True, exist_ok=True)
        for name in names:
            subprocess.run(["cp", "--reflink=auto", binaries[name].resolve(), context / "bin" / name], check=True)
        (context / "Dockerfile").write_text(DOCKERFILE)
        engine = client()
        image, _ = engine.images.build(path=str(context), tag=f"{REPOSITORY}:{key[:120]}", rm=True)
        self.image = str(image.id)
        engine.close()

    def child(self, name: str, argv: Sequence[str], log: Path, *, port: int = 0) -> Child:
        """Return a process of the control plane, to be started in a container."""
        return ContainerChild(self, name, argv, log, port=port)


class ContainerChild(Child):
    """A process of the cluster in a container of its own."""

    def __init__(self, engine: Engine, name: str, argv: Sequence[str], log: Path, *, port: int = 0):
        super().__init__(name, argv, log, port=port)
        self.engine = engine
        self._container: Container | None = None
        self._ended: asyncio.Future[int] | None = None

    @property
    def pid(self) -> int:
        """The host's id of the container's first process; 0 when it does not run."""
        if self._container is None or self.exit_code is not None:
            return 0
        return process_in_container(str(self._container.id))

    @property
    def exit_code(self) -> int | None:
        """How the container ended; None while it runs or before its first start."""
        return self._ended.result() if self._ended is not None and self._ended.done() else None

    async def start(self) -> None:
        """Start a container; its output is appended to the log."""
        self.wanted = True
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._container = await asyncio.to_thread(self._run)
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        threading.Thread(target=self._follow, args=(self._container, loop, self._ended), daemon=True).start()

    def _run(self) -> Container:
        os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"
        from testcontainers.core.container import DockerContainer

        program, *flags = self.argv
        options: dict[str, Any] = {
            "network_mode": "host",
            "user": f"{os.getuid()}:{os.getgid()}",
            "labels": {LABEL: self.engine.state.run_id},
            "init": False,
        }
        made = DockerContainer(self.engine.image, **options).with_command([f"/bin/{Path(program).name}", *flags])
        for folder in (self.engine.run.root, self.engine.state.sockets):
            made = made.with_volume_mapping(str(folder), str(folder), "rw")
        return made.start().get_wrapped_container()

    def _follow(self, container: Container, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[int]) -> None:
        from docker.errors import APIError
        from requests.exceptions import RequestException

        code = KILLED
        # The engine may end at any moment, and the container with it.
        with contextlib.suppress(APIError, RequestException, OSError), self.log.open("ab") as log:
            for chunk in container.logs(stream=True, follow=True):
                log.write(chunk)
                log.flush()
            code = int(container.wait()["StatusCode"])
            container.remove(force=True)
        with contextlib.suppress(RuntimeError):  # the supervisor ended first
            loop.call_soon_threadsafe(ended.set_result, code)

    async def stop(self, grace: float = 5.0) -> None:
        """End the container: SIGTERM, and SIGKILL after `grace` seconds."""
        self.wanted = False
        if self._container is None or self.exit_code is not None or self._ended is None:
            return
        self.send_signal(signal.SIGTERM if grace > 0 else signal.SIGKILL)
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), max(grace, 1.0))
        except TimeoutError:
            self.send_signal(signal.SIGKILL)
            await asyncio.wait({self._ended}, timeout=10.0)

    async def wait(self) -> None:
        """Return when the container has ended."""
        if self._ended is not None:
            await asyncio.shield(self._ended)

    def ready_to_ask(self) -> bool:
        """Tell whether the container's process listens on its own port; raises ClusterError when it has ended."""
        self.check()
        pid = self.pid
        return pid != 0 and listens(pid, self.port)


def remove_containers(run_id: str) -> None:
    """Remove what a run left in the environment's engine."""
    engine = client()
    for container in engine.containers.list(all=True, filters={"label": f"{LABEL}={run_id}"}):
        container.remove(force=True)
    engine.close()
