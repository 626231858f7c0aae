"""What Workloads and Instances say about themselves. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from netclaim.api import compute, resources
from netclaim.api.compute import Workload
from netclaim.api.conditions import ConditionStatus, is_true, message_of, reason_of, timestamp
from netclaim.api.managers import COMPUTE
from netclaim.api.meta import Key, Raw
from netclaim.kube.objects import is_going, key_of, uid_of
from netclaim.kube.writes import ApplyStatus, Owned
from nso.compute import claims, reasons, render
from nso.compute.claims import Interface
from nso.compute.reasons import Refusal
from nso.compute.slots import HeldInstance, Ownership, View
from nso.conditions import told

INSTANCE_OWNS = Owned(
    fields=frozenset({"networkInterfaces", "podRef", "node", "firstReadyTime"}),
    conditions=frozenset({compute.PROGRAMMED, compute.AVAILABLE, compute.READY}),
)
WORKLOAD_OWNS = Owned(
    fields=frozenset({"replicas", "readyReplicas", "updatedReplicas", "observedGeneration", "selector"}),
    conditions=frozenset({compute.AVAILABLE}),
)


def of_instance(
    raw: Raw, interfaces: Sequence[Interface], pod: Raw | None, pod_why: Refusal | None, now: datetime
) -> ApplyStatus:
    """The status of an instance.

    `pod` is its own Pod when there is one; `pod_why` says why that is not ready, None when it is. The reason
    `NoPodProvider` leaves readiness to the network alone.
    """
    foreign = pod_why is not None and pod_why.reason == reasons.NO_POD_PROVIDER
    why = _first(claims.refusal(interfaces), None if foreign else pod_why)
    programmed, programmed_why = claims.programmed(interfaces)
    status: Raw = {
        "networkInterfaces": [claims.mirrored(one) for one in interfaces],
        "conditions": [
            told(raw, compute.PROGRAMMED, _status(programmed), programmed_why.reason, programmed_why.message),
            _available(raw, pod_why, foreign=foreign),
            _ready(raw, why),
        ],
    }
    if pod is not None:
        status["podRef"] = {"name": pod["metadata"]["name"], "uid": uid_of(pod)}
        if node := (pod.get("spec") or {}).get("nodeName"):
            status["node"] = node
    first = (raw.get("status") or {}).get("firstReadyTime") or (timestamp(now) if why is None else None)
    if first:
        status["firstReadyTime"] = first
    return ApplyStatus(resources.INSTANCES, key_of(raw), status, COMPUTE, INSTANCE_OWNS)


def of_workload(
    raw: Raw, workload: Workload, view: View, instances: Mapping[Key, Raw], waiting: Mapping[int, Refusal]
) -> ApplyStatus:
    """The status of a workload: counts, and the first slot that is not ready in its own words."""
    ours = [slot.instance for slot in view.slots if slot.instance and slot.instance.ownership is Ownership.OURS]
    standing = [one for one in ours if not one.going]
    desired = [one for one in standing if one.ordinal < view.replicas]
    ready = sum(1 for one in desired if one.ready)
    status: Raw = {
        "replicas": len(ours),
        "readyReplicas": ready,
        "updatedReplicas": sum(1 for one in desired if one.template_hash == view.template_hash),
        "observedGeneration": workload.metadata.generation,
        "selector": render.selector(workload.name),
    }
    if ready == view.replicas and not waiting:
        reason = reasons.ALL_READY if ready else reasons.SCALED_TO_ZERO
        available = told(raw, compute.AVAILABLE, "True", reason, f"{ready} of {view.replicas} instances are ready.")
    else:
        name, why = _first_not_ready(workload, view, instances, waiting)
        message = f"{ready} of {view.replicas} instances are ready. {name}: {why}"
        available = told(raw, compute.AVAILABLE, "False", why.reason, message)
    status["conditions"] = [available]
    return ApplyStatus(resources.WORKLOADS, key_of(raw), status, COMPUTE, WORKLOAD_OWNS)


def _first(network_why: Refusal | None, pod_why: Refusal | None) -> Refusal | None:
    """Which of the two is why: the network, except that a claim is not programmed before there is a Pod."""
    if network_why is None or (pod_why is not None and network_why.reason == reasons.NOT_PROGRAMMED):
        return pod_why
    return network_why


def _first_not_ready(
    workload: Workload, view: View, instances: Mapping[Key, Raw], waiting: Mapping[int, Refusal]
) -> tuple[str, Refusal]:
    for slot in view.slots:
        if slot.ordinal in waiting:
            return slot.instance_name, waiting[slot.ordinal]
        if slot.ordinal < view.replicas and not (slot.instance and slot.instance.ready):
            return slot.instance_name, _said(slot.instance, instances.get((workload.namespace, slot.instance_name)))
    return workload.name, Refusal(reasons.NOT_READY, "instances are being counted")


def _said(held: HeldInstance | None, raw: Raw | None) -> Refusal:
    """What an instance says about itself."""
    if held is None or raw is None or is_going(raw):
        return Refusal(reasons.BEING_REPLACED, "is being created")
    return Refusal(
        reason_of(raw, compute.READY) or reasons.NOT_READY, message_of(raw, compute.READY) or "has not started yet"
    )


def _available(raw: Raw, why: Refusal | None, *, foreign: bool) -> Raw:
    if why is None:
        return told(raw, compute.AVAILABLE, "True", reasons.POD_READY, "")
    return told(raw, compute.AVAILABLE, "Unknown" if foreign else "False", why.reason, why.message)


def _ready(raw: Raw, why: Refusal | None) -> Raw:
    if why is None:
        return told(raw, compute.READY, "True", reasons.READY, "")
    return told(raw, compute.READY, "False", why.reason, why.message)


def _status(text: str) -> ConditionStatus:
    return "True" if text == "True" else "False" if text == "False" else "Unknown"


def ready_summary(raw: Raw) -> tuple[object, ...]:
    """What of an Instance's status its Workload reads."""
    status = raw.get("status") or {}
    return (
        is_true(raw, compute.READY),
        reason_of(raw, compute.READY),
        message_of(raw, compute.READY),
        status.get("firstReadyTime"),
    )
