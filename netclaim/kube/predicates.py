"""Which changes of an object wake a controller.

A predicate is asked about modifications only: an object that appeared or went always counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netclaim.api.meta import Raw


@dataclass(frozen=True, slots=True)
class Predicate:
    """A question about (old, new); `a | b` asks whether either says yes."""

    asks: Callable[[Raw, Raw], bool]

    def __call__(self, old: Raw, new: Raw) -> bool:
        return self.asks(old, new)

    def __or__(self, other: Predicate) -> Predicate:
        return Predicate(lambda old, new: self.asks(old, new) or other.asks(old, new))


_META = ("generation", "labels", "annotations", "finalizers", "deletionTimestamp", "ownerReferences", "uid")


def _version_differs(old: Raw, new: Raw) -> bool:
    return bool(old["metadata"].get("resourceVersion") != new["metadata"].get("resourceVersion"))


def _meta_or_spec_differs(old: Raw, new: Raw) -> bool:
    before, after = old["metadata"], new["metadata"]
    if any(before.get(name) != after.get(name) for name in _META):
        return True
    # Kinds without a generation (Namespaces, ConfigMaps) can only be compared by what they hold.
    return "generation" not in after and any(
        old.get(part) != new.get(part) for part in ("spec", "data", "binaryData", "stringData")
    )


def status_changed(fn: Callable[[Raw], Any]) -> Predicate:
    """Yes when `fn(object)` (the part of the status that the controller reads) differs."""
    return Predicate(lambda old, new: bool(fn(old) != fn(new)))


changed_any = Predicate(_version_differs)
"""Any change of resourceVersion."""

changed_meta_or_spec = Predicate(_meta_or_spec_differs)
"""Generation, labels, annotations, finalizers, owners, deletionTimestamp or uid: everything but the status."""
