"""Whether a reflector's selection would show an object."""

import pytest

from netclaim.api.meta import Raw
from netclaim.api.resources import PODS
from netclaim.kube.predicates import changed_any, changed_meta_or_spec, status_changed
from netclaim.kube.reflector import Selection
from netclaim.kube.selectors import selects

POD: Raw = {
    "metadata": {"namespace": "shop", "name": "web-0", "labels": {"app": "web", "tier": "front"}},
    "spec": {"nodeName": "node-a"},
}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=db", False),
        ("app!=db", True),
        ("app", True),
        ("!app", False),
        ("!gone", True),
        ("app in (web, db),tier notin (back)", True),
        ("app notin (web)", False),
    ],
)
def test_label_selectors_select_as_the_api_server_does(selector: str, selected: bool) -> None:
    """T26: a key waits for its write only where the write will show."""
    assert selects(Selection(PODS, label_selector=selector), POD) is selected


@pytest.mark.parametrize(
    ("selector", "selected"),
    [("spec.nodeName=node-a", True), ("spec.nodeName!=node-a", False), ("metadata.name=web-1", False)],
)
def test_field_selectors_select_as_the_api_server_does(selector: str, selected: bool) -> None:
    """T26."""
    assert selects(Selection(PODS, field_selector=selector), POD) is selected


def test_another_namespace_is_not_selected() -> None:
    """R14."""
    assert not selects(Selection(PODS, "other"), POD)


def test_predicates_tell_spec_status_and_metadata_apart() -> None:
    """T32: a controller wakes for what it reads."""
    old: Raw = {"metadata": {"resourceVersion": "1", "generation": 1}, "status": {"phase": "A", "n": 1}}
    status = {**old, "metadata": {"resourceVersion": "2", "generation": 1}, "status": {"phase": "A", "n": 2}}
    phase = {**status, "status": {"phase": "B", "n": 2}}
    going = {**old, "metadata": {**old["metadata"], "resourceVersion": "2", "deletionTimestamp": "now"}}
    reads_phase = changed_meta_or_spec | status_changed(lambda raw: raw["status"]["phase"])
    assert changed_any(old, status)
    assert not changed_meta_or_spec(old, status)
    assert not reads_phase(old, status)
    assert reads_phase(old, phase)
    assert changed_meta_or_spec(old, going)
