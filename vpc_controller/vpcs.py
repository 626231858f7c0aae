"""NetworkContext and its subnets -> a VPC of the same name, with a random identifier of 48 bits."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Final

from netclaim import identity
from netclaim.api import resources
from netclaim.api.cloud import VPC
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import NetworkContext, Subnet
from netclaim.kube import apply
from netclaim.kube.cluster import Cluster
from netclaim.kube.events import EventRecorder
from vpc_controller.drawing import Drawing, ExhaustedError
from vpc_controller.identifiers import chosen, held_vpc, value_of
from vpc_controller.vpc_plan import Observed, exhausted, plan

BY_CONTEXT: Final = "context"


def by_context(raw: Raw) -> Iterable[Hashable]:
    """Index of Subnets: the key of their context."""
    return [(raw["metadata"]["namespace"], raw["spec"]["networkContext"]["name"])]


class Vpcs:
    """Keeps a VPC for each NetworkContext."""

    def __init__(self, cluster: Cluster, drawing: Drawing, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._drawing = drawing
        self._recorder = recorder

    async def reconcile(self, key: Key) -> None:
        """Observe, plan, apply; twice when an identifier had to be drawn in between."""
        seen = self._observe(key)
        planned = plan(seen)
        if planned.draw is not None:
            try:
                planned = plan(replace(seen, identifier=await self._drawing.draw(planned.draw)))
            except ExhaustedError:
                planned = exhausted(seen)
        await apply.execute(self._cluster, planned.writes, self._recorder)

    def _observe(self, key: Key) -> Observed:
        context = self._cluster.store(resources.NETWORK_CONTEXTS).get(key)
        vpc = self._cluster.store(resources.VPCS).get(key)
        if context is None:
            return Observed(None, (), None, None)
        parsed = NetworkContext.model_validate(context)
        realized = VPC.model_validate(vpc) if vpc else None
        recorded = value_of(realized.status.vpc or "", identity.VPC_BITS) if realized else None
        return Observed(
            parsed,
            tuple(Subnet.model_validate(raw) for raw in self._cluster.store(resources.SUBNETS).by(BY_CONTEXT, key)),
            realized,
            chosen(held_vpc(self._cluster.store(resources.IDENTIFIERS), parsed.uid), recorded),
        )
