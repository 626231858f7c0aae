"""B6: one CNI ADD and DEL through the executed binary, against the Go plugins `ptp` and `host-local` in the same run.

Ours reads the attachment and claims it at the API server within an ADD; theirs speak to nobody.
"""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.agent_site import AgentSite, agent_site
from bench.report import Report
from bench.runner import Call, Timed
from dev.packages import CNI_PLUGINS
from tests.net.agent.plumbing import Guest

GOAL_ADD = 2.5
GOAL_DEL = 1.0
FAMILIES = {
    "dual": (["fd20:0:1:{number:x}::1/96", "10.128.{high}.{low}/32"], ["fd20:0:1::1", "10.128.0.1"]),
    "IPv4": (["10.128.{high}.{low}/32"], ["10.128.0.1"]),
    "IPv6": (["fd20:0:1:{number:x}::1/96"], ["fd20:0:1::1"]),
}
RANGES = {"dual": ["10.200.0.0/16", "fd00:200::/64"], "IPv4": ["10.201.0.0/16"], "IPv6": ["fd00:201::/64"]}


async def run(*, short: bool) -> Report:
    """40 interfaces of each kind, one after the other (short: 8)."""
    count = 8 if short else 40
    report = Report("B6", f"CNI ADD and DEL through the executed binary, p50 of {count}, one at a time")
    async with agent_site() as site:
        ours: dict[str, tuple[float, float]] = {}
        theirs: dict[str, tuple[float, float]] = {}
        first = 0
        for kind, (mode, families) in {
            "veth dual": ("Netns", "dual"),
            "veth IPv4": ("Netns", "IPv4"),
            "veth IPv6": ("Netns", "IPv6"),
            "tap dual": ("Hypervisor", "dual"),
        }.items():
            guests = await _guests(site, count, first, mode, families)
            first += count
            # The first call of a kind imports and warms up, ours and theirs.
            ours[kind] = await _ours(site, guests)
            if mode == "Netns":
                theirs[kind] = await _theirs(site, guests, families)
        for kind, (add, delete) in theirs.items():
            report.add(f"{kind}: ADD, ours / ptp+host-local", ours[kind][0] / add, "x", goal=GOAL_ADD)
            report.add(f"{kind}: DEL, ours / ptp+host-local", ours[kind][1] / delete, "x", goal=GOAL_DEL)
        for kind, (add, delete) in ours.items():
            report.add(f"{kind}: ADD, ours", add, "ms")
            report.add(f"{kind}: DEL, ours", delete, "ms")
        for kind, (add, delete) in theirs.items():
            report.add(f"{kind}: ADD, ptp+host-local", add, "ms")
            report.add(f"{kind}: DEL, ptp+host-local", delete, "ms")
        report.add("agent, resident memory", site.resident(), "MiB", goal=80.0)
        version = await site.runner.run([Call((str(site.world.binary),), {"CNI_COMMAND": "VERSION"}, "")] * count)
        report.add("binary, start to answer without the agent", _p50(version), "ms", goal=5.0)
    report.notes.append("an ADD of ours holds a GET and a PATCH of the attachment at the API server; theirs none")
    return report


async def _guests(site: AgentSite, count: int, first: int, mode: str, families: str) -> list[Guest]:
    texts, gateways = FAMILIES[families]
    made = []
    for number in range(first, first + count):
        place = {"number": number + 2, "high": number // 200, "low": number % 200 + 2}
        addresses = [text.format(**place) for text in texts]
        made += await site.guests(1, first=number, mode=mode, addresses=addresses, gateways=gateways)
    return made


async def _ours(site: AgentSite, guests: Sequence[Guest]) -> tuple[float, float]:
    add = await site.each("ADD", guests)
    delete = await site.each("DEL", guests)
    return _p50(add[1:]), _p50(delete[1:])


async def _theirs(site: AgentSite, guests: Sequence[Guest], families: str) -> tuple[float, float]:
    add = await site.runner.run([_ptp(site, "ADD", guest, families) for guest in guests])
    delete = await site.runner.run([_ptp(site, "DEL", guest, families) for guest in guests])
    failed = [timed.out for timed in (*add, *delete) if timed.code]
    if failed:
        raise RuntimeError(f"ptp failed: {failed[0]}")
    return _p50(add[1:]), _p50(delete[1:])


def _ptp(site: AgentSite, verb: str, guest: Guest, families: str) -> Call:
    env = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": guest.container,
        "CNI_NETNS": guest.netns,
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(CNI_PLUGINS),
    }
    state: Path = site.node.folder / "host-local"
    ranges = [[{"subnet": subnet}] for subnet in RANGES[families]]
    config = {
        "cniVersion": "1.0.0",
        "name": f"ptp-{families}",
        "type": "ptp",
        "mtu": 1460,
        "ipam": {"type": "host-local", "dataDir": str(state), "ranges": ranges},
    }
    return Call((str(CNI_PLUGINS / "ptp"),), env, json.dumps(config))


def _p50(timed: Sequence[Timed]) -> float:
    return statistics.median(each.milliseconds for each in timed)
