"""Whether an object is one that a selector selects, as far as reflectors of ours use selectors."""

from __future__ import annotations

import re

from netclaim.api.meta import Raw
from netclaim.kube.objects import path_value
from netclaim.kube.reflector import Selection

_SET = re.compile(r"^\s*(?P<key>\S+)\s+(?P<op>in|notin)\s+\((?P<values>[^)]*)\)\s*$")
_TERM = re.compile(r",(?![^(]*\))")


def selects(selection: Selection, raw: Raw) -> bool:
    """Whether a list with this selection would hold `raw`."""
    metadata = raw["metadata"]
    if selection.namespace and metadata.get("namespace") != selection.namespace:
        return False
    labels: dict[str, str] = metadata.get("labels") or {}
    terms = [term.strip() for term in _TERM.split(selection.label_selector or "") if term.strip()]
    fields = [term.strip() for term in (selection.field_selector or "").split(",") if term.strip()]
    return all(_label(term, labels) for term in terms) and all(_field(term, raw) for term in fields)


def _label(term: str, labels: dict[str, str]) -> bool:
    found = _SET.match(term)
    if found:
        values = {value.strip() for value in found["values"].split(",")}
        return (labels.get(found["key"]) in values) == (found["op"] == "in")
    if "!=" in term:
        key, value = term.split("!=", 1)
        return labels.get(key.strip()) != value.strip()
    if "=" in term:
        key, value = term.replace("==", "=").split("=", 1)
        return labels.get(key.strip()) == value.strip()
    return term[1:].strip() not in labels if term.startswith("!") else term in labels


def _field(term: str, raw: Raw) -> bool:
    negated = "!=" in term
    path, value = term.replace("!=", "=").replace("==", "=").split("=", 1)
    return (str(path_value(raw, path.strip()) or "") == value.strip()) != negated
