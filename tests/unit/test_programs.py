"""Each program as an operator meets it first: without flags, with wrong ones, and with no API server there."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
REQUIRED = {
    "nso": "--location",
    "vpc_controller": "--attachment-mode",
    "node_agent": "--node-name",
}
COMPLETE = {
    "nso": ["--location", "here"],
    "vpc_controller": ["--attachment-mode", "Netns"],
    "webhook": ["--listen", "127.0.0.1:0"],
}


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("NETCLAIM_")},
    )


@pytest.mark.parametrize(("module", "flag"), REQUIRED.items(), ids=REQUIRED)
def test_a_program_without_a_required_flag_exits_2_and_names_the_flag(module: str, flag: str) -> None:
    """R30 and its kind: no guessed default; one line that says which flag, on stderr."""
    done = run(module)
    assert done.returncode == 2, done.stderr
    assert flag in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["nso", "vpc_controller", "webhook", "node_agent"])
def test_an_unknown_flag_is_refused_with_exit_2(module: str) -> None:
    """A misspelt flag must never be ignored."""
    done = run(module, *COMPLETE.get(module, []), "--no-such-flag", "1")
    assert done.returncode == 2, done.stderr
    assert "no-such-flag" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["nso", "vpc_controller", "webhook", "node_agent", "netclaimctl"])
def test_help_lists_the_flags(module: str) -> None:
    """--help is the reference of the flags."""
    done = run(module, "--help")
    assert done.returncode == 0, done.stderr
    if flag := REQUIRED.get(module):
        assert flag in done.stdout


def test_every_entry_point_of_the_distribution_exists() -> None:
    """What pyproject.toml promises to install can be loaded and called."""
    import tomllib

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    programs = {"nso", "vpc-controller", "netclaim-webhook", "node-agent", "netclaimctl"}
    assert set(scripts) == programs | {"kubectl-netclaim"}
    assert scripts["kubectl-netclaim"] == scripts["netclaimctl"]
    for name, target in scripts.items():
        assert callable(EntryPoint(name, target, "console_scripts").load()), name


@pytest.mark.parametrize("module", ["nso", "vpc_controller", "webhook"])
def test_a_program_whose_api_server_is_away_says_so_is_not_ready_and_ends_cleanly(module: str, tmp_path: Path) -> None:
    """The operator reads which server, why, and what to look at; no traceback; SIGTERM ends it with 0."""
    with socket.socket() as closed, socket.socket() as free:
        closed.bind(("127.0.0.1", 0))
        free.bind(("127.0.0.1", 0))
        server, metrics = f"https://127.0.0.1:{closed.getsockname()[1]}", f"127.0.0.1:{free.getsockname()[1]}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
                "users": [{"name": "u", "user": {"token": "none"}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    log = tmp_path / "log"
    with log.open("w") as sink:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                module,
                *COMPLETE[module],
                "--kubeconfig",
                str(kubeconfig),
                "--metrics-address",
                metrics,
            ],
            cwd=ROOT,
            stdout=sink,
            stderr=sink,
        )
    try:
        deadline = time.monotonic() + 30
        while server.removeprefix("https://") not in log.read_text() and time.monotonic() < deadline:
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        assert server.removeprefix("https://") in log.read_text(), log.read_text()
        with pytest.raises(urllib.error.HTTPError) as answered:
            urllib.request.urlopen(f"http://{metrics}/readyz", timeout=5)
        assert answered.value.code == 503
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=30)
    text = log.read_text()
    assert code == 0, text
    assert "Traceback" not in text
    for line in filter(None, text.splitlines()):
        json.loads(line)
