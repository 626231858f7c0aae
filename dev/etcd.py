"""Backup and restore of a control plane, with etcd's own tools, as the operator of a cluster does it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from dev import builds
from dev.cluster import Cluster
from dev.errors import ClusterError
from dev.progress import Display

REVISIONS = 1_000_000_000
"""Added to the revision of a restored etcd: higher than any that a client has seen of what is lost."""
CONTROLLERS = ("kube-controller-manager", "kube-scheduler")


def save(cluster: Cluster, plane: str, file: Path, display: Display) -> None:
    """Write a snapshot of a plane's etcd to a file. Raises ClusterError."""
    etcdctl = builds.ensure([builds.etcd_tool("etcdctl")], display)["etcdctl"]
    _run([str(etcdctl), "--endpoints", _client(cluster, plane), "snapshot", "save", str(file)])


def restore(cluster: Cluster, plane: str, file: Path, display: Display) -> None:
    """Put a plane's etcd back to a snapshot, its API server and controllers away meanwhile. Raises ClusterError."""
    etcdutl = builds.ensure([builds.etcd_tool("etcdutl")], display)["etcdutl"]
    running = [one["name"] for one in cluster.processes()]
    upper = [f"kube-apiserver-{plane}", *(name for one in CONTROLLERS if (name := f"{one}-{plane}") in running)]
    flags = _flags(cluster, plane)
    for name in (*reversed(upper), f"etcd-{plane}"):
        cluster.stop(name)
    shutil.rmtree(flags["data-dir"])
    kept = ("name", "data-dir", "initial-cluster", "initial-advertise-peer-urls")
    words = [f"--{flag}={flags[flag]}" for flag in kept]
    # Whoever watches has to be told that what it saw is gone, and no version may be given twice.
    words += [f"--bump-revision={REVISIONS}", "--mark-compacted"]
    _run([str(etcdutl), "snapshot", "restore", str(file), *words])
    for name in (f"etcd-{plane}", *upper):
        cluster.restart(name)


def _client(cluster: Cluster, plane: str) -> str:
    return _flags(cluster, plane)["advertise-client-urls"]


def _flags(cluster: Cluster, plane: str) -> dict[str, str]:
    """The flags that a plane's etcd runs with."""
    words = Path(f"/proc/{cluster.pid(f'etcd-{plane}')}/cmdline").read_bytes().decode().split("\0")
    return dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command[:4])}: {done.stderr.strip() or done.stdout.strip()}")
