"""The pages of metrics, and of labels, annotations, finalizers and field managers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prometheus_client import Counter, Gauge, Histogram

from dev.reference.markdown import code, page, table
from dev.reference.modules import constants, modules

HOMES: Final = {
    "netclaim.kube.metrics": "Every program",
    "nso.claims.metrics": "nso, claims",
    "webhook.metrics": "netclaim-webhook",
    "node_agent.metrics": "node-agent",
}
"""Modules of metrics in the order of the page, and which program has them; others follow under their module's name."""

MARKS: Final = (("_LABEL", "Labels"), ("_ANNOTATION", "Annotations"), ("_FINALIZER", "Finalizers"))


def pages() -> dict[str, str]:
    """File name -> text."""
    return {"metrics.md": _metrics(), "names.md": _names()}


def _metrics() -> str:
    by_module: dict[str, list[Any]] = {home: [] for home in HOMES}
    for module in modules():
        for constant in constants(module):
            if isinstance(constant.value, (Counter, Gauge, Histogram)):
                by_module.setdefault(module.__name__, []).append(constant.value)
    intro = (
        "Served at `/metrics` of `--metrics-address`, beside `/healthz` (is it alive: the loop runs and the API server"
        " is heard) and `/readyz` (its stores are synced). No label holds the name of an object."
    )
    sections = [
        f"## {HOMES.get(home, home)}\n\n" + table(("metric", "type", "labels", "description"), map(_metric, found))
        for home, found in by_module.items()
    ]
    return page("Metrics", intro, sections)


def _metric(metric: Any) -> tuple[str, str, str, str]:
    (family,) = metric.describe()
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = ", ".join(code(label) for label in metric._labelnames)  # noqa: SLF001 - the library tells them nowhere else
    return code(name), family.type, labels, family.documentation


def _names() -> str:
    intro = "The keys that the programs put on objects, and the field managers that they write with."
    sections = []
    for ending, title in MARKS:
        rows = sorted(set(_marked(ending)))
        sections.append(f"## {title}\n\n" + table(("key", "on what, and what for"), rows))
    managers = next(module for module in modules() if module.__name__ == "netclaim.api.managers")
    rows = [(code(each.value), each.told) for each in constants(managers)]
    sections.append("## Field managers\n\n" + table(("manager", "writes"), rows))
    return page("Labels, annotations, finalizers, field managers", intro, sections)


def _marked(ending: str) -> Iterator[tuple[str, str]]:
    for module in modules():
        if module.__name__.startswith("netclaim.api."):
            for each in constants(module):
                if each.name.endswith(ending):
                    yield code(each.value), each.told
