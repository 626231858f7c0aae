"""Namespaces that are being deleted: nothing can be made in them any more, and nothing needs to be."""

from __future__ import annotations

from typing import Final

from netclaim.kube.errors import ApiError, Forbidden

_CAUSE: Final = "NamespaceTerminating"


def is_going(error: ApiError) -> bool:
    """Whether a write was refused because its namespace is being deleted.

    Objects of such a namespace are deleted one kind after the other, so one can still look alive while what it needs is
    gone; its own deletion follows and wakes its reconciler.
    """
    causes = error.details.get("causes") or () if isinstance(error, Forbidden) else ()
    return any(cause.get("reason") == _CAUSE for cause in causes)
