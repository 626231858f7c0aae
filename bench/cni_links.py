"""B8: one ADD with ever more links on the node that are none of ours: the agent never reads all of them for a call."""

import statistics

from bench.agent_site import AgentSite, agent_site
from bench.report import Report
from tests.net.agent.plumbing import run as command

GOAL_GROWTH = 1.2


async def run(*, short: bool) -> Report:
    """10, 1,000 and 4,000 links (short: 10 and 400), p50 of 40 ADDs (short: 12) each."""
    sizes, count = ((10, 400), 12) if short else ((10, 1000, 4000), 40)
    report = Report("B8", f"ADD with {', '.join(map(str, sizes))} foreign links on the node, p50 of {count}")
    async with agent_site() as site:
        there, first, found = 0, 0, {}
        # What the first calls import and open is not the links' doing.
        await _measure(site, count, first)
        for size in sizes:
            first += count
            await _add_links(site, there, size)
            there = size
            found[size] = await _measure(site, count, first)
    smallest, largest = sizes[0], sizes[-1]
    for place, verb in enumerate(("ADD", "DEL")):
        growth = found[largest][place] / found[smallest][place]
        goal = GOAL_GROWTH if verb == "ADD" else None
        report.add(f"{verb}, {largest} links / {smallest} links", growth, "x", goal=goal)
    for size, (add, delete) in found.items():
        report.add(f"ADD with {size} links", add, "ms")
        report.add(f"DEL with {size} links", delete, "ms")
    return report


async def _measure(site: AgentSite, count: int, first: int) -> tuple[float, float]:
    guests = await site.guests(count, first=first)
    add = await site.each("ADD", guests)
    delete = await site.each("DEL", guests)
    return tuple(statistics.median(each.milliseconds for each in timed) for timed in (add, delete))  # type: ignore[return-value]


async def _add_links(site: AgentSite, there: int, wanted: int) -> None:
    lines = [f"link add x{number} type veth peer name y{number}" for number in range(there // 2, wanted // 2)]
    await command("ip", "-n", site.node.namespace, "-batch", "-", stdin="\n".join(lines))
