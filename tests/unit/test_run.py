"""``python -m tests.run``: what a contributor and continuous integration learn from its last lines and exit code."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dev.errors import ClusterError
from tests import run

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write the one test module of a tier in a tree of its own."""
    monkeypatch.setattr(run, "ROOT", tmp_path)

    def module(tier: str, text: str) -> None:
        folder = tmp_path / "tests" / tier
        folder.mkdir(parents=True)
        (folder / "test_one.py").write_text(text)

    return module


PASSES = "def test_one():\n    pass\n"


def test_a_failing_tier_fails_the_run_and_the_next_one_still_runs(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """spec/testing.md: one run tells all that is broken."""
    write("unit", "def test_one():\n    assert False\n")
    write("api", PASSES)
    assert run.main(["unit", "api"]) == 1
    told = capsys.readouterr().out
    assert "unit   FAILED (pytest exit 1)" in told
    assert "api    passed" in told


def test_a_tier_of_which_no_test_ran_does_not_pass(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt -k is no success."""
    write("unit", PASSES)
    assert run.main(["unit", "--", "-k", "nowhere"]) == 1
    assert "unit   FAILED (no test ran)" in capsys.readouterr().out


def test_a_tier_that_cannot_run_says_why_and_fails_only_whoever_asked_for_it(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec/testing.md: what was skipped is never silent."""
    write("unit", PASSES)
    write("net", PASSES)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert run.main([]) == 0
    told = capsys.readouterr().out
    assert "unit   passed" in told
    assert "net    not run: needs root" in told
    assert "e2e    not run: has no tests" in told
    assert run.main(["net"]) == 1


def test_packages_that_cannot_be_installed_fail_the_tier_with_the_reason(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine of continuous integration whose package source is away must not turn green."""

    def away() -> None:
        raise ClusterError("apt-get update failed: no route to host")

    write("net", PASSES)
    monkeypatch.setitem(run.TIERS, "net", run.Tier(prepare=away))
    assert run.main(["net"]) == 1
    assert "net    FAILED (apt-get update failed: no route to host)" in capsys.readouterr().out


def test_a_tier_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as for any wrong command line."""
    assert run.main(["nett"]) == 2
    assert "no such tier: nett; there are: unit, api, net" in capsys.readouterr().err
