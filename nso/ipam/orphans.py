"""Allocations that nobody holds: which they are, and when one may be released. Pure.

One whose holder is gone, by uid, or has another block, was left by a crash or by a second leader. It is released when a
live read has said so twice, a grace period apart: what is merely late is never taken for gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from netclaim.api.meta import Raw
from netclaim.api.resources import IP_CLAIMS, IP_POOLS, Resource
from netclaim.kube.objects import uid_of
from nso.ipam.index import Purpose
from nso.ipam.views import AllocationView

HOLDER_KINDS: dict[Purpose, Resource] = {Purpose.CLAIM: IP_CLAIMS, Purpose.CARVE: IP_POOLS}
"""What an allocation of each purpose is for; reservations and cooling blocks have no holder."""


def holds(allocation: AllocationView, holder: Raw | None) -> bool:
    """Whether `holder` is the very object that the allocation names, and has this block or none yet."""
    if holder is None or allocation.holder is None or uid_of(holder) != allocation.holder.uid:
        return False
    status = holder.get("status") or {}
    if allocation.purpose is Purpose.CARVE:
        return status.get("cidr") in {None, str(allocation.block)}
    reference = status.get("allocationRef")
    return reference is None or reference["name"] == allocation.id.name


@dataclass(slots=True)
class Suspects:
    """Allocations that a live read found without a holder, and when first (monotonic seconds)."""

    grace: float
    _first: dict[str, float] = field(default_factory=dict)

    def clear(self, allocation: AllocationView) -> None:
        """It has a holder after all, or is gone."""
        self._first.pop(allocation.id.uid, None)

    def wait(self, allocation: AllocationView, now: float) -> float:
        """Seconds until it may be released; 0 when the first sighting is long enough ago."""
        first = self._first.setdefault(allocation.id.uid, now)
        return max(0.0, first + self.grace - now)
