"""What the operator sees of claims as a whole. No label holds an object's name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from prometheus_client import Gauge, Histogram

from netclaim.api import conditions
from netclaim.api.meta import Raw
from netclaim.api.networking import ALLOCATED, BOUND, READY
from netclaim.kube.store import Change, Store
from nso.claims import reasons

CLAIMS: Final = Gauge("netclaim_claims", "Claims by phase and by the reason of Ready.", ("phase", "reason"))
MISSING: Final = Gauge("netclaim_missing_allocations", "Claims with an address that IPAM no longer holds for them.")
ALLOCATION_SECONDS: Final = Histogram(
    "netclaim_claim_allocation_seconds",
    "Time from a claim's creation (to the second) until all its addresses were there.",
    buckets=(0.5, 1, 2, 5, 10, 30, 60, 300, 1800),
)
ORPHANS: Final = Gauge("netclaim_orphaned_ipclaims", "IPClaims of this cell whose owner is gone, at the last sweep.")
SWEEP_STOPPED: Final = Gauge(
    "netclaim_sweep_stopped", "1 when the last sweep found more orphans than it may give back, and did nothing."
)


def observe(store: Store) -> None:
    """Keep the gauges equal to what a store of claims holds."""
    store.subscribe(_count)


def _count(change: Change) -> None:
    if change.old is not None:
        CLAIMS.labels(*_labels(change.old)).dec()
        MISSING.dec(_is_missing(change.old))
    if change.new is not None:
        CLAIMS.labels(*_labels(change.new)).inc()
        MISSING.inc(_is_missing(change.new))
    if change.initial or change.new is None or change.old is None:
        return
    # A claim that was bound before is only told anew that its addresses are there.
    first = not (change.old.get("status") or {}).get("networkInterfaceRef")
    if first and conditions.is_true(change.new, ALLOCATED):
        created = datetime.fromisoformat(change.new["metadata"]["creationTimestamp"])
        ALLOCATION_SECONDS.observe(max(0.0, (datetime.now(UTC) - created).total_seconds()))


def _labels(raw: Raw) -> tuple[str, str]:
    if raw["metadata"].get("deletionTimestamp"):
        phase = "Releasing"
    else:
        phase = "Bound" if conditions.is_true(raw, BOUND) else "Pending"
    return phase, conditions.reason_of(raw, READY) or "Pending"


def _is_missing(raw: Raw) -> int:
    return int(conditions.reason_of(raw, ALLOCATED) == reasons.ADDRESS_ALLOCATION_MISSING.name)
