"""Which project a namespace of the cell belongs to."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import cache

from netclaim.api.meta import Raw


def project_of(namespace: Raw | None, label: str) -> str:
    """The project that the namespace names; empty without a namespace, without the label, and for an empty label."""
    labels = ((namespace or {}).get("metadata") or {}).get("labels") or {}
    return str(labels.get(label) or "")


@cache
def by_project(label: str) -> Callable[[Raw], Iterable[Hashable]]:
    """Index function of Namespaces: the project that each names with `label`. The same function for the same label."""

    def project(raw: Raw) -> Iterable[Hashable]:
        name = project_of(raw, label)
        return (name,) if name else ()

    return project
