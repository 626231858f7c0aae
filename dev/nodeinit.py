"""The first process of a node: it makes the node's file system view, starts containerd and the kubelet, and reaps.

It is process 1 of a process namespace, so when it ends the kernel ends everything in the node: containerd, the kubelet,
shims and Pods; with the last of them go the mount namespace and every mount in it.

What the node writes stays in its folder: /etc, /opt, /var/lib and /var/log are the machine's with a layer of the node's
own on top, /run is new, and the folders that belong to a node's programs are bound to where the host can see them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from dev import isolation
from dev.paths import CHECKOUT, cache_dir

LAYERED = ("/etc", "/opt", "/var/lib", "/var/log")
BOUND = {
    "cni/bin": "/opt/cni/bin",
    "cni/net.d": "/etc/cni/net.d",
    "lib/cni": "/var/lib/cni",
    "lib/containerd": "/var/lib/containerd",
    "lib/kubelet": "/var/lib/kubelet",
    "lib/netclaim": "/var/lib/netclaim",
    "log/pods": "/var/log/pods",
    "log/containers": "/var/log/containers",
}
SCRATCH = "/run/node"
CONTAINERD_DEADLINE = 60.0
POLL = 0.05


def mount(*words: str) -> None:
    """Run mount without touching /etc/mtab."""
    subprocess.run(["mount", "-n", *words], check=True)


def make_view(folder: Path) -> None:
    """Mount the node's view of the file system (see above) in this process's mount namespace."""
    kept = _below_layers([folder.parent.parent, cache_dir(), CHECKOUT])
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    scratch = Path(SCRATCH)
    for number, path in enumerate(kept):
        _bind(path, scratch / "kept" / str(number))
    _bind(Path("/sys/fs/cgroup"), scratch / "cgroup")
    for layered in LAYERED:
        upper, work = (scratch / kind / layered.strip("/").replace("/", "-") for kind in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        mount("-t", "overlay", "-o", f"lowerdir={layered},upperdir={upper},workdir={work}", "overlay", layered)
    for number, path in enumerate(kept):
        _bind(scratch / "kept" / str(number), path)
    for source, target in BOUND.items():
        (folder / source).mkdir(parents=True, exist_ok=True)
        _bind(folder / source, Path(target))
    for name in ("netns", "netclaim", "lock"):
        (Path("/run") / name).mkdir()
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("--rbind", str(scratch / "cgroup"), "/sys/fs/cgroup")
    mount("--make-rshared", "/")
    mount("-t", "proc", "proc", "/proc")


def _below_layers(paths: Sequence[Path]) -> list[Path]:
    """The folders that the node shares with the host although a layer would hide what is written to them."""
    return [path for path in paths if any(path.is_relative_to(layered) for layered in LAYERED)]


def _bind(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    mount("--rbind", str(source), str(target))


def start(argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start one of the node's programs."""
    with log.open("ab") as output:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ | dict(env or {})
        )


def import_images(containerd: subprocess.Popen[bytes], images: Sequence[str]) -> None:
    """Wait until containerd answers, and give it the images."""
    ctr = ["ctr", "--namespace", "k8s.io"]
    ends = time.monotonic() + CONTAINERD_DEADLINE
    while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode != 0:
        if containerd.poll() is not None or time.monotonic() > ends:
            sys.exit(f"containerd does not answer (exit code {containerd.poll()}); see its log")
        time.sleep(POLL)
    for image in images:
        subprocess.run([*ctr, "images", "import", image], check=True, stdout=subprocess.DEVNULL)


def reap(programs: Mapping[int, str], ended: IO[str]) -> None:
    """Collect every process that ends; returns when it is one of the node's programs."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid in programs:
            print(f"{programs[pid]} ended with {os.waitstatus_to_exitcode(status)}, and the node with it", file=ended)
            return


def main() -> None:
    """Run `python -m dev.nodeinit REQUEST`, see dev.nodes.first_process."""
    request: dict[str, Any] = json.loads(sys.argv[1])
    name, folder, log = request["name"], Path(request["folder"]), Path(request["log"])
    socket.sethostname(name)
    isolation.join_cgroup(f"{request['cgroup']}/system")
    make_view(folder)
    conf = folder / "conf"
    containerd = start(["containerd", "-c", str(conf / "containerd.toml")], log / f"containerd-{name}.log")
    import_images(containerd, request["images"])
    while not (folder / "go").exists():
        if containerd.poll() is not None:
            sys.exit(f"containerd ended with {containerd.returncode}")
        time.sleep(POLL)
    flags = {
        "config": conf / "kubelet.yaml",
        "kubeconfig": conf / "kubelet.kubeconfig",
        "hostname-override": name,
        "node-ip": request["ip"],
        "v": 2,
    }
    argv = [request["kubelet"], *(f"--{flag}={value}" for flag, value in flags.items())]
    kubelet = start(argv, log / f"kubelet-{name}.log")
    reap({containerd.pid: "containerd", kubelet.pid: "the kubelet"}, sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
