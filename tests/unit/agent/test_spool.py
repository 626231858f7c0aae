"""DEL calls that were kept while the agent was away."""

import json
from pathlib import Path

from node_agent.cni.spool import take_spool


def keep(folder: Path, name: str, container: str, at: int) -> None:
    said = {"protocol": 1, "containerID": container, "ifName": "eth0", "at": at}
    (folder / name).write_text(json.dumps(said))


def test_what_was_kept_is_taken_once_and_stays_until_it_is_done(tmp_path: Path) -> None:
    """T12: DEL succeeds while the agent is down and is replayed; a crash while replaying loses nothing."""
    keep(tmp_path, "a.json", "sandbox-1", 5)
    (tmp_path / ".new-1234").write_text("{")
    assert [(kept.container, kept.at) for kept in take_spool(tmp_path)] == [("sandbox-1", 5)]
    keep(tmp_path, "b.json", "sandbox-2", 6)
    assert [kept.container for kept in take_spool(tmp_path)] == ["sandbox-1", "sandbox-2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new-1234", "a.playing", "b.playing"]


def test_a_file_that_is_no_call_is_set_aside_and_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[")
    keep(tmp_path, "b.json", "sandbox-2", 6)
    assert [kept.container for kept in take_spool(tmp_path)] == ["sandbox-2"]
    assert (tmp_path / "a.unreadable").exists()
