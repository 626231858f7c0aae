"""Namespaces that are being deleted: nothing can be made in them any more, and nothing needs to be."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from netclaim.kube.errors import Forbidden

log = logging.getLogger(__name__)

_CAUSE = "NamespaceTerminating"


@contextlib.contextmanager
def unless_going() -> Iterator[None]:
    """Give up quietly when a write is refused because the namespace is going.

    Its objects are deleted one kind after the other, so one can still look alive while what it needs is gone; its own
    deletion follows and wakes the reconciler again.
    """
    try:
        yield
    except Forbidden as error:
        causes = error.details.get("causes") or ()
        if not any(cause.get("reason") == _CAUSE for cause in causes):
            raise
        log.debug("left alone: %s", error)
