"""What the agent counts. No label holds the name of an object."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

REQUESTS: Final = Counter("netclaim_cni_requests", "CNI calls by verb and CNI code (0: done).", ["verb", "code"])
DURATION: Final = Histogram(
    "netclaim_cni_duration_seconds",
    "Time of a CNI call from its arrival to its answer.",
    ["verb"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0),
)
QUEUED: Final = Gauge("netclaim_cni_queue_depth", "CNI calls that wait for their turn.")
AT_WORK: Final = Gauge("netclaim_cni_at_work", "CNI calls that are worked on.")
ROWS: Final = Gauge("netclaim_journal_rows", "Attachments in the journal, by state.", ["state"])
WITHDRAWALS: Final = Gauge(
    "netclaim_withdrawals_pending", "Detached attachments that the API server does not know of yet."
)
SPOOLED: Final = Gauge("netclaim_spool_files", "DEL calls that were kept while the agent was away.")
SWEPT: Final = Gauge("netclaim_last_sweep_timestamp_seconds", "When the last sweep ended well (seconds since 1970).")
ROUTES: Final = Counter("netclaim_routes_changed", "Routes to other nodes, by what was done.", ["change"])
REMOTES: Final = Gauge("netclaim_remote_prefixes", "Prefixes on other nodes that are routed to.")
IGNORED: Final = Counter("netclaim_remote_prefixes_ignored", "Advertised prefixes that were not taken.", ["reason"])
DROPS: Final = Gauge("netclaim_dropped_packets", "Packets that the firewall dropped, by reason.", ["reason"])
