"""The product as helm installs it on two real nodes, and what is left on a node without it."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from dev import helm, imagebuild
from dev.cluster import Cluster
from dev.paths import PLANES
from dev.programs import SYSTEM_NAMESPACE
from dev.progress import PlainDisplay
from netclaim.api.resources import PODS
from tests.e2e.stack import Stack
from tests.waiting import until

Raw = dict[str, Any]
STOP = "/tmp/stop"
COUNT = (
    'n=0; lost=0; row=0; worst=0; while [ ! -e "$1" ]; do n=$((n+1)); '
    'if /bin/busybox ping -c 1 -W 2 "$2" > /dev/null 2>&1; then row=0; '
    "else lost=$((lost+1)); row=$((row+1)); [ $row -gt $worst ] && worst=$row; fi; "
    "/bin/busybox usleep 50000; done; echo $n $lost $worst"
)


@dataclass
class Pings:
    """Pings of one Pod to one address, one after the other: how many, how many unanswered, most of them in a row."""

    sent: int = 0
    lost: int = 0
    worst: int = 0


@dataclass
class Installed:
    """The product on the nodes."""

    stack: Stack
    told: list[str] = field(default_factory=list)
    is_installed: bool = False
    since: dict[str, int] = field(default_factory=dict)
    """Length of each audit log when the charts were installed."""

    @property
    def cluster(self) -> Cluster:
        return self.stack.cluster

    def install(self) -> None:
        """Install every chart, unless that was done."""
        if not self.is_installed:
            self.since = {plane: self.cluster.run.audit_log(plane).stat().st_size for plane in PLANES}
            helm.install(self.cluster, PlainDisplay(), self.told.append)
            self.is_installed = True

    def upgrade(self, tag: str) -> None:
        """Give every image another tag, and upgrade every release to it: all Pods of the product are replaced."""
        for node in self.cluster.node_names:
            for target in imagebuild.TARGETS:
                image = f"docker.io/{imagebuild.REPOSITORY}/{target}"
                self.on(
                    node, "ctr", "-n", "k8s.io", "images", "tag", "--force", f"{image}:{helm.TAG}", f"{image}:{tag}"
                )
        runner = helm.helm(self.cluster, PlainDisplay())
        for release, (chart, values) in helm.releases(self.cluster, tag).items():
            runner.apply(release, chart, values)
        helm.wait(self.cluster)

    def uninstall(self) -> None:
        """Take everything away as the documentation tells."""
        self.is_installed = False
        helm.uninstall(self.cluster, PlainDisplay(), self.told.append)

    def denied(self) -> list[str]:
        """Calls of the product's accounts that RBAC refused since the charts were installed.

        When they are uninstalled the programs lose their rights a moment before they end, and cannot give a Lease back.
        """
        found = []
        for plane, offset in self.since.items():
            for line in self.cluster.run.audit_log(plane).read_bytes()[offset:].splitlines():
                event = json.loads(line)
                account = event["user"]["username"]
                decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
                if account.startswith(f"system:serviceaccount:{SYSTEM_NAMESPACE}:") and decision == "forbid":
                    found.append(f"{account} {event['verb']} {event['requestURI']}")
        return found

    async def pods(self, component: str) -> dict[str, Raw]:
        """The Pods of a component by name, those that go left out."""
        listed = await self.stack.cell.list(
            PODS, SYSTEM_NAMESPACE, label_selector=f"app.kubernetes.io/name={component}"
        )
        return {one["metadata"]["name"]: one for one in listed if "deletionTimestamp" not in one["metadata"]}

    @asynccontextmanager
    async def pinging(self, namespace: str, pod: str, address: str) -> AsyncIterator[Pings]:
        """Ping from inside the Pod for as long as this lasts; the figures are there afterwards."""
        kubectl = [str(self.cluster.kubectl_path), "--kubeconfig", str(self.cluster.cell_kubeconfig)]
        words = [*kubectl, "exec", "-n", namespace, pod, "--", "/bin/sh", "-c", COUNT, "sh", STOP, address]
        process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pings = Pings()
        try:
            yield pings
        finally:
            await asyncio.to_thread(self.stack.execute, namespace, pod, "/bin/busybox", "touch", STOP)
            said, complaint = await process.communicate()
        assert process.returncode == 0, complaint.decode()
        pings.sent, pings.lost, pings.worst = map(int, said.split())

    def on(self, node: str, *words: str) -> str:
        """Run a command in the node's namespaces and return what it says."""
        command = self.cluster.node(node).command(words)
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def left_on(self, node: str) -> list[str]:
        """What of netclaim is on a node: links, rules, routes, firewall tables, files. Empty when nothing is."""
        links = [line.split()[0] for line in self.on(node, "ip", "-brief", "link").splitlines()]
        found = [f"link {name}" for name in links if name[0] in "GV"]
        for family in ("-4", "-6"):
            rules = self.on(node, "ip", family, "rule").splitlines()
            found += [f"rule {rule}" for rule in rules if rule.split()[-1] not in {"local", "main", "default"}]
            found += [f"rule {rule}" for rule in rules if rule.endswith("lookup local") and not rule.startswith("0:")]
            routes = self.on(node, "ip", family, "route", "show", "table", "all").splitlines()
            found += [f"route {route}" for route in routes if "seg6" in route or "table 1" in route]
        tables = self.on(node, "nft", "list", "tables").splitlines()
        found += [table for table in tables if "netclaim" in table]
        here = self.cluster.node(node)
        found += [str(file) for file in here.cni_bin_dir.glob("*netclaim*")]
        found += [str(file) for file in here.state_dir.rglob("*")]
        found += [name for name in self.on(node, "ls", "/run").split() if name == "netclaim"]
        return found

    async def settled(self, component: str, count: int) -> dict[str, Raw]:
        """Wait until a component has this many Pods, all ready."""

        async def ready() -> dict[str, Raw]:
            found = await self.pods(component)
            assert len(found) == count, sorted(found)
            for name, pod in found.items():
                states = {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}
                assert states.get("Ready") == "True", f"{name}: {states}"
            return found

        return await until(ready, timeout=120, what=f"{count} ready Pods of {component}", interval=0.3)
