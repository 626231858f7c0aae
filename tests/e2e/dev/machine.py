"""What a cluster must leave as it was: the machine's own network, and everything that carries the run's id."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import Cluster
from dev.isolation import NETNS_DIR, hierarchies
from dev.processes import children_of, start_time

NETWORK = (
    ("ip", "-o", "link"),
    ("ip", "-o", "addr"),
    ("ip", "rule"),
    ("ip", "-6", "rule"),
    ("ip", "route", "show", "table", "all"),
    ("ip", "-6", "route", "show", "table", "all"),
    ("nft", "list", "ruleset"),
    ("sysctl", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.ipv4.conf.all.rp_filter"),
)


def own_network() -> dict[str, str]:
    """The machine's links, addresses, rules, routes, packet filter and forwarding, by the command that shows them."""
    return {
        " ".join(command): subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for command in NETWORK
    }


def mounts_below(folder: Path) -> list[str]:
    """The machine's mount points below a folder."""
    points = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
    return [point for point in points if Path(point).is_relative_to(folder)]


@dataclass
class Traces:
    """Every process of a run with its start time, and the id in the names of everything else."""

    run_id: str
    run_dir: Path
    processes: dict[int, str]

    @classmethod
    def of(cls, cluster: Cluster) -> "Traces":
        processes: dict[int, str] = {}
        waiting = [cluster.state.supervisor_pid]
        while waiting:
            pid = waiting.pop()
            processes[pid] = start_time(pid) or ""
            waiting += children_of(pid)
        return cls(cluster.state.run_id, cluster.run_dir, processes)

    def left(self) -> list[str]:
        """Whatever of the run is still there."""
        alive = [f"process {pid}" for pid, began in self.processes.items() if start_time(pid) == began]
        name = f"nc-{self.run_id}*"
        found = [*NETNS_DIR.glob(name), *Path(tempfile.gettempdir()).glob(name)]
        found += [path for root in hierarchies() for path in root.glob(name)]
        files = {path.name for path in self.run_dir.iterdir()} - {"log", "log.previous", "lock"}
        return [*alive, *map(str, found), *mounts_below(self.run_dir), *sorted(files)]
