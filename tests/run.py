"""``python -m tests.run [TIER ...] [-- PYTEST ARGUMENTS]``: run every tier that this machine can, one after the other.

A tier that cannot run here is named with the reason at the end; a tier that runs and fails fails the command. Tiers run
in processes of their own, so that the programs of the e2e tier never meet the in-process controllers of the api tier.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def _always() -> str:
    return ""


def _needs_root() -> str:
    return "" if os.geteuid() == 0 else "needs root (network namespaces, containerd)"


def _needs_qemu() -> str:
    return "" if shutil.which("qemu-system-x86_64") else "needs qemu-system-x86_64"


# Each tier with the reason why it cannot run here ("" when it can), in the order of what the next one stands on.
TIERS: dict[str, Callable[[], str]] = {
    "unit": _always,
    "api": _always,
    "net": _needs_root,
    "e2e": _needs_root,
    "helm": _always,
    "chaos": _always,
    "vm": _needs_qemu,
}


def run_tier(tier: str, arguments: list[str]) -> int:
    """Run one tier; pytest's exit code."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", str(ROOT / "tests" / tier), *arguments], cwd=ROOT, check=False
    ).returncode


def main(argv: list[str]) -> int:
    """Run the tiers named in ``argv`` (all when none is named); 0 when all of them passed."""
    tiers, _, arguments = (
        (argv, "", []) if "--" not in argv else (argv[: argv.index("--")], "", argv[argv.index("--") + 1 :])
    )
    unknown = [tier for tier in tiers if tier not in TIERS]
    if unknown:
        print(f"no such tier: {', '.join(unknown)}; there are: {', '.join(TIERS)}", file=sys.stderr)
        return 2
    lines, failed = [], False
    for tier, obstacle in TIERS.items():
        if (tiers and tier not in tiers) or not any((ROOT / "tests" / tier).glob("**/test_*.py")):
            continue
        if reason := obstacle():
            lines.append(f"{tier:6} skipped: {reason}")
            continue
        started = time.monotonic()
        code = run_tier(tier, arguments)
        failed |= code != 0
        outcome = "passed" if code == 0 else f"FAILED (pytest exit {code})"
        lines.append(f"{tier:6} {outcome} in {time.monotonic() - started:.0f} s")
    print("\n".join(["", "tiers:", *lines]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
