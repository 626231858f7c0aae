"""``python -m tests.run [TIER ...] [-- PYTEST ARGUMENTS]``: run every tier that this machine can, one after the other.

A tier that cannot run here is named with the reason at the end, and fails the command if it was asked for by name; one
that runs and fails, or has no test to run, fails the command. What a tier needs of Debian is installed where missing.
Tiers run in processes of their own, so that the programs of the e2e tier never meet the in-process controllers of the
api tier.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev import packages, vm
from dev.errors import ClusterError
from dev.progress import display

ROOT = Path(__file__).resolve().parent.parent


def _nothing() -> None:
    """Prepare nothing."""


def _always() -> str:
    return ""


def _needs_nodes() -> str:
    if os.geteuid() != 0:
        return "needs root (network namespaces, containerd)"
    if shutil.which("apt-get") is None and (absent := packages.missing()):
        return f"needs what is in these packages of Debian: {', '.join(absent)}"
    return ""


def _install_packages() -> None:
    with display() as shown:
        packages.ensure(shown)


def _needs_machines() -> str:
    """A machine that cannot get Debian's kernel or QEMU is no reason to fail: the other tiers stand without them."""
    if reason := vm.obstacle() or _needs_nodes():
        return reason
    try:
        _install_packages()
        with display() as shown:
            vm.ensure(shown)
    except ClusterError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Tier:
    """What a tier takes: ``obstacle`` tells why it cannot run here ("" when it can), ``prepare`` makes it possible."""

    obstacle: Callable[[], str] = _always
    prepare: Callable[[], None] = _nothing


# In the order of what the next one stands on.
TIERS = {
    "unit": Tier(),
    "api": Tier(),
    "net": Tier(_needs_nodes, _install_packages),
    "e2e": Tier(_needs_nodes, _install_packages),
    "helm": Tier(),
    "chaos": Tier(),
    "vm": Tier(_needs_machines),
}


def run_tier(name: str, arguments: list[str]) -> str:
    """Run one tier; why it failed, "" when it passed."""
    try:
        TIERS[name].prepare()
    except ClusterError as error:
        return str(error)
    command = [sys.executable, "-m", "pytest", str(ROOT / "tests" / name), *arguments]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return "no test ran"
    return f"pytest exit {code}" if code else ""


def main(argv: list[str]) -> int:
    """Run the tiers named in ``argv`` (all when none is named); 0 when all of them passed."""
    split = argv.index("--") if "--" in argv else len(argv)
    chosen, arguments = argv[:split], argv[split + 1 :]
    if unknown := [tier for tier in chosen if tier not in TIERS]:
        print(f"no such tier: {', '.join(unknown)}; there are: {', '.join(TIERS)}", file=sys.stderr)
        return 2
    lines, failed = [], False
    for name, tier in TIERS.items():
        if chosen and name not in chosen:
            continue
        has_tests = any((ROOT / "tests" / name).glob("**/test_*.py"))
        if reason := tier.obstacle() if has_tests else "has no tests":
            failed |= name in chosen
            lines.append(f"{name:6} not run: {reason}")
            continue
        started = time.monotonic()
        failure = run_tier(name, arguments)
        failed |= bool(failure)
        outcome = f"FAILED ({failure})" if failure else "passed"
        lines.append(f"{name:6} {outcome} in {time.monotonic() - started:.0f} s")
    print("\n".join(["", "tiers:", *lines]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
