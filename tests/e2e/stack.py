"""The product on a local two-node cluster, as the e2e tests drive it: kubectl, pings from Pods, IPAM's records."""

import ipaddress
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dev.cluster import Cluster
from netclaim.api.resources import CLAIMS, INSTANCES, IP_ALLOCATIONS, IP_CLAIMS, PODS
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from tests.control_plane import asserted
from tests.waiting import until

Raw = dict[str, Any]
BUSYBOX = "node.local/busybox:1"


@dataclass
class Stack:
    """A running cluster with the programs on it, and administrators' clients of both API servers."""

    cluster: Cluster
    cell: Client
    ipam: Client

    # --- acting --------------------------------------------------------------------------------------------------

    def kubectl(self, *arguments: str, stdin: str | None = None, ipam: bool = False, check: bool = True) -> str:
        """kubectl against the cell (or IPAM); stdout, or stderr of a call that was allowed to fail."""
        return asserted(self.cluster, *arguments, plane="ipam" if ipam else "cell", stdin=stdin, check=check)

    def apply(self, *documents: Raw) -> None:
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def execute(self, namespace: str, pod: str, *argv: str, check: bool = True) -> str:
        """Run a command inside a Pod's only container."""
        return self.kubectl("exec", "-n", namespace, pod, "--", *argv, check=check)

    def pings(self, namespace: str, pod: str, address: str, *, count: int = 2) -> bool:
        """Whether every one of ``count`` pings from inside the Pod is answered."""
        family = "-6" if ":" in address else "-4"
        report = self.execute(
            namespace, pod, "/bin/busybox", "ping", family, "-c", str(count), "-W", "2", address, check=False
        )
        return f"{count} packets transmitted, {count} packets received" in report

    def unanswered(self, namespace: str, pod: str, addresses: Iterable[str]) -> list[str]:
        """Those of ``addresses`` whose first ping from inside the Pod is not answered within two seconds."""
        script = 'for a in "$@"; do /bin/busybox ping -c 1 -W 2 "$a" > /dev/null || echo "$a"; done'
        return self.execute(namespace, pod, "/bin/sh", "-c", script, "pings", *addresses).split()

    def received(self, namespace: str, pod: str) -> int:
        """Packets that the Pod's eth0 has received so far."""
        return int(self.execute(namespace, pod, "/bin/cat", "/sys/class/net/eth0/statistics/rx_packets"))

    # --- observing -----------------------------------------------------------------------------------------------

    async def instances(self, namespace: str, workload: str) -> dict[str, Raw]:
        """The workload's instances by name."""
        listed = await self.cell.list(INSTANCES, namespace)
        return {i["metadata"]["name"]: i for i in listed if i["spec"]["workloadRef"]["name"] == workload}

    async def ready(self, namespace: str, workload: str, replicas: int, *, timeout: float = 90.0) -> dict[str, Raw]:
        """Wait until exactly ``replicas`` instances exist and all are Ready; they by name."""

        async def all_ready() -> dict[str, Raw] | None:
            found = await self.instances(namespace, workload)
            states = {name: _condition(i, "Ready") for name, i in found.items()}
            going = [name for name, i in found.items() if "deletionTimestamp" in i["metadata"]]
            assert len(found) == replicas, f"{len(found)} instances: {states}"
            assert not going, f"going: {going}"
            assert all(state.get("status") == "True" for state in states.values()), f"{states}"
            return found or {"": {}}

        return await until(
            all_ready, timeout=timeout, what=f"{replicas} ready instances of {namespace}/{workload}", interval=0.2
        )

    async def claim(self, namespace: str, name: str) -> Raw | None:
        try:
            return await self.cell.get(CLAIMS, namespace, name)
        except NotFound:
            return None

    async def published(self, namespace: str) -> dict[str, dict[str, str]]:
        """Claim name -> what it publishes: family or class -> address or block, as networks in text form."""
        out: dict[str, dict[str, str]] = {}
        for claim in await self.cell.list(CLAIMS, namespace):
            status = claim.get("status", {})
            entry = {a["family"]: _network(a["address"]) for a in status.get("addresses", [])}
            entry |= {a["class"]: _network(a["address"]) for a in status.get("externalAddresses", [])}
            out[claim["metadata"]["name"]] = entry
        return out

    async def held(self, project: str) -> dict[tuple[str, str], dict[str, Raw]]:
        """(cell namespace, claim name) -> text form of each block that IPAM holds for it -> the IPAllocation."""
        allocations = {
            a["spec"]["claimRef"]["uid"]: a
            for a in await self.ipam.list(IP_ALLOCATIONS, project)
            if a["spec"]["purpose"] == "Claim"
        }
        out: dict[tuple[str, str], dict[str, Raw]] = {}
        for claim in await self.ipam.list(IP_CLAIMS, project):
            owner = claim["spec"].get("ownerRef", {})
            allocation = allocations.get(claim["metadata"]["uid"])
            if allocation is not None:
                key = (owner["namespace"], owner["name"])
                out.setdefault(key, {})[_network(allocation["spec"]["cidr"])] = allocation
        return out

    async def assert_published_is_held(self, namespace: str, project: str) -> None:
        """R13: all that a claim of ``namespace`` publishes is the block of an IPAllocation held for that claim."""
        held = await self.held(project)
        for name, addresses in (await self.published(namespace)).items():
            assert set(addresses.values()) == set(held.get((namespace, name), {})), (
                f"claim {namespace}/{name} publishes {addresses}, IPAM holds {sorted(held.get((namespace, name), {}))}"
            )

    async def pod_is_gone(self, namespace: str, name: str, uid: str) -> bool:
        try:
            pod = await self.cell.get(PODS, namespace, name)
        except NotFound:
            return True
        return bool(pod["metadata"]["uid"] != uid)

    def program_logs(self) -> dict[str, str]:
        """Program name -> its log so far."""
        folder = Path(self.cluster.run_dir) / "log"
        return {path.stem: path.read_text(errors="replace") for path in folder.glob("netclaim-*.log")}


@contextmanager
def two_nodes(variable: str, start: Callable[[Cluster], object] = lambda _: None) -> Iterator[Cluster]:
    """Two real nodes, on which ``start`` starts something; or the running pair that the variable names, as it is."""
    running = os.environ.get(variable)
    if running:
        yield Cluster.load(Path(running))
        return
    run_dir = Path(tempfile.mkdtemp(prefix="netclaim-nodes-"))
    cluster = Cluster.up(run_dir, nodes=2)
    try:
        start(cluster)
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(run_dir, ignore_errors=True)


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Stack]:
    """The cluster with administrators' clients of both API servers."""
    cell = await Client.connect(str(cluster.cell_kubeconfig), user_agent="netclaim-tests")
    ipam = await Client.connect(str(cluster.ipam_kubeconfig), user_agent="netclaim-tests")
    yield Stack(cluster, cell, ipam)
    await cell.close()
    await ipam.close()


def workload(
    name: str,
    namespace: str,
    *,
    replicas: int = 1,
    network: str = "default",
    policy: str = "Delete",
    families: tuple[str, ...] = ("IPv6", "IPv4"),
    classes: tuple[str, ...] = (),
) -> Raw:
    """A Workload of busybox Pods that each claim ``eth0`` on ``network``."""
    spec: Raw = {"network": {"name": network}, "ipFamilies": list(families), "reclaimPolicy": policy}
    if classes:
        spec["addresses"] = [{"class": c} for c in classes]
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/bin"],
    }
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "networkInterfaceClaimTemplates": [{"metadata": {"name": "eth0"}, "spec": spec}],
            "template": {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}},
        },
    }


def network(name: str, namespace: str, *, families: tuple[str, ...] = ("IPv6", "IPv4")) -> Raw:
    return {
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "Network",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"ipFamilies": list(families), "mtu": 1460},
    }


def addresses_of(instance: Raw) -> dict[str, str]:
    """Family -> the instance's bare address that answers a ping."""
    out = {}
    for interface in instance["status"]["networkInterfaces"]:
        for address in interface["addresses"]:
            block = ipaddress.ip_interface(address["address"])
            first = block.network[0] if block.network.prefixlen == block.max_prefixlen else block.network[1]
            out[address["family"]] = str(first)
    return out


def _network(text: str) -> str:
    return str(ipaddress.ip_network(text, strict=False))


def _condition(obj: Raw, kind: str) -> Raw:
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})
