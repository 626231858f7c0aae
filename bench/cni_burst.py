"""B7: 200 ADDs at once against one agent inside the memory limit that it is shipped with."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from bench.agent_site import AgentSite, agent_site
from bench.report import Report
from tests.waiting import until

LIMIT_MEBIBYTES = 128
GOAL_SECONDS = 3.0
TRY_AGAIN = 11
HIERARCHY = Path("/sys/fs/cgroup/memory")


async def run(*, short: bool) -> Report:
    """200 calls (short: 60)."""
    count = 60 if short else 200
    report = Report("B7", f"{count} ADDs at once against one agent in a cgroup of {LIMIT_MEBIBYTES} MiB")
    async with agent_site(start=False) as site:
        with _limited(report) as group:
            await site.node.start()
            if group is not None:
                (group / "cgroup.procs").write_text(str(int(site.agent.name)))
            await _measure(site, count, report)
            if group is not None:
                peak = int((group / "memory.max_usage_in_bytes").read_text()) / 2**20
                report.add("cgroup, highest use", peak, "MiB", goal=LIMIT_MEBIBYTES)
                refused = int((group / "memory.failcnt").read_text())
                report.add("cgroup, allocations that had to reclaim first", refused, "times")
            await site.node.stop()
    return report


async def _measure(site: AgentSite, count: int, report: Report) -> None:
    warm = await site.guests(1, first=count)
    await site.each("ADD", warm)
    report.add("agent at rest, resident memory", site.resident(), "MiB", goal=80.0)
    guests = await site.guests(count)
    done = await site.runner.run([site.call("ADD", guest) for guest in guests], at_once=True)
    refused = [timed for timed in done if timed.code and timed.json["code"] == TRY_AGAIN]
    lost = [timed for timed in done if timed.code and timed.json["code"] != TRY_AGAIN]
    slowest = max(timed.milliseconds for timed in done) / 1000
    ordered = sorted(timed.milliseconds for timed in done)
    report.add("last answer after", slowest, "s", goal=GOAL_SECONDS)
    report.add("calls that ended otherwise than done or code 11", len(lost), "calls", goal=0)
    report.add("agent, highest resident memory", site.resident(peak=True), "MiB", goal=LIMIT_MEBIBYTES)
    report.add("refused with code 11", len(refused), "calls")
    report.add("answer, p50", ordered[len(ordered) // 2], "ms")
    report.add("answer, p99", ordered[int(len(ordered) * 0.99)], "ms")
    alive = [guest for guest, timed in zip(guests, done, strict=True) if not timed.code]
    lacking = [guest for guest in alive if "eth0" not in (await guest.run("ip", "-o", "link")).out]
    report.add("answered, but without an interface", len(lacking), "guests", goal=0)
    await site.runner.run([site.call("DEL", guest) for guest in (*guests, *warm)], at_once=True)

    async def clean() -> bool:
        return not await site.node.traces()

    await until(clean, timeout=120, what="nothing left after the DELs")
    report.notes.append(f"{os.cpu_count()} cores are shared by agent, API server and {count} processes of the binary")


@contextlib.contextmanager
def _limited(report: Report) -> Iterator[Path | None]:
    """A memory cgroup with the shipped limit, or None (and a note) where there is no such hierarchy."""
    if not (HIERARCHY / "memory.limit_in_bytes").exists():
        report.notes.append("no memory cgroup can be made here: the limit was compared, not enforced")
        yield None
        return
    group = HIERARCHY / f"netclaim-bench-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT_MEBIBYTES << 20))
        yield group
    finally:
        group.rmdir()
