"""The store: objects and indexes in one step, and never back to an older version."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from netclaim.api.meta import Raw
from netclaim.api.resources import CONFIG_MAPS
from netclaim.kube.store import Change, Store


def _object(name: str, version: int, *, uid: str = "", team: str = "") -> Raw:
    metadata: dict[str, Any] = {"namespace": "shop", "name": name, "uid": uid or f"uid-{name}"}
    return {"metadata": {**metadata, "resourceVersion": str(version)}, "data": {"team": team}}


def _team(raw: Raw) -> list[str]:
    return [raw["data"]["team"]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", None]), st.sampled_from("12"))))
def test_an_index_equals_a_search_after_any_history(steps: list[tuple[str, str | None, str]]) -> None:
    """T26: a lookup never shows what a full search would not."""
    store = Store(CONFIG_MAPS)
    store.add_index("team", _team)
    for version, (name, team, uid) in enumerate(steps, 1):
        if team is None:
            store.remove(("shop", name), version=version)
        else:
            store.put(_object(name, version, uid=uid, team=team))
        for wanted in ("x", "y"):
            found = sorted(raw["metadata"]["name"] for raw in store.by("team", wanted))
            assert found == sorted(raw["metadata"]["name"] for raw in store.all() if raw["data"]["team"] == wanted)
            one = store.any_by("team", wanted)
            assert one is None if not found else one in store.by("team", wanted)


def test_an_older_version_never_replaces_a_newer_one() -> None:
    """T06: a late message does not bring the past back."""
    store = Store(CONFIG_MAPS)
    store.put(_object("a", 10, team="new"))
    store.put(_object("a", 9, team="old"))
    store.remove(("shop", "a"), version=8)
    held = store.get(("shop", "a"))
    assert held is not None
    assert held["data"]["team"] == "new"


def test_another_uid_under_the_same_name_is_a_deletion_and_an_addition() -> None:
    """T06: whoever keeps state per object must hear that the old one went."""
    store = Store(CONFIG_MAPS)
    changes: list[Change] = []
    store.subscribe(changes.append)
    store.put(_object("a", 1, uid="first"))
    store.put(_object("a", 2, uid="second"))
    assert [change.kind for change in changes] == ["added", "deleted", "added"]


def test_a_late_message_about_a_former_namesake_is_ignored() -> None:
    """T06: the dead object does not take the living one's place."""
    store = Store(CONFIG_MAPS)
    store.put(_object("a", 5, uid="second", team="new"))
    store.put(_object("a", 3, uid="first", team="old"))
    assert [raw["data"]["team"] for raw in store.all()] == ["new"]


def test_the_same_version_again_is_no_change() -> None:
    """T32: a resumed watch that repeats an event wakes nobody."""
    store = Store(CONFIG_MAPS)
    store.put(_object("a", 1))
    changes: list[Change] = []
    store.subscribe(changes.append)
    store.put(_object("a", 1))
    assert changes == []


def test_a_malformed_object_is_kept_and_only_its_index_entry_is_missing() -> None:
    """T24: one bad object never blocks the others."""
    store = Store(CONFIG_MAPS)
    store.add_index("team", _team)
    bad = _object("bad", 1)
    del bad["data"]
    store.put(bad)
    store.put(_object("good", 2, team="x"))
    assert len(store) == 2
    assert len(store.by("team", "x")) == 1
    store.put(_object("bad", 3, team="x"))
    assert len(store.by("team", "x")) == 2


def test_a_subscriber_that_fails_hides_nothing_from_the_others() -> None:
    """T24."""
    store = Store(CONFIG_MAPS)
    heard: list[Change] = []

    def fail(_: Change) -> None:
        raise KeyError("spec")

    store.subscribe(fail)
    store.subscribe(heard.append)
    store.put(_object("a", 1))
    assert len(heard) == 1


def test_an_index_that_is_added_late_knows_what_was_there() -> None:
    """A controller that is wired after the first sync sees all objects."""
    store = Store(CONFIG_MAPS)
    store.put(_object("a", 1, team="x"))
    store.add_index("team", _team)
    assert len(store.by("team", "x")) == 1
