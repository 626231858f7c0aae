"""B9: ADD and DEL over and over, some cut short at a random moment: nothing may pile up in agent or kernel."""

import random
import statistics

from bench.agent_site import AgentSite, agent_site
from bench.report import Report
from tests.net.agent.plumbing import Guest
from tests.waiting import until

SLOTS = 20
CUT_SHORT = 0.3
SLOPE = 0.05
"""MiB of resident memory for a hundred rounds that pass for none: pages of the allocator that come and go."""


async def run(*, short: bool) -> Report:
    """10,000 pairs of calls (short: 400), a third of the ADDs killed."""
    rounds = 400 if short else 10_000
    report = Report("B9", f"{rounds} ADD/DEL, {CUT_SHORT:.0%} of the ADDs killed at a random moment")
    seeded = random.Random(9)
    async with agent_site() as site:
        guests = await site.guests(SLOTS)
        await _batch(site, guests, seeded, rounds // 10)
        before = await _held(site)
        resident, killed, failed = [], 0, 0
        for _ in range(10):
            cut, bad = await _batch(site, guests, seeded, rounds // 10)
            killed, failed = killed + cut, failed + bad
            resident.append(site.resident())
        await _quiet(site)
        after = await _held(site)
        for name, value in after.items():
            report.add(f"{name}, after - before", value - before[name], name, goal=0)
        places = range(len(resident))
        slope = statistics.linear_regression(places[4:], resident[4:]).slope / (rounds / 10) * 100
        report.add("resident memory, growth in the second half", slope, "MiB/100", goal=SLOPE)
        report.add("DELs that failed", failed, "calls", goal=0)
        report.add("left in the kernel", len(await site.node.traces()), "objects", goal=0)
        report.add("ADDs cut short", killed, "calls")
        report.add("agent, resident memory at the end", resident[-1], "MiB")
        findings = await site.world.checker.findings(
            site.node.namespace, site.node.folder / "state", site.world.kubeconfig
        )
        report.add("node check, findings", len(findings), "findings", goal=0)
        report.notes += findings
    return report


async def _batch(site: AgentSite, guests: list[Guest], seeded: random.Random, rounds: int) -> tuple[int, int]:
    """ADD and DEL in turn over the slots, several slots at once; (ADDs cut short, DELs that failed)."""
    killed = failed = 0
    for _ in range(rounds // len(guests)):
        cuts = [seeded.uniform(0.001, 0.03) if seeded.random() < CUT_SHORT else None for _ in guests]
        adds = await site.runner.run(
            [site.call("ADD", guest, cut) for guest, cut in zip(guests, cuts, strict=True)], at_once=True
        )
        killed += sum(timed.code < 0 for timed in adds)
        dels = await site.runner.run([site.call("DEL", guest) for guest in guests], at_once=True)
        failed += sum(timed.code != 0 for timed in dels)
    return killed, failed


async def _held(site: AgentSite) -> dict[str, float]:
    """What agent and kernel hold: descriptors, threads, the node's links."""
    await _quiet(site)
    return {
        "descriptors": len(list((site.agent / "fd").iterdir())),
        "threads": len(list((site.agent / "task").iterdir())),
        "links": (await site.node.ip("-o", "link")).count("\n"),
    }


async def _quiet(site: AgentSite) -> None:
    """Wait until all is undone and told."""

    async def clean() -> bool:
        if await site.node.traces():
            return False
        return not [name for name in site.world.attachments if await site.world.facts(name)]

    await until(clean, timeout=120, what="nothing left after the DELs", interval=0.5)
