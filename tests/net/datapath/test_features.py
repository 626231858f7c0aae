"""What is missing is found out at start and said in plain words (node-agent.md)."""

import json
import subprocess
import sys

from node_agent.datapath.features import kernel_features
from tests.net.datapath.lab import ROOT, lab, run

PROGRAM = """
import asyncio, json
from node_agent.datapath.features import kernel_features
found = asyncio.run(kernel_features())
print(json.dumps({"missing": found.missing, "vrf": found.vrf}))
"""


async def test_this_kernel_can_do_what_is_needed_and_nothing_is_left_of_the_trial() -> None:
    """node-agent.md: capabilities, kernel features; tried in a namespace of its own."""
    before = run("ip", "-o", "link"), run("ip", "rule"), run("nft", "list", "ruleset")
    found = await kernel_features()
    assert found.missing == ()
    assert (run("ip", "-o", "link"), run("ip", "rule"), run("nft", "list", "ruleset")) == before


async def test_vrf_is_found_exactly_where_the_kernel_has_it() -> None:
    """node-agent.md: --routing auto."""
    async with lab() as made:
        namespace = made.namespace("vrf")
        refused = ""
        try:
            namespace.ip("link", "add", "v", "type", "vrf", "table", "10")
        except AssertionError as error:
            refused = str(error)
    assert (await kernel_features()).vrf == (not refused)


def test_a_process_without_the_capability_is_told_which() -> None:
    """node-agent.md: says each thing that is missing."""
    for capability in ("sys_admin", "net_admin"):
        done = subprocess.run(
            ["setpriv", f"--bounding-set=-{capability}", f"--inh-caps=-{capability}", sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        found = json.loads(done.stdout)
        assert any(f"CAP_{capability.upper()}" in sentence for sentence in found["missing"])
        assert not found["vrf"]
