"""B3: dual-stack claims at once to Allocated, against the same writes of a client that knows every answer.

The bare side makes as many creates and status writes of each kind as the programs were counted at their API servers,
of objects as large, with the same concurrency, after the programs have ended.
"""

import time
from collections.abc import Awaitable
from dataclasses import dataclass

from bench.report import Report
from bench.site import AT_ONCE, Site, Written, at_once, make_claims, site
from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client

GOAL = 1.5
KINDS: dict[str, tuple[Resource, str]] = {
    "networkinterfaceclaims": (resources.CLAIMS, "cell"),
    "networkinterfaces": (resources.INTERFACES, "cell"),
    "ipclaims": (resources.IP_CLAIMS, "ipam"),
    "ipallocations": (resources.IP_ALLOCATIONS, "ipam"),
}
"""Kinds that a claim's binding writes, and where they live. Others (pools' counters) are few and not made again."""


async def run(*, short: bool) -> Report:
    """1,000 claims (short: 100)."""
    count = 100 if short else 1000
    report = Report("B3", f"{count} dual-stack claims at once to Allocated, on two real API servers")
    async with site() as here:
        counting = here.counting()
        began = time.perf_counter()
        names = [f"burst-{number}" for number in range(count)]
        await make_claims(here.shop, names)
        made = time.perf_counter() - began
        await here.allocated(names)
        seconds = time.perf_counter() - began
        await here.settled()
        written = counting.written()
        here.nso.end()
        here.ipam.end()
        bare = await _bare(here, written, count)
    report.add("time to Allocated / the same writes, bare", seconds / (made + bare), "x", goal=GOAL)
    report.add("writes per claim", written.total() / count, "writes")
    report.add("time to Allocated", seconds, "s")
    report.add("of which the user's own creates", made, "s")
    report.add("bare: the programs' writes", bare, "s")
    for (program, verb, kind), number in sorted(written.items()):
        report.add(f"{program} {verb} {kind}, per claim", number / count, "writes")
    report.notes.append(f"bare writes with {AT_ONCE} at once; events and leases are not counted")
    return report


@dataclass(frozen=True, slots=True)
class Life:
    """The writes of one object: its create (not of a claim, which is the user's), then its patches."""

    resource: Resource
    home: str
    sample: Raw
    create: bool
    statuses: int
    metadata: int

    async def live(self, client: Client, number: int) -> None:
        """One write after the other, as a program makes them."""
        copy = _copy(self.sample, self.home, number)
        known = {"name": copy["metadata"]["name"], "namespace": self.home}
        if self.create:
            await client.create(self.resource, copy)
        for step in range(self.metadata):
            change = {"metadata": {**known, "annotations": {"bench.example.com/step": str(step)}}}
            await client.apply(self.resource, change, manager="bench")
        for step in range(self.statuses):
            status = {**(self.sample.get("status") or {})}
            status["conditions"] = [
                {**each, "message": f"{each.get('message', '')} {step}"} for each in status.get("conditions", [])
            ]
            await client.apply_status(self.resource, {"metadata": known, "status": status}, manager="bench")


async def _bare(here: Site, written: Written, count: int) -> float:
    """Seconds for the counted writes by kind, without anybody who reads or decides."""
    clients = {"cell": here.shop.cell, "ipam": here.shop.ipam}
    homes = {"cell": f"{here.shop.namespace}-bare", "ipam": f"{here.shop.project}-bare"}
    sources = {"cell": here.shop.namespace, "ipam": here.shop.project}
    for side, client in clients.items():
        await client.create(resources.NAMESPACES, {"metadata": {"name": homes[side]}})
    calls: list[Awaitable[None]] = []
    for kind, (resource, side) in KINDS.items():
        samples = await clients[side].list(resource, sources[side])
        users = resource is resources.CLAIMS
        creates = _number(written, kind, "create")
        objects = count if users else creates
        for number in range(objects):
            sample = samples[number % len(samples)]
            life = Life(
                resource,
                homes[side],
                sample,
                not users,
                _share(_number(written, f"{kind}/status", "patch"), objects, number),
                _share(_number(written, kind, "patch"), objects, number),
            )
            if users:
                # They are there before the clock runs.
                await clients[side].create(resource, _copy(sample, homes[side], number))
            calls.append(life.live(clients[side], number))
    began = time.perf_counter()
    await at_once(calls)
    return time.perf_counter() - began


def _number(written: Written, kind: str, verb: str) -> int:
    return sum(number for (_, done, what), number in written.items() if (what, done) == (kind, verb))


def _share(total: int, parts: int, index: int) -> int:
    """The `index`-th part when `total` is dealt out to `parts` as evenly as it goes."""
    return total // parts + (index < total % parts)


def _copy(sample: Raw, home: str, number: int) -> Raw:
    """An object as large as `sample`, under a name of its own and without anybody who would wait for its end."""
    metadata = {key: sample["metadata"][key] for key in ("labels", "annotations") if key in sample["metadata"]}
    return {"metadata": {**metadata, "name": f"bare-{number}", "namespace": home}, "spec": sample["spec"]}
