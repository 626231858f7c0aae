"""The node check (`netclaimctl node check`) on the nodes of a local cluster."""

import asyncio
import os
import sys
from pathlib import Path

from dev.cluster import Cluster
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]


async def node_findings(cluster: Cluster, name: str) -> list[str]:
    """What the command finds on one node: links, routes, rules, neighbours, SIDs, firewall against journal and API.

    It looks twice by itself. A node whose agent never ran has nothing to be checked.
    """
    node = cluster.node(name)
    if not (node.state_dir / "journal.db").exists():
        return []
    check = ("node", "check", "--state-dir", str(node.state_dir), "--kubeconfig", str(cluster.cell_kubeconfig))
    process = await asyncio.create_subprocess_exec(
        *node.command([sys.executable, "-m", "netclaimctl", *check, "--grace", "1"]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    if process.returncode == 0:
        return []
    return [f"{name}: {line}" for line in out.decode().splitlines() or err.decode().splitlines()]


async def nodes_are_sound(cluster: Cluster) -> None:
    """Wait until the check finds nothing on any node (T04)."""

    async def sound() -> bool:
        looked = await asyncio.gather(*(node_findings(cluster, name) for name in cluster.node_names))
        found = [one for findings in looked for one in findings]
        assert not found, found
        return True

    await until(sound, timeout=90, what="nothing found by the node check", interval=1.0)
