"""The local nodes: real kubelets whose Pods talk across nodes, on a machine whose own network never changes."""

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
from dev.processes import children_of, start_time
from tests.e2e.dev.machine import Traces, own_network
from tests.waiting import until

SECOND_NETWORK = """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: second}
spec:
  config: '{"cniVersion":"1.0.0","name":"second","type":"bridge","bridge":"br-second",
    "ipam":{"type":"host-local","ranges":[[{"subnet":"10.99.0.0/24"}]]}}'
"""
POD = """
---
apiVersion: v1
kind: Pod
metadata: {{name: on-{node}, annotations: {{k8s.v1.cni.cncf.io/networks: second}}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: c, image: "node.local/busybox:1", imagePullPolicy: Never, command: [sh, -c, "echo up; exec sleep 100000"]}}
"""


@pytest.fixture(autouse=True)
def invariants_hold() -> None:
    """The clusters here run none of the product's programs, so there is no claim or allocation to check."""


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    return own_network()


@pytest.fixture(scope="module")
def nodes(before: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster.up(tmp_path_factory.mktemp("run"), nodes=2)
    started.kubectl("apply", "-f", "-", stdin=SECOND_NETWORK)
    started.kubectl("apply", "-f", "-", stdin="".join(POD.format(node=node) for node in started.node_names))
    started.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s")
    yield started
    started.down()


def output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pod_address(nodes: Cluster, pod: str) -> str:
    return nodes.kubectl("get", "pod", pod, "-o", "jsonpath={.status.podIP}")


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def sandboxes(nodes: Cluster) -> list[int]:
    return [len(output(nodes.node(name).command(["ls", "/run/netns"])).split()) for name in nodes.node_names]


def restarts(nodes: Cluster, pod: str) -> str:
    status = "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}"
    return nodes.kubectl("get", "pod", pod, "-o", status)


def test_a_pod_gets_its_second_interface_through_multus(nodes: Cluster) -> None:
    """R37: the container runtime's call reaches the plugins, by way of Multus."""
    status = nodes.kubectl(
        "get", "pod", "on-node1", "-o", r"jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}"
    )
    seen = {entry["interface"]: entry["ips"][0] for entry in json.loads(status)}
    inside = nodes.kubectl("exec", "on-node1", "--", "ip", "-4", "-o", "addr")

    assert set(seen) == {"eth0", "net1"}
    assert all(address in inside for address in seen.values())


def test_pods_of_two_nodes_reach_each_other_and_their_logs_can_be_read(nodes: Cluster) -> None:
    """spec/testing.md: two real nodes, exec and logs through the API server although no link leads to a node."""
    for here, there in (("on-node1", "on-node2"), ("on-node2", "on-node1")):
        answer = nodes.kubectl("exec", here, "--", "ping", "-c", "1", "-W", "2", pod_address(nodes, there))
        assert " 0% packet loss" in answer
        assert nodes.kubectl("logs", here) == "up\n"


async def test_the_scheduler_spreads_a_deployment_and_deleting_it_leaves_no_sandbox(nodes: Cluster) -> None:
    """spec/testing.md: scheduler, controller manager and kubelets work together."""
    program = ["--image=node.local/busybox:1", "--replicas=2", "--", "sh", "-c", "trap exit TERM; sleep 1000 & wait"]
    nodes.kubectl("create", "deployment", "web", *program)
    nodes.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    used = nodes.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    while_up = sandboxes(nodes)
    nodes.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")

    assert sorted(used) == ["node1", "node2"]
    assert while_up == [2, 2]
    await until(lambda: sandboxes(nodes) == [1, 1], what="the sandboxes are gone", timeout=30)


def test_a_node_has_no_way_to_the_machines_uplink_and_the_machine_none_into_it(
    nodes: Cluster, before: dict[str, str]
) -> None:
    """spec/testing.md: both nodes live in namespaces; the machine's own network, rules and sysctls stay untouched."""
    node = nodes.node("node1")
    routed = subprocess.run(
        node.command(["ip", "route", "get", "192.0.2.1"]), capture_output=True, text=True, check=False
    )

    assert own_network() == before
    assert routed.returncode != 0
    assert "unreachable" in routed.stderr.lower()


def test_nodes_see_each_other_over_the_ipv6_underlay_with_room_for_an_outer_header(nodes: Cluster) -> None:
    """spec/node-agent.md: MTU of the network + 40 fits the underlay."""
    one, two = (nodes.node(name) for name in nodes.node_names)
    full = ["ping", "-6", "-c", "1", "-W", "2", "-M", "do", "-s", "1492", two.underlay_address]
    pinged = subprocess.run(one.command(full), capture_output=True, text=True, check=False)

    assert pinged.returncode == 0, pinged.stdout


def test_a_command_inside_a_node_is_the_process_that_was_started_and_sees_the_nodes_own_folders(
    nodes: Cluster,
) -> None:
    """Tests kill an agent by the process id they hold, and two agents use one default path."""
    node = nodes.node("node1")
    script = "echo $$; readlink /proc/self >/dev/null && hostname; ls /run/netns | wc -l; touch /run/netclaim/mark"
    with subprocess.Popen(node.command(["sh", "-c", script]), stdout=subprocess.PIPE, text=True) as process:
        pid, hostname, sandboxes = process.communicate(timeout=20)[0].split()
    listed = [output(nodes.node(name).command(["ls", "/run/netclaim"])) for name in nodes.node_names]

    assert int(pid) == process.pid
    assert hostname == "node1"
    assert int(sandboxes) >= 1
    assert listed == ["mark\n", ""]
    assert not Path("/run/netclaim/mark").exists()


def test_a_plugin_is_replaced_while_it_runs(nodes: Cluster, tmp_path: Path) -> None:
    """T29: an installer that overwrites a running binary is refused by the kernel; write and rename is not."""
    node = nodes.node("node1")
    node.install_cni_plugin(Path("/bin/sleep"), "probe")
    with subprocess.Popen([node.cni_bin_dir / "probe", "100"]) as running:
        node.install_cni_plugin(Path("/bin/true"), "probe")
        replaced = subprocess.run([node.cni_bin_dir / "probe"], check=False)
        running.kill()

    assert replaced.returncode == 0


async def test_a_node_that_lost_power_comes_back_with_its_disk_and_new_sandboxes(nodes: Cluster) -> None:
    """T09: a reboot takes namespaces, links and /run, and leaves /var."""
    node = nodes.node("node2")
    links = output(node.command(["ip", "-o", "link"]))
    (node.state_dir / "kept").touch()
    nodes.start("resident", [sys.executable, "-c", "import time; time.sleep(1000)"], node="node2")
    resident = nodes.pid("resident")
    nodes.power_off("node2")

    assert "veth" in links
    assert not node.netns.exists()
    await until(lambda: start_time(resident) is None, what="a program inside the node ends with it")
    nodes.power_on("node2")
    assert (node.state_dir / "kept").exists()
    await until(lambda: restarts(nodes, "on-node2") == "1 true", what="the Pod runs again in a new sandbox", timeout=60)

    def answers() -> bool:
        # The address is the new sandbox's, and is known a moment after the container runs.
        ping = ("ping", "-c", "1", "-W", "2", pod_address(nodes, "on-node2"))
        try:
            return " 0% packet loss" in nodes.kubectl("exec", "on-node1", "--", *ping)
        except ClusterError:  # kubectl's exit code is the ping's
            return False

    await until(answers, what="the Pod answers from its new sandbox", timeout=30)
    nodes.restart("resident")

    def runs_again() -> bool:
        pid = nodes.pid("resident")
        return bool(pid) and "time.sleep(1000)" in command_of(pid)

    await until(runs_again, what="the program runs inside the node again", timeout=20)


@pytest.mark.parametrize("how", ["down", "supervisor killed", "supervisor and reaper killed"])
async def test_a_cluster_with_running_pods_ends_without_a_trace(
    tmp_path: Path, before: dict[str, str], how: str
) -> None:
    """spec/testing.md: `down` leaves no process, mount, cgroup, namespace, link or rule, SIGKILL neither."""
    cluster = Cluster.up(tmp_path, nodes=1)
    cluster.kubectl("apply", "-f", "-", stdin=SECOND_NETWORK + POD.format(node="node1"))
    cluster.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s")
    traces = Traces.of(cluster)
    commands = [command_of(pid) for pid in traces.processes]
    supervisor = cluster.state.supervisor_pid
    reaper = min(pid for pid in children_of(supervisor))
    if how.startswith("supervisor and"):
        os.kill(reaper, signal.SIGKILL)
    if how.startswith("supervisor"):
        os.kill(supervisor, signal.SIGKILL)
        await until(lambda: not [t for t in traces.left() if t.startswith("process")], what="no process", timeout=30)
    if how != "supervisor killed":
        cluster.down()

    await until(lambda: traces.left() == [], what="nothing is left", timeout=30)
    assert any("containerd-shim" in command for command in commands)
    assert own_network() == before
