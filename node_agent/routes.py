"""Prefixes on other nodes: from advertisements and routers at the API to routes in the kernel, by difference.

Only advertisements of VPCs that are present on this node are followed. A vanished advertisement takes its routes along,
a vanished router all of its own. Nothing that an advertisement says is believed beyond its router: SIDs must lie in
that router's locator, and no prefix may touch the block that all locators lie in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_network
from typing import Any, Final

import structlog

from netclaim import identity
from netclaim.api import resources
from netclaim.api.cloud import VPC_LABEL
from netclaim.api.meta import Key, Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller
from netclaim.kube.reflector import Reflector
from node_agent import metrics
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.model import Prefix, RemoteNode, RemotePrefix, RouteChange, Vpc
from node_agent.presence import Presence

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.routes")

BACKOFF_MAX: Final = 10.0
HEAL_EVERY: Final = 120.0
"""Seconds between two comparisons of all tables with what they should hold."""

_NODES: Final[Key] = ("nodes", "")
_FAMILIES: Final = {"IPv4": 4, "IPv6": 6}

UNKNOWN_ROUTER: Final = "unknown-router"
OUTSIDE_LOCATOR: Final = "sid-outside-locator"
INSIDE_BLOCK: Final = "prefix-inside-locator-block"
NO_SID: Final = "no-sid-of-its-family"
LOCAL: Final = "local"
DUPLICATE: Final = "duplicate"
MALFORMED: Final = "malformed"


@dataclass(frozen=True, slots=True)
class Ignored:
    """A prefix (or a whole advertisement, when ``prefix`` is empty) that is not routed to, and why."""

    advertisement: str
    prefix: str
    reason: str

    def __str__(self) -> str:
        return f"{self.advertisement} {self.prefix}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """What a VPC's routes to other nodes should be."""

    remotes: tuple[RemotePrefix, ...]
    ignored: tuple[Ignored, ...]


def plan_nodes(routers: Iterable[Raw], own: str, block: IPv6Network) -> dict[str, RemoteNode]:
    """The other nodes by router name. A locator outside the block, or one that two routers claim, is nobody's.

    A next hop that the kernel would refuse is left out: one bad router never keeps the others' routes away.
    """
    nodes: dict[str, RemoteNode] = {}
    for raw in routers:
        name = raw["metadata"]["name"]
        if name == own:
            continue
        try:
            node = RemoteNode(IPv6Network(raw["spec"]["srv6Locator"]), IPv6Address(raw["spec"]["nextHop"]))
        except (KeyError, ValueError):
            continue
        reachable = not (node.underlay.is_multicast or node.underlay.is_unspecified or node.underlay.is_loopback)
        if reachable and node.locator.subnet_of(block) and node.locator.prefixlen == 64:
            nodes[name] = node
    claims = Counter(node.locator for node in nodes.values())
    return {name: node for name, node in nodes.items() if claims[node.locator] == 1}


def plan_remotes(
    advertisements: Iterable[Raw],
    nodes: Mapping[str, RemoteNode],
    *,
    own: str,
    block: IPv6Network,
    local: Collection[Prefix],
) -> RoutePlan:
    """Routes to what other nodes advertise. ``local``: prefixes of this node's own guests, which always win."""
    taken: dict[Prefix, RemotePrefix] = {}
    ignored: list[Ignored] = []
    for raw in sorted(advertisements, key=lambda each: str(each["metadata"]["name"])):
        name = raw["metadata"]["name"]
        try:
            spec = raw["spec"]
            router = spec["routerRef"]["name"]
            if router == own:
                continue
            prefixes = [ip_network(text) for text in spec.get("prefixes") or ()]
            sids = {_FAMILIES.get(sid.get("family"), 0): IPv6Address(sid["sid"]) for sid in spec.get("sids") or ()}
        except (KeyError, TypeError, ValueError):
            ignored.append(Ignored(name, "", MALFORMED))
            continue
        node = nodes.get(router)
        if node is None:
            ignored.append(Ignored(name, "", UNKNOWN_ROUTER))
            continue
        for prefix in prefixes:
            sid = sids.get(prefix.version) or sids.get(0)
            reason = LOCAL if prefix in local else DUPLICATE if prefix in taken else _why_not(prefix, sid, node, block)
            if reason is not None or sid is None:
                ignored.append(Ignored(name, str(prefix), reason or NO_SID))
            else:
                taken[prefix] = RemotePrefix(prefix, sid)
    return RoutePlan(tuple(taken.values()), tuple(ignored))


def _why_not(prefix: Prefix, sid: IPv6Address | None, node: RemoteNode, block: IPv6Network) -> str | None:
    if prefix.version == 6 and prefix.prefixlen and prefix.overlaps(block):
        return INSIDE_BLOCK
    if sid is None:
        return NO_SID
    return None if sid in node.locator else OUTSIDE_LOCATOR


def is_own(raw: Raw, own: str) -> bool:
    """Whether an advertisement is this node's: no route follows from it."""
    return bool(raw["spec"]["routerRef"]["name"] == own)


def slim_advertisement(raw: Raw, own: str) -> Raw:
    """What is kept of an advertisement: all of this node's, of another's only what routes need."""
    if is_own(raw, own):
        return raw
    spec = raw["spec"]
    metadata = {name: raw["metadata"][name] for name in ("namespace", "name", "uid", "resourceVersion")}
    kept = {name: spec[name] for name in ("routerRef", "prefixes", "sids", "containerID") if name in spec}
    return {"metadata": metadata, "spec": kept}


class Routes:
    """Follows the advertisements of the VPCs of this node and keeps the kernel's routes like them."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        datapath: Datapath,
        presence: Presence,
        routers: Reflector,
        own: str,
        namespace: str,
        block: IPv6Network,
        own_advertisements: tuple[Controller, Callable[[Raw], Iterable[Key]]],
    ) -> None:
        """``own_advertisements``: the controller that heals this node's own, and how it maps them."""
        self._cluster = cluster
        self._datapath = datapath
        self._presence = presence
        self._routers = routers
        self._own = own
        self._namespace = namespace
        self._block = block
        self._own_advertisements = own_advertisements
        self._followed: dict[int, Reflector] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: dict[int, tuple[Ignored, ...]] = {}
        self._verify: set[int] = set()
        self.controller = Controller("routes", self._reconcile, workers=4, backoff_max=BACKOFF_MAX)
        self.controller.watch(routers, lambda _: [_NODES])
        presence.follow(self._on_vpc)

    def changed(self, vpc: int) -> None:
        """A guest of the VPC came to this node or left it: its prefix may be elsewhere now."""
        if vpc in self._followed:
            self.controller.enqueue(_key(vpc))

    async def known(self, vpc: int, name: str) -> Raw | None:
        """An advertisement as the API has it: from the VPC's store once that is in step, else live.

        What the running reconcile has written itself counts before any store shows it.
        """
        followed = self._followed.get(vpc)
        if followed is not None and followed.synced.is_set():
            return self._cluster.held(resources.BGP_ADVERTISEMENTS, (self._namespace, name))
        return await self._cluster.client.find(resources.BGP_ADVERTISEMENTS, self._namespace, name)

    async def heal_regularly(self) -> None:
        """Compare every table with what it should hold, every few minutes."""
        while True:
            await asyncio.sleep(HEAL_EVERY)
            self._verify.update(self._followed)
            self.controller.enqueue(_NODES)

    def _on_vpc(self, vpc: Vpc, here: bool) -> None:  # noqa: FBT001 - the follower's signature
        if here:
            reflector = self._cluster.reflect(
                resources.BGP_ADVERTISEMENTS,
                namespace=self._namespace,
                label_selector=f"{VPC_LABEL}={identity.to_base62(vpc.identifier)}",
                slim=lambda raw: slim_advertisement(raw, self._own),
            )
            self._followed[vpc.identifier] = reflector
            self.controller.watch(reflector, lambda raw: [] if is_own(raw, self._own) else [_key(vpc.identifier)])
            controller, keys = self._own_advertisements
            controller.watch(reflector, keys)
            self._spawn(self._when_synced(vpc.identifier, reflector))
        else:
            self._told.pop(vpc.identifier, None)
            self._spawn(self._cluster.forget(self._followed.pop(vpc.identifier)))

    async def _when_synced(self, vpc: int, reflector: Reflector) -> None:
        """A VPC without any advertisement causes no event, and stale routes of an earlier life must go too."""
        await reflector.synced.wait()
        self.controller.enqueue(_key(vpc))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reconcile(self, key: Key) -> float | None:
        if not self._routers.synced.is_set():
            return 0.2
        nodes = plan_nodes(list(self._routers.store.all()), self._own, self._block)
        if key == _NODES:
            change = await self._datapath.set_nodes(nodes.values())
            self._count(change)
            for vpc in self._followed:
                self.controller.enqueue(_key(vpc))
            return None
        vpc = int(key[1], 16)
        async with self._presence.visiting(vpc) as here:
            reflector = self._followed.get(vpc)
            if here is None or reflector is None or not reflector.synced.is_set():
                # Not synced: routes of an earlier life stay until what replaces them is known.
                return None
            plan = plan_remotes(
                list(reflector.store.all()),
                nodes,
                own=self._own,
                block=self._block,
                local=self._datapath.prefixes(here),
            )
            change = await self._datapath.set_remotes(here, plan.remotes, verify=vpc in self._verify)
            self._verify.discard(vpc)
        self._count(change)
        self._tell(vpc, plan)
        return None

    def _count(self, change: RouteChange) -> None:
        metrics.ROUTES.labels("added").inc(change.added)
        metrics.ROUTES.labels("removed").inc(change.removed)

    def _tell(self, vpc: int, plan: RoutePlan) -> None:
        """Say what is ignored once per change. A prefix that is local too is on its way here: no fault."""
        strange = tuple(one for one in plan.ignored if one.reason not in (LOCAL, UNKNOWN_ROUTER))
        if strange and self._told.get(vpc) != strange:
            for one in strange:
                metrics.IGNORED.labels(one.reason).inc()
            log.warning("advertised prefixes are ignored", ignored=[str(one) for one in strange])
        self._told[vpc] = strange


def _key(vpc: int) -> Key:
    return ("vpc", f"{vpc:x}")
