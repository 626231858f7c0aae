"""``python -m dev demo``: the whole chain on a local cluster, from a Workload to a ping, and the proof of isolation."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from dev import programs
from dev.cluster import Cluster, down
from dev.errors import ClusterError
from dev.paths import RunDir
from dev.progress import display
from netclaim.addresses import host_address

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
NAMESPACE = "shop"
READY_WITHIN = 120.0

Raw = dict[str, Any]


class Demo:
    """The steps of the demo on a running cluster; each prints what it shows."""

    def __init__(self, cluster: Cluster, console: Console) -> None:
        self.cluster = cluster
        self.console = console

    def kubectl(self, *arguments: str, ipam: bool = False, check: bool = True) -> str:
        """Run kubectl against the cell (or IPAM); stdout, or stderr of a call that may fail."""
        return self.cluster.kubectl(*arguments, plane="ipam" if ipam else "cell", check=check, timeout=120)

    def show(self, *arguments: str) -> None:
        """Run kubectl and print both the command and its answer."""
        self.console.print(f"[bold]$ kubectl {' '.join(arguments)}[/bold]", highlight=False)
        self.console.print(self.kubectl(*arguments), highlight=False, soft_wrap=True, markup=False)

    def whisper(self, text: str) -> None:
        """Tell what is being done, dimly."""
        self.console.print(f"  {text}", highlight=False, style="dim")

    def step(self, text: str) -> None:
        self.console.rule(f"[bold]{text}", align="left")

    def run(self) -> None:
        self.step("addresses: two projects in IPAM with the same class names")
        self.kubectl("apply", "-f", str(EXAMPLES / "ipam-two-projects.yaml"), ipam=True)
        self.step("a network, and a workload whose three replicas each claim an interface on it")
        self.console.print((EXAMPLES / "quickstart.yaml").read_text(), highlight=False, markup=False, soft_wrap=True)
        applied = time.monotonic()
        self.kubectl("apply", "-f", str(EXAMPLES / "quickstart.yaml"))
        self.wait_ready("web", 3)
        self.console.print(
            f"three replicas Ready {time.monotonic() - applied:.1f} s after kubectl apply", highlight=False
        )
        self.show("get", "networkinterfaceclaims,networkinterfaces,vpcattachments", "-n", NAMESPACE)
        self.show("get", "instances", "-n", NAMESPACE)
        self.step("pings between the instances, from inside their Pods")
        self.ping_all("web")
        self.step("another network with the same IPv4 addresses: neither hears the other")
        self.kubectl("apply", "-f", str(EXAMPLES / "same-addresses.yaml"))
        self.wait_ready("twin", 4)
        self.show("get", "instances", "-n", NAMESPACE)
        self.prove_isolation()

    def instances(self, workload: str) -> dict[str, Raw]:
        """The workload's instances by name."""
        listed = json.loads(self.kubectl("get", "instances", "-n", NAMESPACE, "-o", "json"))["items"]
        return {i["metadata"]["name"]: i for i in listed if i["spec"]["workloadRef"]["name"] == workload}

    def wait_ready(self, workload: str, replicas: int) -> None:
        """Wait until that many instances are Ready, telling each change of the reasons."""
        deadline, told = time.monotonic() + READY_WITHIN, ""
        while True:
            conditions: dict[str, Raw] = {
                name: next((c for c in i.get("status", {}).get("conditions", []) if c["type"] == "Ready"), {})
                for name, i in self.instances(workload).items()
            }
            state = ", ".join(f"{name}: {c.get('reason', 'Pending')}" for name, c in sorted(conditions.items()))
            if state != told:
                self.console.print(f"  {state or 'no instance yet'}", highlight=False, style="dim")
                told = state
            if sum(c.get("status") == "True" for c in conditions.values()) == replicas:
                return
            if time.monotonic() > deadline:
                details = self.kubectl("get", "instances,pods,events", "-n", NAMESPACE, "-o", "wide")
                raise ClusterError(
                    f"{replicas} instances of {workload} are not Ready after {READY_WITHIN:.0f} s\n{details}"
                )
            time.sleep(0.2)

    def ping_all(self, workload: str) -> None:
        """Ping every instance from every other one in both families, and print the table."""
        table = Table("from", "node", "to", "node", "family", "address", "answered", "round trip")
        instances = self.instances(workload)
        failed = []
        for source, from_instance in instances.items():
            for target, to_instance in instances.items():
                for family, address in addresses(to_instance).items() if source != target else ():
                    answered, round_trip = self.ping(source, address)
                    nodes = from_instance["status"].get("node", ""), to_instance["status"].get("node", "")
                    table.add_row(
                        source,
                        nodes[0],
                        target,
                        nodes[1],
                        family,
                        address,
                        "yes" if answered else "[red]NO",
                        round_trip,
                    )
                    failed += [] if answered else [f"{source} -> {target} {address}"]
        self.console.print(table)
        if failed:
            raise ClusterError(f"not answered: {', '.join(failed)}")

    def ping(self, pod: str, address: str, *, count: int = 2) -> tuple[bool, str]:
        """Ping from inside the Pod: whether all were answered, and the average round trip."""
        report = self.kubectl(
            "exec",
            "-n",
            NAMESPACE,
            pod,
            "--",
            "/bin/busybox",
            "ping",
            "-c",
            str(count),
            "-W",
            "2",
            address,
            check=False,
        )
        line = next((line for line in report.splitlines() if "min/avg/max" in line), "")
        average = f"{line.split('=')[1].split('/')[1]} ms" if line else "-"
        return f"{count} packets received" in report, average

    def received(self, pod: str) -> int:
        """Packets that the Pod's eth0 has received."""
        path = "/sys/class/net/eth0/statistics/rx_packets"
        return int(self.kubectl("exec", "-n", NAMESPACE, pod, "--", "/bin/cat", path))

    def prove_isolation(self) -> None:
        """Ping an address that both networks hold, and one that only the other one holds; count who heard it."""
        web = {addresses(i)["IPv4"]: name for name, i in self.instances("web").items()}
        twin = {addresses(i)["IPv4"]: name for name, i in self.instances("twin").items()}
        source = "web-0"
        shared = next((a for a, name in web.items() if a in twin and name != source), None)
        alone = next((a for a in twin if a not in web), None)
        if shared is None or alone is None:
            raise ClusterError(f"the two networks do not hold the same addresses: {web} {twin}")
        pair = web[shared], twin[shared]
        before = [self.received(pod) for pod in pair]
        answered, _ = self.ping(source, shared, count=20)
        heard = [self.received(pod) - count for pod, count in zip(pair, before, strict=True)]
        reached, _ = self.ping(source, alone)
        own, _ = self.ping(next(name for a, name in twin.items() if a != alone), alone)
        table = Table("what", "outcome")
        table.add_row(f"20 pings from {source} to {shared}", "answered" if answered else "[red]not answered")
        table.add_row(f"heard by {pair[0]} (its network, {shared})", f"{heard[0]} packets")
        table.add_row(f"heard by {pair[1]} (the other network, {shared})", f"{heard[1]} packets")
        table.add_row(
            f"ping from {source} to {alone}, which only the other network holds", "answered" if reached else "no answer"
        )
        table.add_row(
            f"the same ping from inside the other network ({twin[alone]})", "answered" if own else "[red]not answered"
        )
        self.console.print(table)
        if not answered or heard[0] < 20 or heard[1] != 0 or reached or not own:
            raise ClusterError("the two networks are not isolated from each other")


def addresses(instance: Raw) -> dict[str, str]:
    """Family -> the bare address of the instance's first interface that answers a ping."""
    listed = instance["status"]["networkInterfaces"][0]["addresses"]
    return {address["family"]: host_address(address["address"]) for address in listed}


def _program_table(cluster: Cluster, ready_after: dict[str, float]) -> Table:
    """Start time and resident memory of each program."""
    table = Table("program", "ready after", "memory")
    resident = {process["name"]: process["mib"] for process in cluster.processes()}
    for name, seconds in ready_after.items():
        table.add_row(name, f"{seconds:.1f} s", f"{resident[name]} MiB")
    return table


def _install_with_helm(steps: Demo) -> None:
    """Install the charts, and show what they made."""
    from dev import helm

    with display() as shown:
        helm.install(steps.cluster, shown, steps.whisper)
        steps.console.print("[bold]$ helm list[/bold]", highlight=False)
        listed = helm.helm(steps.cluster, shown).run("list", "--namespace", programs.SYSTEM_NAMESPACE)
        steps.console.print(listed.rstrip(), highlight=False, soft_wrap=True, markup=False)
    steps.show("get", "pods", "-n", programs.SYSTEM_NAMESPACE, "-o", "wide")


def _show_calls(steps: Demo) -> None:
    """The container runtime's calls, as Multus on the nodes logged them: the plugin is executed for each sandbox."""
    steps.step("the container runtime's CNI calls, from Multus' logs")
    for node in steps.cluster.node_names:
        log = (steps.cluster.run.log / f"multus-{node}.log").read_text(errors="replace")
        calls = [line for line in log.splitlines() if "[verbose] Add:" in line and f" {NAMESPACE}:" in line]
        for line in calls[:2]:
            steps.console.print(f"{node}: {line[:600]}", highlight=False, soft_wrap=True, markup=False)


def demo(run_dir: Path, *, with_helm: bool = False) -> None:
    """Start a fresh cluster with the programs in ``run_dir``, run every step, and leave the cluster up to look around.

    ``with_helm``: the programs as an operator installs them, in Pods of the nodes. Ctrl-C, or a step that fails, ends
    the cluster; the logs stay in ``run_dir``.
    """
    # A log has no width of its own: wide enough for the tables. A MAC address with :cd: is no emoji.
    console, began = Console(width=None if sys.stdout.isatty() else 132, emoji=False), time.monotonic()
    if down(RunDir(run_dir)):
        console.print("ended the cluster of an earlier run")
    cluster = Cluster.up(run_dir, nodes=2, detach=True)
    try:
        steps = Demo(cluster, console)
        if with_helm:
            _install_with_helm(steps)
        else:
            ready_after = programs.start(cluster, steps.whisper)
            console.print(_program_table(cluster, ready_after))
        console.print(f"cluster and programs ready after {time.monotonic() - began:.1f} s", highlight=False)
        steps.run()
        if with_helm:
            _show_calls(steps)
    except BaseException:
        cluster.down()
        raise
    console.rule(f"[bold]done in {time.monotonic() - began:.1f} s", align="left")
    console.print(
        f"The cluster stays up: source {run_dir}/env; $KUBECTL --kubeconfig $CELL_KUBECONFIG ...; make down ends it.",
        highlight=False,
        soft_wrap=True,
    )
