"""What a cached object costs, in the short form of benchmark B12: counts and memory only, never time."""

from bench.kube_store import MEMORY_GOAL, measure


def test_a_cached_object_of_2_kb_costs_at_most_10_kib() -> None:
    """B12, T21: 3,000 interfaces with two indexes, filled in a process of its own."""
    outcome = measure(3_000)
    assert outcome["objects"] == 3_000
    assert outcome["bytes"] > 2_000
    assert outcome["kib"] <= MEMORY_GOAL
