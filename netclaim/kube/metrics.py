"""Metrics under the names that Kubernetes dashboards know, and the runtime's own. No label holds an object name."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_LATENCY = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_FAST = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)

QUEUE_DEPTH: Final = Gauge("workqueue_depth", "Keys that wait, by lane.", ["name", "lane"])
QUEUE_ADDS: Final = Counter("workqueue_adds", "Keys added.", ["name"])
QUEUE_RETRIES: Final = Counter("workqueue_retries", "Keys added again after a failure.", ["name"])
QUEUE_WAIT: Final = Histogram(
    "workqueue_queue_duration_seconds", "How long a key waited for a worker.", ["name"], buckets=_FAST
)
QUEUE_WORK: Final = Histogram(
    "workqueue_work_duration_seconds", "How long a key was worked on.", ["name"], buckets=_FAST
)
QUEUE_UNFINISHED: Final = Gauge(
    "workqueue_unfinished_work_seconds", "Sum of the time that running work has taken so far.", ["name"]
)
QUEUE_LONGEST: Final = Gauge(
    "workqueue_longest_running_processor_seconds", "Time that the longest running work has taken so far.", ["name"]
)
RECONCILES: Final = Counter("controller_runtime_reconcile", "Reconciles by result.", ["controller", "result"])
RECONCILE_ERRORS: Final = Counter("controller_runtime_reconcile_errors", "Reconciles that failed.", ["controller"])
RECONCILE_TIME: Final = Histogram(
    "controller_runtime_reconcile_time_seconds", "Time per reconcile.", ["controller"], buckets=_LATENCY
)
ACTIVE_WORKERS: Final = Gauge("controller_runtime_active_workers", "Workers busy now.", ["controller"])
MAX_WORKERS: Final = Gauge("controller_runtime_max_concurrent_reconciles", "Workers in all.", ["controller"])
REQUESTS: Final = Counter(
    "rest_client_requests", "API requests by code; <error> when there was no reply.", ["code", "method", "host"]
)
REQUEST_TIME: Final = Histogram(
    "rest_client_request_duration_seconds",
    "Time per API request, watches excepted.",
    ["verb", "host"],
    buckets=_LATENCY,
)
LEADER: Final = Gauge("leader_election_master_status", "1 while this process leads.", ["name"])
REFLECTOR_AGE: Final = Gauge(
    "reflector_last_event_age_seconds",
    "Time since the API server said anything about this kind.",
    ["cluster", "resource"],
)
REFLECTOR_LISTS: Final = Counter("reflector_lists", "Full lists of this kind.", ["cluster", "resource"])
REFLECTOR_OBJECTS: Final = Gauge("reflector_objects", "Objects held of this kind.", ["cluster", "resource"])
REFLECTOR_FAILURES: Final = Counter(
    "reflector_failures", "Watches and lists that ended badly, by kind of failure.", ["cluster", "resource", "reason"]
)
MALFORMED: Final = Counter(
    "reflector_malformed_objects", "Objects that an index or a mapping of ours could not read.", ["resource"]
)
LOOP_LAG: Final = Gauge("event_loop_lag_seconds", "How late the event loop ran a timer: the worst of the last 10 s.")
EVENTS: Final = Counter("events_emitted", "Kubernetes Events by outcome.", ["result"])
