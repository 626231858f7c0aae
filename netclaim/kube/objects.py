"""Small readings of raw objects that the runtime itself needs. Nothing here knows a kind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def key_of(raw: Raw) -> Key:
    """(namespace or "", name) of an object."""
    metadata = raw["metadata"]
    return (metadata.get("namespace") or "", metadata["name"])


def uid_of(raw: Raw) -> str:
    """The object's uid, "" before it was created."""
    return str(raw["metadata"].get("uid") or "")


def version_of(raw: Raw) -> int:
    """The object's resourceVersion as a number (they are ordered within a resource), 0 when it has none."""
    return version_number(raw["metadata"].get("resourceVersion"))


def version_number(text: Any) -> int:
    """A resourceVersion as a number, 0 when it is not one."""
    return int(text) if isinstance(text, str) and text.isdigit() else 0


def is_going(raw: Raw) -> bool:
    """Whether deletion was asked for."""
    return bool(raw["metadata"].get("deletionTimestamp"))


def describe(resource: Resource, key: Key) -> str:
    """`Kind namespace/name`, for messages."""
    namespace, name = key
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"


def slimmed(raw: Raw, resource: Resource) -> Raw:
    """The object as stores keep it: without managedFields and the last-applied annotation, with apiVersion and kind.

    `raw` is taken over and changed.
    """
    raw["apiVersion"] = resource.api_version
    raw["kind"] = resource.kind
    metadata = raw["metadata"]
    metadata.pop("managedFields", None)
    annotations = metadata.get("annotations")
    if annotations and _LAST_APPLIED in annotations:
        del annotations[_LAST_APPLIED]
        if not annotations:
            del metadata["annotations"]
    return raw


def covers(actual: Any, wanted: Any) -> bool:
    """Whether `actual` says everything that `wanted` says: mappings by key, lists item by item, the rest by equality.

    What the API server defaulted into `actual` does not matter.
    """
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(
            covers(actual.get(name), value) for name, value in wanted.items() if value is not None
        )
    if isinstance(wanted, list):
        return (
            isinstance(actual, list)
            and len(actual) == len(wanted)
            and all(covers(have, want) for have, want in zip(actual, wanted, strict=True))
        )
    return bool(actual == wanted)


def path_value(raw: Raw, path: str) -> Hashable | None:
    """The scalar at a dotted path such as `spec.nodeName`, None when there is none."""
    value: Any = raw
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value if isinstance(value, str | int | float | bool) else None


def owner_uids(raw: Raw) -> Iterable[str]:
    """The uids of the object's owners; an index function for "children of"."""
    return [owner["uid"] for owner in raw["metadata"].get("ownerReferences") or () if owner.get("uid")]
