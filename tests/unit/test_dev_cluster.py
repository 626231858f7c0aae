"""Parts of the local cluster that need no cluster: images, certificates, ports, files, what a machine must have."""

import base64
import datetime as dt
import hashlib
import ipaddress
import json
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from dev import packages
from dev.certificates import Authority
from dev.cluster import Cluster
from dev.environment import read_environment, write_environment
from dev.errors import ClusterError
from dev.fleet import is_ready
from dev.images import Image
from dev.node import Node
from dev.nodes import cni_configuration, kubelet_configuration
from dev.paths import RunDir
from dev.processes import children_of, free_ports, listens, start_time
from dev.progress import PlainDisplay
from dev.relay import serving
from dev.state import State


def test_an_image_is_an_oci_layout_whose_every_digest_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec/testing.md: images are hand-made archives that containerd imports."""
    monkeypatch.setenv("NETCLAIM_CACHE", str(tmp_path))
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    image = Image("node.local/x:1", ["/x"], {"/x": program}, {"/bin/y": "/x"})

    with tarfile.open(image.archive()) as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
    blobs = {name.rpartition("/")[2]: blob for name, blob in content.items() if name.startswith("blobs/sha256/")}
    entry = json.loads(content["index.json"])["manifests"][0]
    manifest = json.loads(blobs[entry["digest"].removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])

    assert all(hashlib.sha256(blob).hexdigest() == name for name, blob in blobs.items())
    assert entry["annotations"]["io.containerd.image.name"] == "node.local/x:1"
    assert manifest["layers"][0]["size"] == len(blobs[manifest["layers"][0]["digest"].removeprefix("sha256:")])
    assert config["config"]["Entrypoint"] == ["/x"]


def test_the_same_image_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """spec/testing.md: what is made once is kept, keyed by content."""
    monkeypatch.setenv("NETCLAIM_CACHE", str(tmp_path))
    program = tmp_path / "program"
    program.write_bytes(b"one")
    first, second = (Image("node.local/x:1", ["/x"], {"/x": program}).archive() for _ in range(2))
    program.write_bytes(b"two")
    changed = Image("node.local/x:1", ["/x"], {"/x": program}).archive()

    assert first == second
    assert changed != first


def test_a_kubeconfig_holds_a_certificate_of_its_plane_and_of_no_other(tmp_path: Path) -> None:
    """R14: a credential of one control plane is worth nothing at the other."""
    cell, ipam = (Authority.create(tmp_path / plane, plane) for plane in ("cell", "ipam"))
    text = Authority.load(tmp_path / "cell").kubeconfig("https://127.0.0.1:1", cell.issue("nso", ["writers"]))
    encoded = yaml.safe_load(text)["users"][0]["user"]["client-certificate-data"]
    certificate = x509.load_pem_x509_certificate(base64.b64decode(encoded))

    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(cell.bundle.read_bytes()))
    with pytest.raises(ValueError, match="Issuer"):
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(ipam.bundle.read_bytes()))
    assert certificate.subject.rfc4514_string() == "CN=nso,O=writers"
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert (tmp_path / "cell" / "ca.key").stat().st_mode & 0o077 == 0


def test_ports_are_different_free_and_out_of_the_range_of_outgoing_connections() -> None:
    """spec/testing.md: an API server whose etcd port is taken silently uses the other etcd."""
    chosen = free_ports(20)
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert len(set(chosen)) == 20
    assert all(port < lowest for port in chosen)


def test_who_listens_on_a_port_is_told_from_who_merely_could_be_reached_there() -> None:
    """spec/testing.md: check who answers on a port, not that somebody does."""
    script = "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{script}; sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        port = int(other.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)):
            assert listens(other.pid, port)
            assert not listens(os.getpid(), port)
        other.kill()


def test_paths_with_spaces_survive_the_environment_file(tmp_path: Path) -> None:
    """`.run/env` is read by shells and by Cluster.load."""
    run = RunDir(tmp_path / "a run's folder")
    run.root.mkdir()
    write_environment(run, State(run_id="0123ab", nodes=["node1"]))
    shell = subprocess.run(
        ["sh", "-c", f'. "{run.env}"; printf %s "$NODE1_STATE_DIR"'], capture_output=True, text=True, check=True
    )

    assert read_environment(run)["NODE1_STATE_DIR"] == shell.stdout == f"{run.root}/nodes/node1/lib/netclaim"
    assert read_environment(run)["NODES"] == "node1"


def test_a_later_process_with_the_supervisors_id_is_not_taken_for_it(tmp_path: Path) -> None:
    """`down` ends only what the run started: process ids come again."""
    run = RunDir(tmp_path)
    state = State.new(2)
    state.supervisor_pid, state.supervisor_start = os.getpid(), start_time(os.getpid()) or ""
    state.save(run)
    loaded = State.load(run)
    reused = State(state.run_id, state.nodes, supervisor_pid=os.getpid(), supervisor_start="1")

    assert loaded is not None
    assert loaded.running
    assert not reused.running


def test_nodes_are_refused_without_root_by_a_message_that_says_what_works_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """spec/testing.md: control planes alone need no root; a step that cannot work says why."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(ClusterError, match=r"need root.*--nodes 0"):
        packages.ensure(PlainDisplay())


def test_a_run_folder_that_a_node_could_not_see_is_refused() -> None:
    """Each node has a /run of its own, so nothing of the cluster may live there."""
    with pytest.raises(ClusterError, match="below /run"):
        Cluster.up(Path("/run/somewhere"), nodes=1)


def test_missing_packages_without_a_way_to_install_them_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is not Debian gets a list, not a traceback."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(packages, "COMMANDS", {"no-such-program": "no-such-package"})
    monkeypatch.setenv("PATH", "")

    with pytest.raises(ClusterError, match="no-such-package"):
        packages.ensure(PlainDisplay())


def test_the_egress_serves_each_address_from_the_node_that_has_it() -> None:
    """The API server reaches kubelets, Pods and Services of the node that they are on, and nothing else."""
    one, two = Path("/run/netns/one"), Path("/run/netns/two")
    ranges = [
        (ipaddress.ip_network("172.31.0.11/32"), one),
        (ipaddress.ip_network("10.244.2.0/24"), two),
    ]

    assert serving(ranges, ipaddress.ip_address("172.31.0.11")) == one
    assert serving(ranges, ipaddress.ip_address("10.244.2.7")) == two
    with pytest.raises(OSError, match=r"192\.0\.2\.1 is in none of"):
        serving(ranges, ipaddress.ip_address("192.0.2.1"))


def test_a_node_is_ready_only_by_a_word_of_its_kubelet_since_it_was_started() -> None:
    """T09: a node that was power-cycled still says Ready from before."""
    began = dt.datetime(2026, 1, 1, 12, 0, 5, tzinfo=dt.UTC)

    def node(status: str, heartbeat: str, **spec: object) -> dict[str, object]:
        condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
        return {"spec": spec, "status": {"conditions": [condition]}}

    assert is_ready(node("True", "2026-01-01T12:00:05Z"), began)
    assert not is_ready(node("True", "2026-01-01T12:00:04Z"), began)
    assert not is_ready(node("False", "2026-01-01T12:00:06Z"), began)
    assert not is_ready(node("True", "2026-01-01T12:00:06Z", taints=[{"key": "x"}]), began)
    assert not is_ready({"spec": {}, "status": {}}, began)


def test_two_nodes_share_no_address_range_or_cgroup() -> None:
    """spec/testing.md: two kubelets need a cgroupRoot each."""
    state = State.new(2)
    one, two = (Node(name, RunDir(Path("/r")), state) for name in state.nodes)

    assert one.locator != two.locator
    assert one.ipv4 != two.ipv4
    assert kubelet_configuration(one)["cgroupRoot"] != kubelet_configuration(two)["cgroupRoot"]
    assert json.dumps(cni_configuration(one)) != json.dumps(cni_configuration(two))
    assert not ipaddress.ip_network(one.pod_range).overlaps(ipaddress.ip_network(two.pod_range))


def test_the_children_of_a_process_that_is_gone_are_none() -> None:
    """Clean-up asks about processes that end while it asks."""
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert children_of(gone.pid) == []
    assert start_time(gone.pid) is None
