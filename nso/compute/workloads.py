"""The Workload reconciler: keeps each slot filled, and says how far it is."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal

from netclaim.api import resources
from netclaim.api.compute import AVAILABLE, Workload
from netclaim.api.meta import Key, Raw
from netclaim.kube import apply
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import ApiError, Forbidden, Invalid
from netclaim.kube.events import EventRecorder
from netclaim.kube.objects import is_going, key_of
from nso.compute import reasons, render, slots, status
from nso.compute.observed import BY_WORKLOAD, Stores
from nso.compute.pace import Pace
from nso.compute.reasons import Refusal
from nso.compute.slots import MakeClaim, MakeInstance, RemoveInstance, Step, View

AT_ONCE: Final = 16
"""Slots that one Workload works on at the same time."""

LOOK_AGAIN: Final = 10.0
"""Seconds until a slot is looked at again that waits for something no watch of ours tells about."""

_UNWATCHED: Final = frozenset({reasons.NAME_CONFLICT, reasons.QUOTA_EXCEEDED, reasons.CREATE_REFUSED})


@dataclass(frozen=True, slots=True)
class Workloads:
    """Observe a Workload's slots, plan, apply."""

    cell: Cluster
    stores: Stores
    recorder: EventRecorder
    pace: Pace = field(default_factory=lambda: Pace(AVAILABLE))

    async def reconcile(self, key: Key) -> float | None:
        """Bring one Workload in line; returns when to look again."""
        raw = self.stores.workloads.get(key)
        if raw is None or is_going(raw):
            self.pace.forget(key)
            return None
        workload = Workload.model_validate(raw)
        view = self.stores.view(workload)
        plan = slots.plan(view)
        refusals = await self._carry_out(raw, workload, view, plan)
        waiting = {**plan.waiting, **refusals}
        instances = {key_of(one): one for one in self.stores.instances.by(BY_WORKLOAD, key)}
        told = status.of_workload(raw, workload, view, instances, waiting)
        pause = self.pace.pause(raw, told)
        if pause > 0:
            return pause
        await apply.execute(self.cell, [told])
        return LOOK_AGAIN if any(why.reason in _UNWATCHED for why in waiting.values()) else None

    async def _carry_out(self, raw: Raw, workload: Workload, view: View, plan: slots.Plan) -> dict[int, Refusal]:
        """The steps, slots side by side; returns the slots whose claim or instance was refused, and why."""
        limit = asyncio.Semaphore(AT_ONCE)
        refusals: dict[int, Refusal] = {}

        async def fill(steps: list[Step]) -> None:
            async with limit:
                for step in steps:
                    try:
                        await self._do(raw, workload, view, step)
                    except (Forbidden, Invalid) as error:
                        refusals[step.ordinal] = _refusal(step, error)
                        return

        outcomes = await asyncio.gather(*(fill(steps) for steps in plan.by_slot()), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return refusals

    async def _do(self, raw: Raw, workload: Workload, view: View, step: Step) -> None:
        await apply.execute(self.cell, [render.write(workload, view.template_hash, step)])
        if isinstance(step, RemoveInstance):
            kind: Literal["Normal", "Warning"] = "Warning" if step.why.reason == reasons.CLAIM_GONE else "Normal"
            self.recorder.event(raw, kind, step.why.reason, f"Instance {step.name} is removed: {step.why.message}")


def _refusal(step: Step, error: ApiError) -> Refusal:
    if isinstance(step, MakeClaim):
        return reasons.create_refused(f"{resources.CLAIMS.kind} {step.name}", error.message)
    if isinstance(step, MakeInstance):
        return reasons.create_refused(f"{resources.INSTANCES.kind} {step.name}", error.message)
    return reasons.create_refused(str(step), error.message)
