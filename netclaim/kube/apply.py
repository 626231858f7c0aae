"""Carrying out a plan: the writes in order, each only when it changes something."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Iterable
from typing import Any

from netclaim.api.meta import Raw
from netclaim.kube import writes
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists, Conflict, NotFound
from netclaim.kube.events import EventRecorder
from netclaim.kube.writes import ApplyStatus, Owned, Write

log = logging.getLogger(__name__)

_TIME = "lastTransitionTime"
# What the API server fills into a condition that leaves them out.
_DEFAULTS: Raw = {"status": "Unknown", "reason": "Pending"}


async def execute(cluster: Cluster, plan: Iterable[Write], recorder: EventRecorder | None = None) -> None:
    """Carry out `plan` in order. A write that the cache shows as done already is not sent.

    Raises:
        ApiError: a write was refused in a way that its kind does not count as success.
        LeadershipLost: this process no longer leads.
    """
    for write in plan:
        await _execute_one(cluster, write, recorder)


async def _execute_one(cluster: Cluster, write: Write, recorder: EventRecorder | None) -> None:  # noqa: C901
    match write:
        case ApplyStatus():
            await _apply_status(cluster, write)
            return
        case writes.Emit():
            if recorder is not None:
                recorder.event(write.regarding, write.type, write.reason, write.note)
            return
        case writes.Create():
            try:
                await cluster.create(write.resource, write.obj, guarded=write.guarded, field_manager=write.manager)
            except AlreadyExists:
                if not write.ok_if_exists:
                    raise
                return
        case writes.Apply():
            await cluster.apply(
                write.resource, write.obj, manager=write.manager, force=write.force, guarded=write.guarded
            )
        case writes.JsonPatch():
            namespace, name = write.key
            await cluster.json_patch(
                write.resource, namespace, name, write.ops, subresource=write.subresource, guarded=write.guarded
            )
        case writes.Replace():
            await cluster.replace(write.resource, write.obj, guarded=write.guarded)
        case writes.Delete():
            await cluster.delete_if_present(
                write.resource,
                write.key,
                uid=write.uid,
                resource_version=write.resource_version,
                propagation=write.propagation,
                guarded=write.guarded,
            )
        case writes.AddFinalizer():
            await cluster.add_finalizer(write.resource, write.obj, write.finalizer)
        case writes.DropFinalizer():
            await cluster.drop_finalizer(
                write.resource, write.obj, write.finalizer, exact=write.exact, guarded=write.guarded
            )
    log.debug("%s", write)


async def _apply_status(cluster: Cluster, write: ApplyStatus) -> None:
    held = cluster.held(write.resource, write.key)
    status = (held or {}).get("status") or {}
    if held is not None and not differs(status, write.status, write.owns):
        return
    namespace, name = write.key
    metadata = {"name": name, "namespace": namespace or None, "resourceVersion": write.resource_version}
    obj: Raw = {
        "metadata": {field: value for field, value in metadata.items() if value},
        "status": stamped(write.status, status, now()),
    }
    try:
        await cluster.apply_status(write.resource, obj, manager=write.manager, force=write.force, guarded=write.guarded)
    except NotFound:
        return
    except Conflict:
        if write.force or write.resource_version is not None:
            raise
        return
    log.debug("%s", write)


def differs(actual: Raw, wanted: Raw, owns: Owned) -> bool:
    """Whether the owned part of a status is not what is wanted: other, missing, or there although it is now omitted."""
    if any(_bare(actual.get(name)) != _bare(wanted.get(name)) for name in owns.fields):
        return True
    return _conditions(actual, owns.conditions) != _conditions(wanted, owns.conditions)


def stamped(wanted: Raw, actual: Raw, moment: str) -> Raw:
    """`wanted` with a lastTransitionTime on each condition: `actual`'s unless the condition's status flips."""
    if not wanted.get("conditions"):
        return wanted
    before = {condition["type"]: condition for condition in actual.get("conditions") or ()}
    return {**wanted, "conditions": [_stamp(each, before.get(each["type"]), moment) for each in wanted["conditions"]]}


def _stamp(condition: Raw, before: Raw | None, moment: str) -> Raw:
    if condition.get(_TIME):
        return condition
    kept = before.get(_TIME) if before and before.get("status") == condition.get("status", "Unknown") else None
    return {**{name: value for name, value in condition.items() if value is not None}, _TIME: kept or moment}


def now() -> str:
    """The time as the API writes it."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bare(value: Any) -> Any:
    """A value without nulls, so that "absent" and "null" are equal."""
    if isinstance(value, dict):
        return {name: _bare(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_bare(inner) for inner in value]
    return value


def _conditions(status: Raw, types: Collection[str]) -> dict[str, Raw]:
    """What the conditions of these types say, their times left out."""
    return {
        condition["type"]: _DEFAULTS | {k: v for k, v in condition.items() if k != _TIME and v is not None}
        for condition in status.get("conditions") or ()
        if condition["type"] in types
    }
