"""What the webhook counts. No label ever holds an object's name."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

REVIEWS: Final = Counter(
    "netclaim_webhook_reviews_total", "Admission reviews answered, by verdict and reason.", ["verdict", "reason"]
)
REVIEW_TIME: Final = Histogram(
    "netclaim_webhook_review_duration_seconds",
    "Time from the request's last byte to the answer.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
LOOKUPS: Final = Counter("netclaim_webhook_live_lookups_total", "Live reads before a refusal, by kind.", ["kind"])
EXPIRES: Final = Gauge(
    "netclaim_webhook_certificate_expiry_timestamp_seconds", "When the certificate that is served ends, in Unix time."
)
REPAIRS: Final = Counter("netclaim_webhook_ca_bundle_writes_total", "Writes of the configuration's caBundle.")
