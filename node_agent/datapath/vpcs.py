"""The VPCs of a node in the kernel: tables, rules, the pair, and the gateways that live guests need."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from node_agent.datapath import plan
from node_agent.datapath.execute import Executor
from node_agent.datapath.model import Address, Attachment, NodeConfig, Record, Vpc
from node_agent.datapath.remotes import RemoteRoutes


@dataclass(slots=True)
class _State:
    """What this process knows of a VPC that it set up: enough to not ask the kernel again."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    up: bool = False
    gateways: set[Address] = field(default_factory=set)


class Vpcs:
    """Sets VPCs up and takes them down; each takes its turns, different ones go side by side."""

    def __init__(
        self,
        config: NodeConfig,
        executor: Executor,
        remotes: RemoteRoutes,
        *,
        live: Mapping[str, Record],
        raised: dict[str, Record | Vpc],
    ) -> None:
        """``live``: the attachments that are here, by device; ``raised``: what is healed when its device goes down."""
        self._config = config
        self._executor = executor
        self._remotes = remotes
        self._live = live
        self._raised = raised
        self._states: defaultdict[int, _State] = defaultdict(_State)

    async def ensure(self, vpc: Vpc) -> None:
        """Tables, rules and the pair. Cheap when they are there already."""
        state = self._states[vpc.identifier]
        async with state.lock:
            if not state.up:
                await self._executor.run(plan.vpc_up(self._config, vpc))
                state.up = True
                self._raised |= dict.fromkeys((vpc.inner, vpc.outer), vpc)

    async def ensure_again(self, vpc: Vpc) -> None:
        """The same, gateways included, whatever was known of it: somebody has touched its devices."""
        state = self._states[vpc.identifier]
        async with state.lock:
            state.up = False
            state.gateways.clear()
        await self.ensure(vpc)
        for record in list(self._live.values()):
            if record.attachment.vpc == vpc:
                await self.ensure_gateways(record.attachment)

    async def release(self, vpc: Vpc) -> bool:
        """Remove everything of the VPC. False (and nothing happens) as long as one attachment of it is live here."""
        state = self._states[vpc.identifier]
        async with state.lock:
            if any(record.attachment.vpc.identifier == vpc.identifier for record in self._live.values()):
                return False
            for device in (vpc.inner, vpc.outer):
                self._raised.pop(device, None)
            await self._executor.run(plan.vpc_down(self._config, vpc))
            self._remotes.forget(vpc)
            state.up = False
            state.gateways.clear()
            return True

    async def ensure_gateways(self, attachment: Attachment) -> None:
        """The gateways of an attachment, as far as none before it has brought them."""
        state = self._states[attachment.vpc.identifier]
        async with state.lock:
            missing = [gateway for gateway in plan.gateways(attachment) if gateway not in state.gateways]
            await self._executor.run(
                step for gateway in missing for step in plan.gateway_up(self._config, attachment.vpc, gateway)
            )
            state.gateways.update(missing)

    async def release_gateways(self, attachment: Attachment) -> None:
        """The gateways of an attachment that has gone, as far as none that lives needs them."""
        state = self._states[attachment.vpc.identifier]
        async with state.lock:
            live = [record.attachment for record in self._live.values()]
            unused = set(plan.gateways(attachment)) - plan.gateways_in_use(live, attachment.vpc)
            for gateway in unused:
                await self._executor.run(plan.gateway_down(self._config, attachment.vpc, gateway))
                state.gateways.discard(gateway)
