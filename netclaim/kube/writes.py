"""Writes as data: what a plan is made of. Pure, so that planners can be tested and plans printed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource


def _named(resource: Resource, key: Key) -> str:
    return f"{resource.kind} {'/'.join(part for part in key if part)}"


def _key(obj: Raw) -> Key:
    metadata = obj["metadata"]
    return (metadata.get("namespace") or "", metadata.get("name") or f"{metadata.get('generateName', '')}*")


@dataclass(frozen=True, slots=True)
class Owned:
    """The exact part of `.status` that one manager owns: names of fields, and types of conditions."""

    fields: frozenset[str] = frozenset()
    conditions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object. AlreadyExists propagates unless `ok_if_exists`; `guarded` writes are sent by a leader only."""

    resource: Resource
    obj: Raw
    guarded: bool = False
    ok_if_exists: bool = False
    manager: str | None = None

    def __str__(self) -> str:
        return f"create {_named(self.resource, _key(self.obj))}"


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of the main resource; send `metadata.uid` when updating."""

    resource: Resource
    obj: Raw
    manager: str
    force: bool = True
    guarded: bool = False

    def __str__(self) -> str:
        return f"apply {_named(self.resource, _key(self.obj))} as {self.manager}"


@dataclass(frozen=True, slots=True)
class ApplyStatus:
    """Server-side apply of the part of a status that `manager` owns, skipped when the cache shows it already.

    `status` holds all of what is owned and nothing else. Conditions come without lastTransitionTime: it is filled in,
    and kept unless `status` flips. With `force=False` a Conflict means that an owner was faster, and is success.
    With `resource_version` the write is made over that very version only, and its Conflict propagates.
    """

    resource: Resource
    key: Key
    status: Raw
    manager: str
    owns: Owned
    force: bool = True
    resource_version: str | None = None
    guarded: bool = False

    def __str__(self) -> str:
        told = [f"{c['type']}={c.get('status')}({c.get('reason', '')})" for c in self.status.get("conditions") or ()]
        told = [*sorted(name for name in self.status if name != "conditions"), *told]
        return f"status of {_named(self.resource, self.key)} as {self.manager}: {', '.join(told) or 'nothing'}"


@dataclass(frozen=True, slots=True)
class JsonPatch:
    """RFC 6902 patch; NotFound, Conflict and Invalid propagate."""

    resource: Resource
    key: Key
    ops: tuple[Mapping[str, Any], ...]
    subresource: str | None = None
    guarded: bool = False

    def __str__(self) -> str:
        told = ", ".join(f"{op['op']} {op['path']}" for op in self.ops)
        return f"patch {_named(self.resource, self.key)}: {told}"


@dataclass(frozen=True, slots=True)
class Replace:
    """PUT over the version in `metadata.resourceVersion`; Conflict propagates."""

    resource: Resource
    obj: Raw
    guarded: bool = False

    def __str__(self) -> str:
        return f"replace {_named(self.resource, _key(self.obj))}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this very object; that it is gone already, or another took its name, is success."""

    resource: Resource
    key: Key
    uid: str
    resource_version: str | None = None
    propagation: Literal["Foreground", "Background", "Orphan"] | None = None
    guarded: bool = False

    def __str__(self) -> str:
        return f"delete {_named(self.resource, self.key)} (uid {self.uid})"


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Hold `obj` with `finalizer`; an object that is going is left alone."""

    resource: Resource
    obj: Raw
    finalizer: str

    def __str__(self) -> str:
        return f"hold {_named(self.resource, _key(self.obj))} with {self.finalizer}"


@dataclass(frozen=True, slots=True)
class DropFinalizer:
    """Let `obj` go. With `exact` only in the very version that was seen: anything newer is a Conflict."""

    resource: Resource
    obj: Raw
    finalizer: str
    exact: bool = False
    guarded: bool = False

    def __str__(self) -> str:
        return f"drop {self.finalizer} from {_named(self.resource, _key(self.obj))}"


@dataclass(frozen=True, slots=True)
class Emit:
    """A Kubernetes Event about `regarding`."""

    regarding: Raw = field(repr=False)
    type: Literal["Normal", "Warning"]
    reason: str
    note: str

    def __str__(self) -> str:
        return f"event {self.type} {self.reason} on {'/'.join(p for p in _key(self.regarding) if p)}: {self.note}"


Write: TypeAlias = Create | Apply | ApplyStatus | JsonPatch | Replace | Delete | AddFinalizer | DropFinalizer | Emit
