"""The product's programs on a local cluster: installed, started, waited for, and ended with the cluster."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dev import accounts
from dev.builds import build_cni_binary
from dev.cluster import Cluster
from dev.errors import ClusterError
from dev.processes import free_ports

ROOT = Path(__file__).resolve().parent.parent
LOCATION = "us-central-1"
SYSTEM_NAMESPACE = "netclaim-system"
READY_WITHIN = 60.0
PREFIX = "netclaim-"
"""Begins the name of each program's process, and of its log."""

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
    health = iter(ports[1:])

    def account(name: str, node: str = "") -> str:
        return str(accounts.kubeconfig(cluster, name, node))

    def program(name: str, module: str, *flags: str, node: str | None = None) -> Program:
        port = next(health)
        argv = (sys.executable, "-m", module, *flags, "--metrics-address", f"127.0.0.1:{port}")
        return Program(f"{PREFIX}{name}", argv, port, node)

    programs = [
        program(
            "ipam",
            "nso",
            "--controllers",
            "ipam",
            "--kubeconfig",
            account("nso-ipam"),
            "--pool-linger",
            "1",
            "--orphan-grace",
            "15",
        ),
        program(
            "nso",
            "nso",
            "--controllers",
            "networks,claims,compute",
            "--kubeconfig",
            account("nso"),
            "--ipam-kubeconfig",
            account("nso-cell"),
            "--location",
            LOCATION,
        ),
        program(
            "vpc-controller", "vpc_controller", "--attachment-mode", "Netns", "--kubeconfig", account("vpc-controller")
        ),
        program(
            "webhook",
            "webhook",
            "--kubeconfig",
            account("netclaim-webhook"),
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
                account(accounts.AGENT, name),
                "--state-dir",
                str(node.state_dir),
                "--socket",
                str(node.cni_socket),
                node=name,
            )
        )
    return programs


def start(cluster: Cluster, say: Say = lambda _: None) -> dict[str, float]:
    """Install CRDs, admission and the CNI binary; start every program; return when all are ready.

    Programs that run already, of an earlier call, are ended first: what runs is always this checkout.
    Returns the seconds from its start to its readiness for each program; they start at once and share the machine.
    Raises ClusterError with the end of a program's log when it ends or does not become ready within a minute.
    """
    say("installing the API types on both control planes")
    install_types(cluster)
    for process in cluster.processes():
        if process["pid"] and process["name"].startswith(PREFIX):
            cluster.stop(process["name"])
    accounts.install(cluster, SYSTEM_NAMESPACE)
    programs = plan(cluster, free_ports(5 + len(cluster.node_names) + 1))
    _install_webhook(cluster, programs)
    if cluster.node_names:
        say("installing the CNI binary on the nodes")
        binary = build_cni_binary()
        for name in cluster.node_names:
            cluster.node(name).install_cni_plugin(binary)
    began = time.monotonic()
    for program in programs:
        cluster.start(program.name, program.argv, node=program.node, env={"PYTHONPATH": str(ROOT)})
    waiting, ready_after = list(programs), dict[str, float]()
    while waiting:
        for program in list(waiting):
            if _is_ready(cluster, program):
                ready_after[program.name] = time.monotonic() - began
                say(f"{program.name} is ready after {ready_after[program.name]:.1f} s")
                waiting.remove(program)
            elif time.monotonic() - began > READY_WITHIN:
                tail = cluster.log_tail(program.name)
                raise ClusterError(f"{program.name} is not ready after {READY_WITHIN:.0f} s\n{tail}")
        time.sleep(0.1)
    return ready_after


def install_types(cluster: Cluster) -> None:
    """Every CRD on both API servers, and the system namespace."""
    namespace = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {SYSTEM_NAMESPACE}}}\n"
    for plane in ("cell", "ipam"):
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds"), plane=plane)
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(ROOT / "crds"), plane=plane)
        cluster.kubectl("apply", "-f", "-", plane=plane, stdin=namespace)


def _install_webhook(cluster: Cluster, programs: list[Program]) -> None:
    """The admission objects that a chart would bring, with the webhook at its local address."""
    import yaml

    from webhook.manifests import manifests

    listen = next(p.argv[p.argv.index("--listen") + 1] for p in programs if p.name == "netclaim-webhook")
    documents = manifests(url=f"https://{listen}/mutate-v1-pod")
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))


def _is_ready(cluster: Cluster, program: Program) -> bool:
    """Ask the program's /readyz, from where it runs. Raises ClusterError when the program has ended."""
    cluster.check(program.name)
    url = f"http://127.0.0.1:{program.health_port}/readyz"
    if program.node is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return True
        except OSError:
            return False
    fetch = (sys.executable, "-c", "import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=2)", url)
    probe = cluster.node(program.node).command(fetch)
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
