"""The product's programs on a local cluster: installed, started, waited for, and ended with the cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dev.builds import build_cni_binary
from dev.cluster import Cluster
from dev.errors import ClusterError
from dev.processes import free_ports

ROOT = Path(__file__).resolve().parent.parent
LOCATION = "us-central-1"
SYSTEM_NAMESPACE = "netclaim-system"
READY_WITHIN = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Program:
    """One process: its name (and its log's), its words, the node it runs on, and the port of its health checks."""

    name: str
    argv: tuple[str, ...]
    health_port: int
    node: str | None = None


def plan(cluster: Cluster, ports: list[int]) -> list[Program]:
    """The programs of a cell with one IPAM control plane, and a node agent for each node.

    ``ports``: free TCP ports of 127.0.0.1, one for each program and one more for the webhook.
    """
    cell, ipam = str(cluster.cell_kubeconfig), str(cluster.ipam_kubeconfig)
    health = iter(ports[1:])

    def program(name: str, module: str, *flags: str, node: str | None = None) -> Program:
        port = next(health)
        argv = (sys.executable, "-m", module, *flags, "--metrics-address", f"127.0.0.1:{port}")
        return Program(f"netclaim-{name}", argv, port, node)

    programs = [
        program(
            "ipam", "nso", "--controllers", "ipam", "--kubeconfig", ipam, "--pool-linger", "1", "--orphan-grace", "15"
        ),
        program(
            "nso",
            "nso",
            "--controllers",
            "networks,claims,compute",
            "--kubeconfig",
            cell,
            "--ipam-kubeconfig",
            ipam,
            "--location",
            LOCATION,
        ),
        program("vpc-controller", "vpc_controller", "--attachment-mode", "Netns", "--kubeconfig", cell),
        program(
            "webhook",
            "webhook",
            "--kubeconfig",
            cell,
            "--listen",
            f"127.0.0.1:{ports[0]}",
        ),
    ]
    for name in cluster.node_names:
        node = cluster.node(name)
        programs.append(
            program(
                f"agent-{name}",
                "node_agent",
                "--node-name",
                name,
                "--srv6-locator",
                str(node.locator),
                "--underlay-interface",
                node.underlay,
                "--kubeconfig",
                str(node.kubeconfig),
                "--state-dir",
                str(node.state_dir),
                "--socket",
                str(node.cni_socket),
                node=name,
            )
        )
    return programs


def start(cluster: Cluster, say: Say = lambda _: None) -> None:
    """Install CRDs, admission and the CNI binary; start every program; return when all are ready.

    Raises ClusterError with the end of a program's log when it ends or does not become ready within a minute.
    """
    say("installing the API types on both control planes")
    install_types(cluster)
    programs = plan(cluster, free_ports(5 + len(cluster.node_names) + 1))
    _install_webhook(cluster, programs)
    if cluster.node_names:
        say("installing the CNI binary on the nodes")
        binary = build_cni_binary()
        for name in cluster.node_names:
            cluster.node(name).install_cni_plugin(binary)
    for program in programs:
        cluster.start(program.name, program.argv, node=program.node, env={"PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + READY_WITHIN
    for program in programs:
        say(f"waiting until {program.name} is ready")
        _wait_ready(cluster, program, deadline)


def install_types(cluster: Cluster) -> None:
    """Every CRD on both API servers, and the system namespace."""
    for kubeconfig in (cluster.cell_kubeconfig, cluster.ipam_kubeconfig):
        kubectl = (str(cluster.kubectl_path), "--kubeconfig", str(kubeconfig))
        _run(*kubectl, "apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"))
        _run(*kubectl, "wait", "--for=condition=Established", "--timeout=60s", "-f", str(ROOT / "crds"))
        _run(
            *kubectl,
            "apply",
            "-f",
            "-",
            stdin=f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {SYSTEM_NAMESPACE}}}\n",
        )


def _install_webhook(cluster: Cluster, programs: list[Program]) -> None:
    """The admission objects that a chart would bring, with the webhook at its local address."""
    import yaml

    from webhook.manifests import manifests

    listen = next(p.argv[p.argv.index("--listen") + 1] for p in programs if p.name == "netclaim-webhook")
    documents = manifests(url=f"https://{listen}/mutate-v1-pod")
    _run(
        str(cluster.kubectl_path),
        "--kubeconfig",
        str(cluster.cell_kubeconfig),
        "apply",
        "-f",
        "-",
        stdin=yaml.safe_dump_all(documents),
    )


def _wait_ready(cluster: Cluster, program: Program, deadline: float) -> None:
    probe: tuple[str, ...] = (
        sys.executable,
        "-c",
        "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=2)",
        f"http://127.0.0.1:{program.health_port}/readyz",
    )
    if program.node is not None:
        probe = tuple(cluster.node(program.node).command(probe))
    while subprocess.run(probe, capture_output=True, check=False).returncode:
        cluster.check(program.name)
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{program.name} is not ready after {READY_WITHIN:.0f} s\n{cluster.log_tail(program.name)}"
            )
        time.sleep(0.1)


def _run(*argv: str, stdin: str | None = None) -> str:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
    return done.stdout
