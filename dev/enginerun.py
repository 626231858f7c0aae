"""A container engine for as long as a build takes: Debian's dockerd in namespaces of its own, gone with the block.

No bridge, no packet filter rule, no daemon that outlives the caller; a build that needs a network uses the host's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from dev.containers import engine_answers
from dev.errors import ClusterError
from dev.isolation import remove_cgroup
from dev.processes import die_with_parent, tail

DEADLINE = 120.0
POLL = 0.1


@contextlib.contextmanager
def running_engine(dockerd: Path, folder: Path) -> Iterator[None]:
    """Run ``dockerd`` with everything of it in ``folder``; $DOCKER_HOST names it. Raises ClusterError."""
    folder.mkdir(parents=True)
    socket, log = folder / "engine.sock", folder / "dockerd.log"
    environment = os.environ | {
        "PATH": f"{dockerd.parent}:{dockerd.parent.parent / 'bin'}:/usr/sbin:/sbin:{os.environ.get('PATH', '')}"
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            command(dockerd, folder, socket),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one thread, and the call only sets a flag of the child
        )
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = f"unix://{socket}"
    try:
        ends = time.monotonic() + DEADLINE
        while not engine_answers():
            if process.poll() is not None or time.monotonic() > ends:
                raise ClusterError(f"the container engine does not answer\n{tail(log, 20)}")
            time.sleep(POLL)
        yield
    finally:
        if before is None:
            os.environ.pop("DOCKER_HOST", None)
        else:
            os.environ["DOCKER_HOST"] = before
        end(process)
        remove_cgroup(cgroup())
        shutil.rmtree(folder, ignore_errors=True)


def command(dockerd: Path, folder: Path, socket: Path) -> list[str]:
    """The words that start the daemon as the first process of a process namespace, with a /run of its own."""
    flags = {
        "data-root": folder / "data",
        "exec-root": "/run/netclaim-engine",
        "pidfile": folder / "pid",
        "host": f"unix://{socket}",
        "cgroup-parent": f"/{cgroup()}",
        "bridge": "none",
        "iptables": "false",
        "ip6tables": "false",
        "ip-forward": "false",
        "ip-masq": "false",
        "userland-proxy": "false",
    }
    apart = ["unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--mount-proc", "--propagation", "private"]
    own_run = 'mount -n -t tmpfs tmpfs /run && exec "$@"'
    return [*apart, "sh", "-c", own_run, "sh", str(dockerd), *(f"--{name}={value}" for name, value in flags.items())]


def cgroup() -> str:
    """The cgroup of this process's engine."""
    return f"netclaim-images-{os.getpid()}"


def end(process: subprocess.Popen[bytes]) -> None:
    """End the daemon; with the first process of its namespace everything in it ends, and its mounts go."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
