"""The bare side of B3: the writes that programs were counted at, made by a client that knows every answer.

As many creates and status writes of each kind, of objects as large, with the same concurrency, after the programs have
ended: nobody reads, watches or decides.
"""

import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from bench.site import SYSTEM, Site, Written, at_once
from netclaim import identity
from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that is written for each claim, and the control plane that it lives in: `cell` or `ipam`."""

    resource: Resource
    side: str = "cell"

    @property
    def is_system(self) -> bool:
        """Whether its objects lie in the system namespace instead of the claims'."""
        return self.resource is resources.IDENTIFIERS

    def name(self, number: int) -> str:
        """The name of a copy: the API server takes only identifiers that are named after a value."""
        if self.resource is resources.IDENTIFIERS:
            return identity.attachment_identifier_name(1, number + 1)
        return f"bare-{number}"


ALLOCATED = (
    Kind(resources.CLAIMS),
    Kind(resources.INTERFACES),
    Kind(resources.IP_CLAIMS, "ipam"),
    Kind(resources.IP_ALLOCATIONS, "ipam"),
)
"""What a claim's way to Allocated writes. Others (pools' counters) are few and not made again."""

PREPARED = (*ALLOCATED, Kind(resources.IDENTIFIERS), Kind(resources.ATTACHMENTS), Kind(resources.NADS))
"""What its way to Prepared writes."""


@dataclass(frozen=True, slots=True)
class Life:
    """The writes of one object: its create (not of a claim, which is the user's), then its patches."""

    kind: Kind
    home: str
    sample: Raw
    create: bool
    statuses: int
    metadata: int

    async def live(self, client: Client, number: int) -> None:
        """One write after the other, as a program makes them."""
        resource, copy = self.kind.resource, _copy(self.kind, self.sample, self.home, number)
        known = {"name": copy["metadata"]["name"], "namespace": self.home}
        if self.create:
            await client.create(resource, copy)
        for step in range(self.metadata):
            change = {"metadata": {**known, "annotations": {"bench.example.com/step": str(step)}}}
            await client.apply(resource, change, manager="bench")
        for step in range(self.statuses):
            status = {**(self.sample.get("status") or {})}
            status["conditions"] = [
                {**each, "message": f"{each.get('message', '')} {step}"} for each in status.get("conditions", [])
            ]
            await client.apply_status(resource, {"metadata": known, "status": status}, manager="bench")


async def bare(here: Site, written: Written, count: int, kinds: Sequence[Kind]) -> float:
    """Seconds for the counted writes of these kinds."""
    clients = {"cell": here.shop.cell, "ipam": here.shop.ipam}
    homes = {"cell": f"{here.shop.namespace}-bare", "ipam": f"{here.shop.project}-bare"}
    sources = {"cell": here.shop.namespace, "ipam": here.shop.project}
    for side, client in clients.items():
        await client.create(resources.NAMESPACES, {"metadata": {"name": homes[side]}})
    calls: list[Awaitable[None]] = []
    for kind in kinds:
        client, home = clients[kind.side], homes[kind.side]
        samples = await client.list(kind.resource, SYSTEM if kind.is_system else sources[kind.side])
        users = kind.resource is resources.CLAIMS
        plural = kind.resource.plural
        objects = count if users else _number(written, plural, "create")
        for number in range(objects):
            sample = samples[number % len(samples)]
            life = Life(
                kind,
                home,
                sample,
                not users,
                _share(_number(written, f"{plural}/status", "patch"), objects, number),
                _share(_number(written, plural, "patch"), objects, number),
            )
            calls.append(life.live(client, number))
        if users:
            # They are there before the clock runs.
            await at_once(
                client.create(kind.resource, _copy(kind, samples[number % len(samples)], home, number))
                for number in range(objects)
            )
    began = time.perf_counter()
    await at_once(calls)
    return time.perf_counter() - began


def _number(written: Written, kind: str, verb: str) -> int:
    return sum(number for (_, done, what), number in written.items() if (what, done) == (kind, verb))


def _share(total: int, parts: int, index: int) -> int:
    """The `index`-th part when `total` is dealt out to `parts` as evenly as it goes."""
    return total // parts + (index < total % parts)


def _copy(kind: Kind, sample: Raw, home: str, number: int) -> Raw:
    """An object as large as `sample`, under a name of its own and without anybody who would wait for its end."""
    metadata = {key: sample["metadata"][key] for key in ("labels", "annotations") if key in sample["metadata"]}
    return {"metadata": {**metadata, "name": kind.name(number), "namespace": home}, "spec": sample["spec"]}
