"""The one exception that the command line turns into a message."""

from __future__ import annotations


class ClusterError(Exception):
    """The local cluster cannot be built, started or reached: what, why, and what to do about it."""
