"""B3: dual-stack claims at once to Allocated, against the same writes of a client that knows every answer."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from bench.bare import ALLOCATED, Kind, bare
from bench.report import Report
from bench.site import AT_ONCE, Site, make_claims, site
from netclaim.api import networking

GOAL = 1.5


async def run(*, short: bool) -> Report:
    """1,000 claims (short: 100)."""

    async def end() -> None:
        here.nso.end()
        here.ipam.end()

    async with site() as here:
        return await measure(here, 100 if short else 1000, networking.ALLOCATED, ALLOCATED, end)


async def measure(
    here: Site, count: int, condition: str, kinds: Sequence[Kind], end: Callable[[], Awaitable[None]]
) -> Report:
    """Make claims and wait until each has the condition; then `end` the programs and make their writes without them."""
    report = Report("B3", f"{count} dual-stack claims at once to {condition}, on two real API servers")
    counting = here.counting()
    began = time.perf_counter()
    names = [f"burst-{number}" for number in range(count)]
    await make_claims(here.shop, names)
    made = time.perf_counter() - began
    await here.told(names, condition)
    seconds = time.perf_counter() - began
    await here.settled()
    written = counting.written()
    await end()
    alone = await bare(here, written, count, kinds)
    by_program: Counter[str] = Counter()
    for (program, _, _), number in written.items():
        by_program[program] += number
    report.add(f"time to {condition} / the same writes, bare", seconds / (made + alone), "x", goal=GOAL)
    report.add("writes per claim", written.total() / count, "writes")
    for program, number in sorted(by_program.items()):
        report.add(f"writes of {program}, per claim", number / count, "writes")
    report.add(f"time to {condition}", seconds, "s")
    report.add("of which the user's own creates", made, "s")
    report.add("bare: the programs' writes", alone, "s")
    for (program, verb, kind), number in sorted(written.items()):
        report.add(f"{program} {verb} {kind}, per claim", number / count, "writes")
    report.notes.append(f"bare writes with {AT_ONCE} at once; events and leases are not counted")
    return report
