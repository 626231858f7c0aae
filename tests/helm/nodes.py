"""The product as helm installs it on two real nodes, and what is left on a node without it."""

import asyncio
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from dev import helm, imagebuild
from dev.cluster import Cluster
from dev.paths import PLANES
from dev.programs import SYSTEM_NAMESPACE
from dev.progress import PlainDisplay
from netclaim.api.resources import PODS
from tests.e2e.stack import Stack
from tests.helm.helm import ROOT
from tests.waiting import until

Raw = dict[str, Any]
PING = (
    'while [ ! -e "$0" ]; do for address in "$@"; do '
    '/bin/busybox ping -c 1 -W 2 "$address" > /dev/null 2>&1; echo "$address $?"; '
    "/bin/busybox usleep 20000; done; done"
)
"""Pings one address after the other until the file $0 is there; tells each address and whether it answered (0)."""


@dataclass
class Pings:
    """Pings of one Pod, one after the other: how many, how many unanswered, most of one address in a row."""

    sent: int = 0
    lost: int = 0
    worst: int = 0

    def read(self, report: str) -> None:
        """Take what PING told."""
        in_a_row = dict[str, int]()
        for line in report.splitlines():
            address, code = line.split()
            in_a_row[address] = 0 if code == "0" else in_a_row.get(address, 0) + 1
            self.sent += 1
            self.lost += code != "0"
            self.worst = max(self.worst, in_a_row[address])


@dataclass
class Installed:
    """The product on the nodes."""

    stack: Stack
    told: list[str] = field(default_factory=list)
    is_installed: bool = False
    tag: str = helm.TAG
    """Of the images that run."""
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
            self.is_installed, self.tag = True, helm.TAG

    def install_from(self, revision: str, folder: Path) -> None:
        """Install what an earlier commit has, its images and its charts, with that commit's own command."""
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
        command = [sys.executable, "-m", "dev", "programs", "install", "--run-dir", str(self.cluster.run_dir)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr or done.stdout
        self.is_installed = True

    def tag_images(self, tag: str) -> None:
        """Give the images another tag, on every node."""
        self.tag = tag
        for node in self.cluster.node_names:
            for target in imagebuild.TARGETS:
                image = f"docker.io/{imagebuild.REPOSITORY}/{target}"
                self.on(
                    node, "ctr", "-n", "k8s.io", "images", "tag", "--force", f"{image}:{helm.TAG}", f"{image}:{tag}"
                )

    def import_images(self, tag: str) -> None:
        """Give every node the images of this checkout, under a tag of their own."""
        self.tag = tag
        helm.import_images(self.cluster, imagebuild.build(PlainDisplay(), tag=tag))

    def give_images(self) -> None:
        """Give the images that run to every node, one that has none yet among them."""
        helm.import_images(self.cluster, imagebuild.build(PlainDisplay(), tag=helm.TAG))
        self.tag_images(self.tag)

    def upgrade(self) -> None:
        """Upgrade every release to images of the present tag: all Pods of the product are replaced."""
        helm.apply_charts(self.cluster, PlainDisplay(), self.told.append, tag=self.tag)

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

    async def away(self, component: str) -> dict[str, float]:
        """Seconds from the making of a component's Pods to their readiness, by node."""
        found = {}
        for pod in (await self.settled(component, len(self.cluster.node_names))).values():
            ready = next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")
            began, ended = (
                datetime.fromisoformat(text)
                for text in (pod["metadata"]["creationTimestamp"], ready["lastTransitionTime"])
            )
            found[pod["spec"]["nodeName"]] = (ended - began).total_seconds()
        return found

    @asynccontextmanager
    async def pinging(self, namespace: str, pod: str, addresses: Iterable[str]) -> AsyncIterator[Pings]:
        """Ping from inside the Pod for as long as this lasts; the figures are there afterwards."""
        kubectl = [str(self.cluster.kubectl_path), "--kubeconfig", str(self.cluster.cell_kubeconfig)]
        stop = f"/tmp/stop-{secrets.token_hex(3)}"
        words = [*kubectl, "exec", "-n", namespace, pod, "--", "/bin/sh", "-c", PING, stop, *addresses]
        process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = asyncio.create_task(process.communicate())
        pings = Pings()
        try:
            yield pings
        finally:
            await asyncio.to_thread(self.stack.execute, namespace, pod, "/bin/busybox", "touch", stop)
            report, complaint = await said
        assert process.returncode == 0, complaint.decode()
        pings.read(report.decode())

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
