"""Alert rules and dashboards against the metrics that the programs expose: every name and every label of a query."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from dev.reference import observed

ROOT = Path(__file__).resolve().parents[3]
WATCHED = ("nso", "vpc-controller", "node-agent")
FUNCTIONS = frozenset({"sum", "max", "min", "rate", "histogram_quantile", "time"})
WORDS = frozenset({"by", "or"})
OF_TARGET = frozenset({"job", "instance", "namespace", "pod"})
"""Labels that Prometheus adds to whatever a PodMonitor's Pods expose."""

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"(?P<skip>\s+|\[\w+\]|\d[\d.]*|{_STRING})|(?P<name>[A-Za-z_:][\w:]*)|(?P<sign>=~|!~|!=|>=|<=|==|[-+*/<>=(){{}},])"
)


@dataclass(frozen=True)
class Asked:
    """What a query asks for: metrics, and the labels that it picks them by or groups them by."""

    metrics: frozenset[str]
    labels: frozenset[str]


def asked(query: str) -> Asked:
    """Read a PromQL expression as far as to tell metrics from labels; raises on a word that is neither."""
    metrics, labels = set[str](), set[str]()
    in_labels, before, position = False, "", 0
    while position < len(query):
        token = _TOKEN.match(query, position)
        assert token is not None, f"{query}: what is {query[position:]!r}?"
        position = token.end()
        name, sign = token["name"], token["sign"]
        if sign == "{" or (sign == "(" and before == "by"):
            in_labels = True
        elif sign in {"}", ")"}:
            in_labels = False
        elif name and in_labels:
            labels.add(name)
        elif name and name not in WORDS and not (name in FUNCTIONS and re.match(r"\s*(\(|by\b)", query[position:])):
            metrics.add(name)
        before = name or sign or before
    return Asked(frozenset(metrics), frozenset(labels))


def exposed() -> dict[str, frozenset[str]]:
    """Name of every series -> its labels, from the generated reference."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", observed.pages()["metrics.md"], re.MULTILINE)
    found = {name: frozenset(re.findall(r"`(\w+)`", labels)) for name, kind, labels in rows if kind != "histogram"}
    for name, kind, labels in rows:
        if kind == "histogram":
            given = frozenset(re.findall(r"`(\w+)`", labels))
            found |= {f"{name}_bucket": given | {"le"}, f"{name}_sum": given, f"{name}_count": given}
    return found


def alerts(chart: str) -> list[dict[str, object]]:
    groups = yaml.safe_load((ROOT / "charts" / chart / "files" / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def queries(chart: str) -> Iterator[str]:
    """Every expression of a chart's alerts and of its dashboard."""
    yield from (str(rule["expr"]) for rule in alerts(chart))
    panels = json.loads((ROOT / "charts" / chart / "files" / "dashboard.json").read_text())["panels"]
    yield from (target["expr"] for panel in panels for target in panel["targets"])


@pytest.mark.parametrize("chart", WATCHED)
def test_every_query_asks_for_metrics_and_labels_that_there_are(chart: str) -> None:
    """An alert on a metric that nobody exposes never fires."""
    there = exposed()
    listed = list(queries(chart))
    assert len(listed) > 6
    for query in listed:
        wanted = asked(query)
        assert wanted.metrics, query
        assert wanted.metrics <= there.keys(), f"{query}: no such metric: {wanted.metrics - there.keys()}"
        labels = OF_TARGET.union(*(there[metric] for metric in wanted.metrics))
        assert wanted.labels <= labels, f"{query}: no such label: {wanted.labels - labels}"


@pytest.mark.parametrize("chart", WATCHED)
def test_every_alert_tells_what_to_do_and_is_in_the_operators_list(chart: str) -> None:
    table = (ROOT / "docs" / "operations.md").read_text()
    for rule in alerts(chart):
        assert f"`{rule['alert']}`" in table, rule["alert"]
        told = rule["annotations"]
        assert isinstance(told, dict)
        assert told["summary"]
        assert told["description"]


def test_a_query_is_read_by_its_metrics_and_labels() -> None:
    """The check itself: a misspelt metric, a misspelt label and a function of another name would be seen."""
    read = asked('histogram_quantile(0.99, sum(rate(a_bucket{verb="ADD",code!="0"}[5m])) by (pod, le)) > 1 or max(b)')
    assert read == Asked(frozenset({"a_bucket", "b"}), frozenset({"verb", "code", "pod", "le"}))
    assert asked("time() - max(a) by (pod) > 86400 * 7").metrics == {"a"}
    assert asked("absent(a)").metrics == {"absent", "a"}
