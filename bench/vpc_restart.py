"""B5 for the VPC controller: a restart with many interfaces that are attached and advertised.

From leadership to the end of the first pass over everything, at a tenth of the interfaces and at all of them; writes
after the restart are counted by the program itself. One interface is brought up by the controller; the others are
copies of its objects, put into the API server's storage with identities of their own.
"""

import asyncio
import base64
import contextlib
import itertools
import os
import re
import secrets
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp

from bench.report import Report
from bench.webhook_reviews import cell
from netclaim import identity
from netclaim.api import resources
from netclaim.api.resources import Resource
from netclaim.kube.errors import ApiError
from tests.api.vpc.programs import controller
from tests.api.vpc.world import CONTEXT, SYSTEM, World
from tests.api.webhook.site import free_port
from tests.control_plane import ControlPlane
from tests.waiting import until

PER_10_000 = 2.5
"""Seconds for a first pass, per 10,000 cached objects."""

GROWTH = 1.5
"""Time per object at all interfaces against that at a tenth of them."""

FIRST = 4000
"""The template's attachment identifier: it and all that follow have three digits in base62, four or less in hex."""

NAME = "held-0-eth0"
CONTROLLERS = ("vpcs", "attachments", "adverts", "identifiers")
_FIRST_PASS = re.compile(r"(\w+): first pass done after ([0-9.]+) s")
_AT_ONCE = 128
"""Operations in one transaction, as many as etcd takes."""


async def run(*, short: bool) -> Report:
    """10,000 interfaces (short: 500), each with claim, attachment, definition, identifier and advertisement."""
    sizes = (50, 500) if short else (1_000, 10_000)
    report = Report("B5", f"restart of the VPC controller with {sizes[1]:,} interfaces")
    seconds = []
    with TemporaryDirectory() as folder:
        async with cell(Path(folder)) as (plane, client):
            world = World(client, f"bench-{secrets.token_hex(3)}")
            await client.create(resources.NAMESPACES, {"metadata": {"name": world.namespace}})
            template = await _template(plane, world, Path(folder, "template"))
            try:
                for before, size in itertools.pairwise((1, *sizes)):
                    await template.copy(range(before, size))
                    await _are_there(world, size)
                    seconds.append(await _restart(report, plane, Path(folder, f"log-{size}"), size))
            finally:
                await template.remove(range(sizes[-1]))
    report.add(f"CPU time per object at {sizes[1]:,} / at {sizes[0]:,}", seconds[1] / seconds[0], "x", goal=GROWTH)
    return report


async def _are_there(world: World, wanted: int) -> None:
    """Wait until the API server has taken all in. It may be busy with doing so."""

    async def look() -> bool:
        with contextlib.suppress(ApiError):
            return len(await world.cell.list(resources.BGP_ADVERTISEMENTS, SYSTEM)) >= wanted
        return False

    await until(look, timeout=600.0, what="all copies", interval=2.0)


async def _template(plane: ControlPlane, world: World, log: Path) -> "Template":
    """One interface after its whole way up, under a controller that has ended."""
    node = f"node-{world.namespace}"
    async with controller(plane, log, "--leader-elect", "false") as program:
        await program.says("working:", timeout=60.0)
        await world.context()
        await world.node(node)
        interface = await world.interface(NAME, bound=False)
        vpc = (await world.says(resources.VPCS, CONTEXT, "Ready", "True", timeout=60.0))["status"]["vpc"]
        await world.draw(interface, vpc, FIRST)
        await world.bind(NAME)
        attachment = await world.prepared(NAME)
        await world.attach(NAME, node)
        await world.advertise(attachment, node)
        for kind in (resources.CLAIMS, resources.INTERFACES, resources.ATTACHMENTS):
            await world.says(kind, NAME, "Programmed", "True", timeout=60.0)
        await program.stop()
    (etcd,) = re.findall(r"--etcd-servers=(\S+)", _command_lines(plane))
    return await Template.read(etcd, world, identity.from_base62(vpc))


def _command_lines(plane: ControlPlane) -> str:
    """Command line of the API server that the cell's kubeconfig leads to."""
    port = re.search(r"server: https://127.0.0.1:(\d+)", plane.cell_kubeconfig.read_text())
    assert port is not None
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if "kube-apiserver" in line.split(" ")[0] and f"--secure-port={port[1]}" in line:
                return line
    raise RuntimeError(f"no API server listens on port {port[1]} of this machine")


@dataclass
class Template:
    """The objects of one interface as they are stored: key and text of each."""

    etcd: str
    stored: dict[str, str]
    vpc: int

    @classmethod
    async def read(cls, etcd: str, world: World, vpc: int) -> "Template":
        names = [
            *((kind, world.namespace, NAME) for kind in KINDS),
            (resources.IDENTIFIERS, SYSTEM, identity.attachment_identifier_name(vpc, FIRST)),
            (resources.BGP_ADVERTISEMENTS, SYSTEM, identity.advertisement_name(vpc, FIRST)),
        ]
        keys = [f"/registry/{kind.group}/{kind.plural}/{namespace}/{name}" for kind, namespace, name in names]
        async with aiohttp.ClientSession() as session:
            stored = {}
            for key in keys:
                async with session.post(f"{etcd}/v3/kv/range", json={"key": _b64(key)}) as reply:
                    found = (await reply.json()).get("kvs")
                if not found:
                    raise RuntimeError(f"{etcd} does not hold {key}, although the controller told of it")
                stored[key] = base64.b64decode(found[0]["value"]).decode()
        return cls(etcd, stored, vpc)

    def copies(self, number: int) -> Iterator[tuple[str, str]]:
        """(key, text) of each object of another interface: its own name, uids and identity."""
        uids = {uid for text in self.stored.values() for uid in re.findall(r'"uid":"([0-9a-f-]{36})"', text)}
        shared = set(re.findall(r'"kind":"(?:NetworkContext|Node|BGPRouter)"[^}]*"uid":"([^"]+)"', self._joined))
        mine = FIRST + number
        names = {
            NAME: f"held-{number}-eth0",
            identity.to_base62(FIRST): identity.to_base62(mine),
            identity.advertisement_name(self.vpc, FIRST): identity.advertisement_name(self.vpc, mine),
            **{uid: str(uuid.uuid5(uuid.UUID(uid), str(number))) for uid in uids - shared},
        }
        pattern = re.compile("|".join(map(re.escape, names)))
        for key, text in self.stored.items():
            yield tuple(pattern.sub(lambda found: names[found[0]], part) for part in (key, text))  # type: ignore[misc]

    @property
    def _joined(self) -> str:
        return "".join(self.stored.values())

    async def copy(self, numbers: Iterable[int]) -> None:
        """Store a copy for each number."""
        puts = (
            {"requestPut": {"key": _b64(key), "value": _b64(text)}}
            for number in numbers
            for key, text in self.copies(number)
        )
        await self._send(puts)

    async def remove(self, numbers: Iterable[int]) -> None:
        """Take the template and its copies away again, finalizers or not."""
        keys = (key for number in numbers for key, _ in (self.copies(number) if number else self.stored.items()))
        await self._send({"requestDeleteRange": {"key": _b64(key)}} for key in keys)

    async def _send(self, operations: Iterable[dict[str, object]]) -> None:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            left = iter(operations)
            while batch := list(itertools.islice(left, _AT_ONCE)):
                async with session.post(f"{self.etcd}/v3/kv/txn", json={"success": batch}) as reply:
                    await reply.read()


KINDS: tuple[Resource, ...] = (resources.CLAIMS, resources.INTERFACES, resources.ATTACHMENTS, resources.NADS)


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def _restart(report: Report, plane: ControlPlane, log: Path, size: int) -> float:
    """Start the controller; CPU seconds of its first pass per cached object: what else runs does not count."""
    port = free_port()
    flags = ("--leader-elect", "false", "--metrics-address", f"127.0.0.1:{port}")
    began = asyncio.get_running_loop().time()
    async with controller(plane, log, *flags) as program:
        await program.says("working:", timeout=600.0)
        ready, used = asyncio.get_running_loop().time() - began, _cpu_seconds(program.pid)
        for name in CONTROLLERS:
            await program.says(f"{name}: first pass done", timeout=600.0)
        used = _cpu_seconds(program.pid) - used
        # Whatever was put off is due within this time.
        await asyncio.sleep(5.0)
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as reply:
            metrics = await reply.text()
        resident, said = _resident(program.pid), program.log.read_text()
        if program.tracebacks:
            raise RuntimeError(f"errors in the log: {program.tracebacks[:3]}")
    passes = {name: float(seconds) for name, seconds in _FIRST_PASS.findall(said)}
    held = sum(float(one) for one in re.findall(r"^reflector_objects\{.*\} (\S+)$", metrics, re.MULTILINE))
    written = sum(
        float(count)
        for method, count in re.findall(
            r'^rest_client_requests_total\{.*method="(\w+)".*\} (\S+)$', metrics, re.MULTILINE
        )
        if method != "GET"
    )
    slowest = max(passes.values())
    label = f"{size:,} interfaces"
    report.add(f"{label}: first pass per 10,000 objects", slowest / held * 10_000, "s", goal=PER_10_000)
    report.add(f"{label}: CPU time of the program for it, per 10,000 objects", used / held * 10_000, "s")
    report.add(f"{label}: writes after the restart", written, "writes", goal=0)
    report.add(f"{label}: objects in its caches", held, "objects")
    report.add(f"{label}: process start to leadership", ready, "s")
    report.add(f"{label}: resident memory", resident / 2**20, "MiB")
    for name, seconds in sorted(passes.items()):
        report.add(f"{label}: first pass of {name}", seconds, "s")
    report.add(f"{label}: memory per object", resident / held / 1024, "KiB")
    return used / held


def _resident(pid: int) -> int:
    """Bytes of memory that a process has in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _cpu_seconds(pid: int) -> float:
    """CPU time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
