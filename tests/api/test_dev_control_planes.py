"""The local control planes: real, apart from each other, and gone with whoever wanted them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.cluster import Cluster
from dev.errors import ClusterError
from dev.paths import CHECKOUT, RunDir
from dev.processes import children_of
from dev.state import State
from tests.e2e.dev.machine import Traces
from tests.waiting import until

OWNER = """\
import pathlib, sys
from dev.cluster import Cluster
Cluster.up(pathlib.Path(sys.argv[1]), nodes=0)
print("ready", flush=True)
sys.stdin.read()
"""


def begin(command: list[str]) -> subprocess.Popen[str]:
    # A shell that starts the tests in the background has SIGINT ignored, which children inherit; a terminal has not.
    heard = ["env", "--default-signal=INT", *command]
    return subprocess.Popen(heard, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def status_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster.up(tmp_path_factory.mktemp("run"), nodes=0)
    yield started
    started.down()


@pytest.mark.parametrize("plane", ["cell", "ipam"])
async def test_quota_is_enforced_and_a_deleted_namespace_goes_away_on_each_plane(cluster: Cluster, plane: str) -> None:
    """spec/testing.md: without a controller manager quota is silently not enforced and Namespaces stay Terminating."""
    cluster.kubectl("create", "namespace", "quota", plane=plane)
    cluster.kubectl("create", "quota", "one", "--hard=count/configmaps=2", "-n", "quota", plane=plane)
    hard = "jsonpath={.status.used.count/configmaps}"
    await until(
        lambda: cluster.kubectl("get", "quota", "one", "-n", "quota", "-o", hard, plane=plane) == "1",
        what="the quota counts the root certificate's ConfigMap",
        timeout=60,
    )
    cluster.kubectl("create", "configmap", "second", "-n", "quota", plane=plane)
    with pytest.raises(ClusterError, match="exceeded quota"):
        cluster.kubectl("create", "configmap", "third", "-n", "quota", plane=plane)
    cluster.kubectl("delete", "namespace", "quota", "--timeout=60s", plane=plane)
    with pytest.raises(ClusterError, match="not found"):
        cluster.kubectl("get", "namespace", "quota", plane=plane)


def test_a_credential_of_the_cell_is_worth_nothing_at_ipam(cluster: Cluster) -> None:
    """R14: the two control planes trust nothing of each other."""
    client_key = cluster.run.pki("cell") / "admin.key"
    certificate = cluster.run.pki("cell") / "admin.crt"
    with pytest.raises(ClusterError, match=r"[Uu]nauthorized|must be logged in|forbidden"):
        cluster.kubectl(
            "get",
            "namespaces",
            f"--client-key={client_key}",
            f"--client-certificate={certificate}",
            "--kubeconfig=/dev/null",
            f"--server=https://127.0.0.1:{cluster.state.api_ports['ipam']}",
            f"--certificate-authority={cluster.run.pki('ipam') / 'ca.crt'}",
            plane="ipam",
        )


def test_a_user_made_by_certificate_has_the_rights_it_was_given_and_shows_in_the_audit_log(cluster: Cluster) -> None:
    """Programs are told apart in the audit log, and accounts can be acted as."""
    nobody = cluster.kubeconfig_for("some-program")
    admin = cluster.kubeconfig_for("other-program", ["system:masters"])

    allowed = cluster.kubectl("auth", "can-i", "create", "namespaces", f"--kubeconfig={admin}").strip()
    with pytest.raises(ClusterError, match=r'forbidden.*"some-program"'):
        cluster.kubectl("get", "namespaces", f"--kubeconfig={nobody}")
    lines = cluster.run.audit_log("cell").read_text().splitlines()
    refused = [json.loads(line) for line in lines if '"some-program"' in line and '"resource":"namespaces"' in line]

    assert allowed == "yes"
    assert refused[-1]["responseStatus"]["code"] == 403


def test_an_api_server_that_was_killed_comes_back_with_what_it_held(cluster: Cluster) -> None:
    """Tests take a control plane away and give it back: same address, same objects."""
    cluster.kubectl("create", "namespace", "kept", plane="ipam")
    cluster.kill("kube-apiserver-ipam")
    with pytest.raises(ClusterError, match="refused"):
        cluster.kubectl("get", "namespace", "kept", plane="ipam")
    with pytest.raises(ClusterError, match="does not run"):
        cluster.check("kube-apiserver-ipam")
    cluster.restart("kube-apiserver-ipam")

    assert "kept" in cluster.kubectl("get", "namespaces", "-o", "name", plane="ipam")


async def test_a_program_under_the_cluster_keeps_its_log_and_is_known_to_have_ended(cluster: Cluster) -> None:
    """A program that dies is reported with its last words, never restarted in silence."""
    cluster.start("short", [sys.executable, "-c", "print('last words'); raise SystemExit(3)"])
    await until(lambda: cluster.pid("short") == 0, what="the program ends")

    with pytest.raises(ClusterError, match=r"exit code 3[\s\S]*last words"):
        cluster.check("short")
    with pytest.raises(ClusterError, match="cannot be started"):
        cluster.start("absent", ["/no/such/program"])


def test_a_run_folder_in_use_is_taken_as_it_is_or_refused(cluster: Cluster) -> None:
    """`up` twice is not an error; `up` with another size says what to do."""
    again = Cluster.up(cluster.run_dir, nodes=0)
    with pytest.raises(ClusterError, match=r"0 nodes \(process\) runs in .*python -m dev down"):
        Cluster.up(cluster.run_dir, nodes=2)

    assert again.state.run_id == cluster.state.run_id


async def test_two_clusters_at_once_know_nothing_of_each_other(cluster: Cluster, tmp_path: Path) -> None:
    """spec/testing.md: free ports, own run folder, twice at once on one machine; `down` ends one of them."""
    other = Cluster.up(tmp_path, nodes=0)
    traces = Traces.of(other)
    other.kubectl("create", "namespace", "only-there")
    here = cluster.kubectl("get", "namespaces", "-o", "name")
    ports = set(other.state.api_ports.values()) & set(cluster.state.api_ports.values())
    other.down()

    assert "only-there" not in here
    assert ports == set()
    await until(lambda: traces.left() == [], what="everything of the other one is gone")
    assert cluster.kubectl("get", "--raw", "/readyz") == "ok"


async def test_a_cluster_needs_no_privilege_and_ends_when_the_process_that_wanted_it_is_killed(tmp_path: Path) -> None:
    """spec/testing.md: control planes need no root; every child ends with the parent, also on SIGKILL."""
    without_privileges = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    with begin([*without_privileges, sys.executable, "-c", OWNER, str(tmp_path)]) as owner:
        lines = iter(owner.stdout.readline, "")
        assert any(line == "ready\n" for line in lines)
        cluster = Cluster.load(tmp_path)
        traces = Traces.of(cluster)
        capabilities = status_of(cluster.state.supervisor_pid)
        owner.kill()

    assert "CapEff:\t0000000000000000\n" in capabilities
    assert len(traces.processes) > 7
    await until(lambda: traces.left() == [], what="everything is gone", timeout=30)


@pytest.mark.parametrize("reaper_too", [False, True], ids=["supervisor", "supervisor and reaper"])
async def test_a_killed_supervisor_takes_every_process_with_it_and_the_next_down_finds_nothing_to_do(
    tmp_path: Path, *, reaper_too: bool
) -> None:
    """spec/testing.md: every child ends with the parent, also on SIGKILL; `down` leaves nothing."""
    cluster = Cluster.up(tmp_path, nodes=0)
    traces = Traces.of(cluster)
    supervisor = cluster.state.supervisor_pid
    reaper = next(pid for pid in children_of(supervisor) if "dev.supervisor" in command_of(pid))
    if reaper_too:
        os.kill(reaper, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    if reaper_too:
        await until(lambda: not any("process" in trace for trace in traces.left()), what="the processes are gone")
        assert traces.left() != []
        cluster.down()

    await until(lambda: traces.left() == [], what="everything is gone", timeout=30)
    assert State.load(RunDir(tmp_path)) is None


def test_a_control_plane_that_cannot_start_is_named_with_its_last_words_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """spec/testing.md: a step that waits says for what; a failure shows the log that explains it."""
    assets = tmp_path / "assets"
    assets.mkdir()
    for program in cluster.bin_dir.iterdir():
        (assets / program.name).symlink_to(program.resolve())
    (assets / "kube-apiserver").unlink()
    (assets / "kube-apiserver").write_text("#!/bin/sh\necho no space on this machine >&2\nexit 7\n")
    (assets / "kube-apiserver").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))

    with pytest.raises(ClusterError, match=r"kube-apiserver-\w+ ended with exit code 7[\s\S]*no space on this machine"):
        Cluster.up(tmp_path / "run", nodes=0)

    assert names_in(tmp_path / "run") == {"log", "lock"}


async def test_an_interrupted_start_leaves_nothing(tmp_path: Path) -> None:
    """Ctrl-C while the cluster starts ends what was started so far."""
    command = [sys.executable, "-m", "dev", "up", "--nodes", "0", "--run-dir", str(tmp_path)]
    log = tmp_path / "log" / "kube-apiserver-cell.log"
    with begin(command) as starting:
        await until(log.exists, what="an API server starts", timeout=30)
        starting.send_signal(signal.SIGINT)
        starting.communicate(timeout=90)

    assert starting.returncode == 130
    assert names_in(tmp_path) == {"log", "lock"}


def test_status_without_a_cluster_says_how_to_start_one(tmp_path: Path) -> None:
    """A wrong folder is a message and an exit code."""
    command = [sys.executable, "-m", "dev", "status", "--run-dir", str(tmp_path)]
    asked = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)

    assert asked.returncode == 1
    assert f"python -m dev up --run-dir {tmp_path}" in asked.stderr
