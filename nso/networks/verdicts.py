"""The conditions that the reconcilers of networks write."""

from __future__ import annotations

from netclaim.api import conditions
from netclaim.api.meta import Raw
from nso.conditions import told

Why = tuple[str, str]
"""Reason and message of a condition."""


def verdict(raw: Raw, kind: str, refusal: Why | None, success: Why) -> Raw:
    """The condition of `raw` to write: False for a refusal, else True."""
    if refusal is not None:
        return told(raw, kind, "False", *refusal)
    return told(raw, kind, "True", *success)


def kept(raw: Raw, kind: str) -> tuple[Raw, ...]:
    """The condition as it stands, for an apply that must not take it away; nothing when it was never written."""
    standing = conditions.condition(raw, kind)
    return (dict(standing),) if standing is not None else ()
