"""The CNI plugin on its way to the node, and the taint on its way off."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from node_agent import removal, taint
from node_agent.installation import install, main


def test_a_plugin_is_installed_over_one_that_runs(tmp_path: Path) -> None:
    """T29, multus-cni#1221: writing into a running binary fails with "text file busy"; the node stayed down."""
    sleep, new, folder = shutil.which("sleep"), tmp_path / "new" / "plugin", tmp_path / "bin"
    assert sleep is not None
    new.parent.mkdir()
    folder.mkdir()
    shutil.copy2(sleep, folder / "plugin")
    new.write_bytes(b"#!/bin/sh\n")
    with subprocess.Popen([folder / "plugin", "60"]) as running:
        ends = time.monotonic() + 10
        while Path(f"/proc/{running.pid}/comm").read_text().strip() != "plugin" and time.monotonic() < ends:
            time.sleep(0.01)
        with pytest.raises(OSError, match="Text file busy"):
            (folder / "plugin").write_bytes(b"")
        assert install(new, folder) == folder / "plugin"
        assert running.poll() is None
        running.kill()
    assert (folder / "plugin").read_bytes() == b"#!/bin/sh\n"
    assert os.access(folder / "plugin", os.X_OK)
    assert [file.name for file in folder.iterdir()] == ["plugin"]


def test_an_installation_that_fails_says_why_and_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plugin").write_bytes(b"old")
    assert main([str(tmp_path / "absent" / "plugin"), str(tmp_path)]) == 1
    assert "cannot be installed" in capsys.readouterr().err
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("plugin", b"old")]
    assert main([]) == 2


def test_only_the_startup_taint_is_taken_off() -> None:
    """T27."""
    ours, other = {"key": taint.TAINT_KEY, "effect": "NoSchedule"}, {"key": "other", "effect": "NoExecute"}
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}

    def node(*taints: dict[str, str]) -> dict[str, object]:
        return {"metadata": {"resourceVersion": "7"}, "spec": {"taints": list(taints)}}

    assert taint.removal(node(ours, other)) == [test, {"op": "replace", "path": "/spec/taints", "value": [other]}]
    assert taint.removal(node(ours)) == [test, {"op": "remove", "path": "/spec/taints"}]
    assert taint.removal(node(other)) == []
    assert taint.removal({"metadata": {"resourceVersion": "7"}, "spec": {}}) == []


def test_removal_takes_every_file_of_ours_and_no_other(tmp_path: Path) -> None:
    for name in ("bin/netclaim-cni", "bin/.netclaim-cni.17", "bin/ptp", "state/journal.db", "state/pending/x", "run/s"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    removal.remove_files(
        removal.RemovalSettings(
            node_name="node-a",
            srv6_locator="fd5f:0:0:a::/64",
            underlay_interface="up0",
            state_dir=tmp_path / "state",
            socket=tmp_path / "run" / "agent.sock",
            cni_bin_dir=tmp_path / "bin",
            _cli_parse_args=False,
        )
    )
    assert [str(file.relative_to(tmp_path)) for file in sorted(tmp_path.rglob("*"))] == ["bin", "bin/ptp"]
