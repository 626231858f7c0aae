"""Routes to prefixes on other nodes, and to the other nodes' locators, kept by difference."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address

from node_agent.datapath import plan
from node_agent.datapath.errors import LinkMissingError
from node_agent.datapath.execute import Executor
from node_agent.datapath.model import Difference, NodeConfig, Prefix, RemoteNode, RemotePrefix, RouteChange, Vpc
from node_agent.datapath.objects import Ensure, Remove, Route, RouteKind, Step
from node_agent.datapath.observe import Observer

Key = tuple[int, Prefix]


class RemoteRoutes:
    """Remembers what is installed: a change costs what it changes. Reads the kernel the first time and on demand."""

    def __init__(self, config: NodeConfig, executor: Executor, observer: Observer) -> None:
        self._config = config
        self._executor = executor
        self._observer = observer
        self._installed: dict[int, frozenset[Route]] = {}
        self._nodes: tuple[RemoteNode, ...] | None = None
        self._lock = asyncio.Lock()
        self._gateways: dict[IPv6Address, IPv6Address | None] = {}

    def forget(self, vpc: Vpc) -> None:
        """The VPC was removed: the next call asks the kernel again."""
        self._installed.pop(vpc.identifier, None)

    async def set(self, vpc: Vpc, remotes: Iterable[RemotePrefix], *, verify: bool) -> RouteChange:
        """Make the routes of a VPC exactly these. Raises ValueError for a prefix or segment that is never accepted."""
        wanted: dict[Key, Route] = {}
        for remote in remotes:
            plan.accept_remote(self._config, remote)
            for route in plan.remote_objects(self._config, vpc, remote):
                wanted[_key(route)] = route
        async with self._lock:
            return await self._set(vpc, wanted, verify=verify)

    async def repair(self, vpc: Vpc) -> None:
        """Put back what was installed for a VPC and is not there any more."""
        async with self._lock:
            installed = self._installed.get(vpc.identifier)
            if installed is not None:
                await self._set(vpc, {_key(route): route for route in installed}, verify=True)

    async def repair_nodes(self) -> None:
        """Put back the routes to the other nodes, once they are known."""
        if self._nodes is not None:
            await self.set_nodes(self._nodes)

    async def set_nodes(self, nodes: Iterable[RemoteNode]) -> RouteChange:
        """Make the routes to other nodes' locators exactly these. A node inside our own locator is left out."""
        config = self._config
        others = self._others(nodes)
        for node in others:
            if not node.locator.subnet_of(config.locator_block):
                raise ValueError(f"the locator {node.locator} lies outside the locator block {config.locator_block}")
        async with self._lock:
            self._nodes = tuple(others)
            self._gateways.clear()
            wanted = {
                _key(route): route
                for route in [plan.locator_route(config, node, await self._gateway(node.underlay)) for node in others]
            }
            return await self._change(await self._locators(), wanted)

    async def check(
        self, remotes: Mapping[Vpc, Iterable[RemotePrefix]], nodes: Iterable[RemoteNode]
    ) -> list[Difference]:
        """Compare the kernel with what should be there; changes nothing."""
        differences: list[Difference] = []
        for vpc, prefixes in remotes.items():
            wanted = {each for prefix in prefixes for each in plan.remote_objects(self._config, vpc, prefix)}
            differences += _compared(f"VPC {vpc.identifier:x}", wanted, await self._observed(vpc))
        others = self._others(nodes)
        locators = {
            plan.locator_route(self._config, node, await self._observer.gateway_to(node.underlay)) for node in others
        }
        return differences + _compared("other nodes", locators, await self._locators())

    def _others(self, nodes: Iterable[RemoteNode]) -> list[RemoteNode]:
        """All but this machine, under whatever name: the kernel refuses a way to itself."""
        own = self._config
        return [node for node in nodes if node.locator != own.locator and node.underlay != own.underlay]

    async def _locators(self) -> frozenset[Route]:
        uplink = await self._executor.index(self._config.uplink)
        if uplink is None:
            raise LinkMissingError(self._config.uplink, "routes to the other nodes")
        found = await self._observer.routes(plan.MAIN_TABLE, {uplink: self._config.uplink}, oif=uplink)
        return frozenset(route for route in found if route.kind is RouteKind.UNICAST)

    async def _set(self, vpc: Vpc, wanted: dict[Key, Route], *, verify: bool) -> RouteChange:
        found = self._installed.pop(vpc.identifier, None)
        if verify or found is None:
            found = await self._observed(vpc)
        change = await self._change(found, wanted)
        self._installed[vpc.identifier] = frozenset(wanted.values())
        return change

    async def _observed(self, vpc: Vpc) -> frozenset[Route]:
        names: dict[int, str] = {}
        for device in (vpc.inner, vpc.outer):
            index = await self._executor.index(device)
            if index is None:
                raise LinkMissingError(device, f"routes of the VPC {vpc.identifier:x}")
            names[index] = device
        inner = await self._observer.routes(plan.tenant_table(self._config, vpc), names)
        outer = await self._observer.routes(plan.underlay_table(self._config, vpc), names)
        return frozenset(route for route in inner | outer if route.metric == plan.REMOTE_METRIC)

    async def _change(self, found: frozenset[Route], wanted: dict[Key, Route]) -> RouteChange:
        added = [route for route in wanted.values() if route not in found]
        removed = [route for route in found if _key(route) not in wanted]
        # First the encapsulation, then the way to it; the other way round when they go.
        steps: list[Step] = [Ensure(route) for route in sorted(added, key=lambda each: each.encap is None)]
        steps += [Remove(route) for route in sorted(removed, key=lambda each: each.encap is not None)]
        await self._executor.run(steps)
        return RouteChange(added=_prefixes(added), removed=_prefixes(removed))

    async def _gateway(self, underlay: IPv6Address) -> IPv6Address | None:
        """The router towards an underlay address; None when it is on the uplink's own link."""
        if underlay not in self._gateways:
            self._gateways[underlay] = await self._observer.gateway_to(underlay)
        return self._gateways[underlay]


def _compared(whose: str, wanted: Iterable[Route], held: Iterable[Route]) -> list[Difference]:
    wanted, held = set(wanted), set(held)
    differences = [Difference(f"route of {whose}", str(route), None) for route in wanted - held]
    return differences + [Difference(f"route of {whose}", "none such", str(route)) for route in held - wanted]


def _prefixes(routes: Iterable[Route]) -> int:
    return len({route.destination for route in routes})


def _key(route: Route) -> Key:
    return route.table, route.destination
