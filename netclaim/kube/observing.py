"""Gauges about what is followed, computed when they are asked for."""

from __future__ import annotations

from collections import defaultdict

from netclaim.kube import metrics
from netclaim.kube.cluster import Cluster


def measure_cluster(cluster: Cluster) -> None:
    """Objects held and silence per kind: several selections of one kind are one figure, without their names."""
    objects: dict[str, int] = defaultdict(int)
    ages: dict[str, float] = defaultdict(float)
    for reflector in cluster.reflectors:
        plural = reflector.resource.plural
        objects[plural] += len(reflector.store)
        ages[plural] = max(ages[plural], reflector.age)
    for plural, count in objects.items():
        metrics.REFLECTOR_OBJECTS.labels(cluster.client.host, plural).set(count)
        metrics.REFLECTOR_AGE.labels(cluster.client.host, plural).set(ages[plural])
