"""What was made moments ago: a wait that is just beginning is told only when it lasts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from netclaim.api.meta import KubeObject

FRESH: Final = timedelta(seconds=3)
"""How long after an object was made what it waits for is about to follow, and not worth a write."""


def is_fresh(found: KubeObject) -> bool:
    """Whether the object was made moments ago; a clock that lags behind the API server's counts as just now."""
    made = found.metadata.creation_timestamp
    return made is not None and datetime.now(UTC) - datetime.fromisoformat(made) < FRESH
