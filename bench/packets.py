"""B14: packets between two guests, on one node and across nodes, against bare veth forwarding of the same run.

The bare side is what any router does: the same veth devices and MTU, one table, no rules of ours, no firewall, no
encapsulation. On one node it is one router, across nodes two routers with a link between them.
"""

import itertools
import json
import shutil
import statistics
import subprocess
from collections.abc import Callable

from bench.report import Report
from dev import packages
from dev.progress import PlainDisplay
from tests.net.datapath.lab import Guest, Lab, Namespace, lab
from tests.net.datapath.scene import ONE

GOALS = {"one node": {"TCP": 0.95, "UDP": None}, "across nodes": {"TCP": 0.8, "UDP": 0.65}}
MTU = 1460
PORT = "5201"
IPERF = "iperf3"


async def run(*, short: bool) -> Report:
    """Five measurements of 5 s each (short: one of 1 s), ours and bare in turn."""
    rounds, seconds = (1, 1) if short else (5, 5)
    report = Report("B14", f"packets between guests, p50 of {rounds} runs of {seconds} s, ours and bare in turn")
    if shutil.which(IPERF) is None:
        packages.install([IPERF], PlainDisplay())
    async with lab() as made:
        await made.two_nodes()
        client, near, far = [made.guest(node, ONE, 60 + n, 2 + n) for n, node in enumerate("AAB")]
        for guest in (client, near, far):
            await made.attach(guest)
        await made.announce(client, near, far)
        pairs = {
            "one node": ((client.namespace, near), _bare(made, routers=1)),
            "across nodes": ((client.namespace, far), _bare(made, routers=2)),
        }
        for place, ((ours, peer), (bare, server, addresses)) in pairs.items():
            ends = {"ours": (ours, peer.namespace, _addresses(peer)), "bare": (bare, server, addresses)}
            for family in (4, 6):
                _compare(report, place, family, ends, (rounds, seconds))
    report.notes.append("TCP rides on segmentation offload of veth; UDP is 64-byte payloads as fast as one sender can")
    return report


Ends = dict[str, tuple[Namespace, Namespace, dict[int, str]]]
"""By whose they are: the client, the server, the server's addresses by family."""


def _compare(report: Report, place: str, family: int, ends: Ends, effort: tuple[int, int]) -> None:
    rounds, seconds = effort
    measures: dict[str, tuple[Callable[[Namespace, str, int], float], str]] = {
        "TCP": (_tcp, "Gbit/s"),
        "UDP": (_udp, "kpps"),
        "round trip": (_latency, "us"),
    }
    for kind, (measure, unit) in measures.items():
        found: dict[str, list[float]] = {"ours": [], "bare": []}
        for _ in range(rounds):
            for whose, (source, server, addresses) in ends.items():
                with _Server(server):
                    found[whose].append(measure(source, addresses[family], seconds))
        ours, bare = (statistics.median(found[whose]) for whose in ("ours", "bare"))
        goal = GOALS[place].get(kind) if kind != "round trip" else None
        name = f"{place}, IPv{family}, {kind}"
        report.add(f"{name}: ours / bare", ours / bare, "x", goal=goal, at_least=True)
        report.add(f"{name}: ours", ours, unit)
        report.add(f"{name}: bare", bare, unit)


def _addresses(guest: Guest) -> dict[int, str]:
    return {4: guest.ipv4, 6: guest.ipv6}


def _bare(made: Lab, *, routers: int) -> tuple[Namespace, Namespace, dict[int, str]]:
    """Two guests with ``routers`` plain routers in between: the client, the server, the server's addresses."""
    chain = [made.namespace(f"bare{routers}-{number}") for number in range(routers + 2)]
    for number, (left, right) in enumerate(itertools.pairwise(chain)):
        ends = ("link", "add", f"r{number}", "mtu", str(MTU), "type", "veth", "peer", "name", f"l{number}")
        left.ip(*ends, "mtu", str(MTU), "netns", right.name)
        for end, namespace in enumerate((left, right), start=1):
            device = f"{'rl'[end - 1]}{number}"
            namespace.ip("addr", "add", f"10.99.{number}.{end}/24", "dev", device)
            namespace.ip("addr", "add", f"fd99:{number}::{end}/64", "dev", device, "nodad")
            namespace.ip("link", "set", device, "up")
    for router in chain[1:-1]:
        router.exec("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
    last = len(chain) - 2
    for number, namespace in enumerate(chain):
        if number < last:  # not on the server's own link yet
            namespace.ip("route", "add", f"10.99.{last}.0/24", "via", f"10.99.{number}.2")
            namespace.ip("-6", "route", "add", f"fd99:{last}::/64", "via", f"fd99:{number}::2")
        if number > 1:  # no longer on the client's
            namespace.ip("route", "add", "10.99.0.0/24", "via", f"10.99.{number - 1}.1")
            namespace.ip("-6", "route", "add", "fd99:0::/64", "via", f"fd99:{number - 1}::1")
    return chain[0], chain[-1], {4: f"10.99.{last}.2", 6: f"fd99:{last}::2"}


class _Server:
    """An iperf3 server for one run."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def __enter__(self) -> None:
        command = ["ip", "netns", "exec", self._namespace.name, IPERF, "-s", "-1", "-p", PORT, "--forceflush"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        while "listening" not in (line := self._process.stdout.readline()):
            if not line:
                raise RuntimeError("the iperf3 server ended")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def _tcp(source: Namespace, address: str, seconds: int) -> float:
    """Gbit/s received."""
    out = source.exec(IPERF, "-J", "-c", address, "-p", PORT, "-t", str(seconds))
    return float(json.loads(out)["end"]["sum_received"]["bits_per_second"]) / 1e9


def _udp(source: Namespace, address: str, seconds: int) -> float:
    """Thousand packets a second received."""
    out = source.exec(IPERF, "-J", "-c", address, "-p", PORT, "-t", str(seconds), "-u", "-b", "0", "-l", "64")
    total = json.loads(out)["end"]["sum"]
    return float(total["packets"] - total["lost_packets"]) / total["seconds"] / 1000


def _latency(source: Namespace, address: str, seconds: int) -> float:
    """Microseconds of a ping's round trip, on average."""
    out = source.exec("ping", "-n", "-q", "-c", str(200 * seconds), "-i", "0.002", address)
    return float(out.rsplit("=", 1)[1].split("/")[1]) * 1000
