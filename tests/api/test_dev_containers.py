"""The control planes in containers: the same cluster, from an image FROM scratch."""

import os
import signal
from pathlib import Path

import pytest

from dev.cluster import Cluster
from dev.containers import engine_answers
from dev.errors import ClusterError
from tests.e2e.dev.machine import Traces
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 and not engine_answers(), reason="no container engine answers, and starting one needs root"
)


async def test_control_planes_in_containers_serve_come_back_when_killed_and_leave_nothing(tmp_path: Path) -> None:
    """spec/testing.md: the container variant, started by testcontainers, with the same fixtures."""
    cluster = Cluster.up(tmp_path, nodes=0, control_plane="container")
    traces = Traces.of(cluster)
    root = Path(f"/proc/{cluster.pid('kube-apiserver-ipam')}/root")
    programs = sorted(path.name for path in (root / "bin").iterdir())
    cluster.kubectl("create", "namespace", "kept", plane="ipam")
    cluster.kill("kube-apiserver-ipam")
    with pytest.raises(ClusterError, match="refused"):
        cluster.kubectl("get", "namespace", "kept", plane="ipam")
    cluster.restart("kube-apiserver-ipam")
    found = cluster.kubectl("get", "namespaces", "-o", "name", plane="ipam")
    cluster.down()

    assert programs == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
    assert "namespace/kept" in found
    await until(lambda: traces.left() == [], what="nothing is left", timeout=30)


async def test_containers_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    """spec/testing.md: every child ends with the parent, also on SIGKILL, in whatever it runs."""
    cluster = Cluster.up(tmp_path, nodes=0, control_plane="container")
    traces = Traces.of(cluster)
    servers = [cluster.pid(f"kube-apiserver-{plane}") for plane in ("cell", "ipam")]
    os.kill(cluster.state.supervisor_pid, signal.SIGKILL)

    assert set(servers) <= set(traces.processes) or not cluster.state.own_engine
    await until(lambda: traces.left() == [], what="nothing is left", timeout=30)
