"""B5 for NSO: a restart of the network and claim controllers and of IPAM with many claims bound.

From leadership to the end of the first pass over everything, at a tenth of the claims and at all of them; writes after
the restart are counted at the API servers.
"""

import time

from bench.report import Report
from bench.site import Site, first_passes, make_claims, objects_held, site
from tests.api.claims.programs import Program
from tests.waiting import until

PER_10_000 = 2.5
"""Seconds for a first pass, per 10,000 cached objects."""

GROWTH = 1.5
"""Time per object at all claims against that at a tenth of them."""


async def run(*, short: bool) -> Report:
    """10,000 dual-stack claims (short: 500), that is 20,000 IPClaims and as many allocations."""
    sizes = (50, 500) if short else (1_000, 10_000)
    report = Report("B5", f"restart of NSO and IPAM with {sizes[1]:,} dual-stack claims")
    per_object: dict[str, list[float]] = {}
    async with site() as here:
        made = 0
        for size in sizes:
            names = [f"held-{number}" for number in range(made, size)]
            made = size
            await make_claims(here.shop, names)
            await here.allocated(names)
            await here.settled()
            for program in (here.ipam, here.nso):
                seconds = await _restart(report, here, program, size)
                per_object.setdefault(program.name, []).append(seconds)
    for name, (small, large) in per_object.items():
        report.add(f"{name}: time per object at {sizes[1]:,} / at {sizes[0]:,}", large / small, "x", goal=GROWTH)
    return report


async def _restart(report: Report, here: Site, program: Program, size: int) -> float:
    """Kill it, start it again; seconds of its slowest first pass per cached object."""
    counting = here.counting()
    lives = first_passes(program.log())
    program.kill()
    began = time.perf_counter()
    await program.again()
    ready = time.perf_counter() - began

    def finished() -> dict[str, float] | None:
        told = first_passes(program.log())
        return {name: told[name][-1] for name in lives} if all(len(told[n]) > len(lives[n]) for n in lives) else None

    passes = await until(finished, timeout=600, what=f"the first pass of every controller of {program.name}")
    await here.settled()
    written = counting.written()
    slowest = max(passes.values())
    held = objects_held(program.metrics())
    label = f"{program.name} at {size:,}"
    report.add(f"{label}: first pass per 10,000 objects", slowest / held * 10_000, "s", goal=PER_10_000)
    report.add(f"{label}: writes after the restart", written.total(), "writes", goal=0)
    report.add(f"{label}: objects in its caches", held, "objects")
    report.add(f"{label}: process start to ready", ready, "s")
    for name, seconds in sorted(passes.items()):
        report.add(f"{label}: first pass of {name}", seconds, "s")
    return slowest / held
