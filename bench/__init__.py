"""Benchmarks: each module with a ``run(short)`` is one; see ``python -m bench``."""
