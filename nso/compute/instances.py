"""The Instance reconciler: lifts the network gate, keeps the Pod, and says how the instance is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from netclaim.api import resources
from netclaim.api.compute import NETWORK_GATE, READY, Instance
from netclaim.api.conditions import condition
from netclaim.api.managers import COMPUTE
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import PREPARED
from netclaim.kube import apply
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists, ApiError
from netclaim.kube.events import EventRecorder
from netclaim.kube.objects import is_going
from netclaim.kube.writes import ApplyStatus, Delete
from nso.compute import claims, pods, reasons, render, status
from nso.compute.claims import Interface
from nso.compute.observed import Stores
from nso.compute.pace import Pace
from nso.compute.pods import Keep, Make, PodStep, Replace, Wait
from nso.compute.reasons import Refusal

FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 30.0
"""Seconds between tries of a refused Pod: doubling, at most this; at once when a claim's Prepared changes."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last try of a Pod that was refused. `prepared` is what the claims said then."""

    why: Refusal
    tries: int
    not_before: float
    prepared: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """An instance with its claims and its Pod."""

    raw: Raw
    instance: Instance
    interfaces: tuple[Interface, ...]
    pod: Raw | None

    @property
    def gates(self) -> list[str]:
        """What the instance still waits for."""
        return [gate.name for gate in self.instance.spec.scheduling_gates]

    @property
    def is_prepared(self) -> bool:
        """Whether every interface is there for a Pod to use."""
        return all(one.is_prepared for one in self.interfaces)

    @property
    def prepared(self) -> tuple[object, ...]:
        """When each claim's Prepared last changed: a refused Pod is tried at once when this differs."""
        said = [condition(one.claim, PREPARED) or {} for one in self.interfaces]
        return tuple((one.get("status"), one.get("lastTransitionTime")) for one in said)


@dataclass(slots=True)
class Instances:
    """Observe an Instance, plan, apply. `attempts` remembers refused Pods between two looks, by the Instance's uid."""

    cell: Cluster
    stores: Stores
    recorder: EventRecorder
    provides_pods: bool
    clock: Callable[[], float] = time.monotonic
    attempts: dict[str, Attempt] = field(default_factory=dict)
    pace: Pace = field(default_factory=lambda: Pace(READY))
    _uids: dict[Key, str] = field(default_factory=dict)

    async def reconcile(self, key: Key) -> float | None:
        """Bring one Instance in line; returns when to look again."""
        seen = self._observe(key)
        if seen is None:
            return None
        if NETWORK_GATE in seen.gates and seen.is_prepared:
            uids = {one.wanted.claim_ref.name: one.uid for one in seen.interfaces}
            await apply.execute(self.cell, [render.lift_gate(seen.raw, uids)])
            return None
        step = self._plan(seen)
        again: float | None = None
        if isinstance(step, Make):
            made = await self._make(seen)
            if made is None:
                return None
            step, again = Wait(made.why), max(0.05, made.not_before - self.clock())
        elif isinstance(step, Replace):
            again = await self._replace(seen, step)
        told = self._status(seen, step)
        pause = self.pace.pause(seen.raw, told)
        if pause > 0:
            return pause if again is None else min(pause, again)
        await apply.execute(self.cell, [told])
        return again

    def _observe(self, key: Key) -> Seen | None:
        raw = self.stores.instances.get(key)
        if raw is None or is_going(raw):
            self.attempts.pop(self._uids.pop(key, ""), None)
            self.pace.forget(key)
            return None
        instance = Instance.model_validate(raw)
        owner = instance.spec.workload_ref
        interfaces = tuple(
            Interface(wanted, claims.usable(self.stores.claims.get((instance.namespace, wanted.claim_ref.name)), owner))
            for wanted in instance.spec.network_interfaces
        )
        return Seen(raw, instance, interfaces, self.stores.pods.get(key))

    def _plan(self, seen: Seen) -> PodStep:
        if not self.provides_pods:
            return Wait(reasons.no_pod_provider())
        step = pods.decide(seen.instance.name, seen.instance.uid, seen.pod, _now())
        if not isinstance(step, Make):
            return step
        if NETWORK_GATE in seen.gates or not seen.is_prepared:
            return Wait(claims.refusal(seen.interfaces) or reasons.gated(NETWORK_GATE))
        if seen.gates:
            return Wait(reasons.gated(", ".join(seen.gates)))
        return step

    async def _make(self, seen: Seen) -> Attempt | None:
        """Create the Pod; None when it is made, else the refusal and when it is tried again."""
        uid = seen.instance.uid
        last = self.attempts.get(uid)
        if last is not None and last.prepared == seen.prepared and self.clock() < last.not_before:
            return last
        try:
            await self.cell.create(resources.PODS, render.pod(seen.instance), field_manager=COMPUTE)
        except AlreadyExists:
            why = await self._holder(seen)
        except ApiError as error:
            if not pods.is_refusal(error):
                raise
            why = pods.refused(error)
        else:
            self.attempts.pop(uid, None)
            return None
        if last is None or last.why.reason != why.reason:
            self.recorder.event(seen.raw, "Warning", why.reason, why.message)
        tries = last.tries + 1 if last is not None and last.prepared == seen.prepared else 1
        pause = min(LAST_RETRY, FIRST_RETRY * 2 ** (tries - 1))
        self._uids[seen.instance.key] = uid
        self.attempts[uid] = Attempt(why, tries, self.clock() + pause, seen.prepared)
        return self.attempts[uid]

    async def _holder(self, seen: Seen) -> Refusal:
        """Who has the Pod's name: it may be a Pod that we do not follow, since nothing marks it as an instance's."""
        pod = await self.cell.client.find(resources.PODS, *seen.instance.key)
        if pod is None:
            return reasons.pod_going(seen.instance.name)
        step = pods.decide(seen.instance.name, seen.instance.uid, pod, _now())
        return step.why if isinstance(step, Wait) else reasons.pod_pending(seen.instance.name, "")

    async def _replace(self, seen: Seen, step: Replace) -> float | None:
        """A Pod that ended goes; the next one follows when it is gone: same slot, same addresses."""
        if step.after > 0:
            return step.after
        self.recorder.event(seen.raw, "Normal", step.why.reason, step.why.message)
        await apply.execute(self.cell, [Delete(resources.PODS, seen.instance.key, step.uid, guarded=True)])
        return None

    def _status(self, seen: Seen, step: PodStep) -> ApplyStatus:
        own = seen.pod if isinstance(step, Keep | Replace) else None
        why = None if isinstance(step, Make) else step.why
        return status.of_instance(seen.raw, seen.interfaces, own, why, _now())


def _now() -> datetime:
    return datetime.now(UTC)
