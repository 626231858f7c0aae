"""What a run makes in the kernel: network namespaces and cgroups, all with the run's id in their names."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

NETNS_DIR = Path("/run/netns")
NETNS_MARK = Path("/run/netns.made-by-netclaim")
CGROUPS = Path("/sys/fs/cgroup")
REMOVAL_DEADLINE = 10.0


def netns_path(name: str) -> Path:
    """Return the file that names a network namespace."""
    return NETNS_DIR / name


def netns_is_mount() -> bool:
    """Tell whether /run/netns is a mount point of its own, which `ip netns add` makes of it."""
    return any(line.split()[1] == str(NETNS_DIR) for line in Path("/proc/mounts").read_text().splitlines())


def add_netns(name: str) -> None:
    """Make a named network namespace."""
    subprocess.run(["ip", "netns", "add", name], check=True)


def remove_netns(name: str) -> None:
    """Remove a named network namespace; the links in it go with it."""
    if netns_path(name).exists():
        subprocess.run(["ip", "netns", "del", name], check=True)


def mark_netns_mount() -> None:
    """Remember, before the first `ip netns add`, whether /run/netns is there and a mount already."""
    if not netns_is_mount() and not NETNS_MARK.exists():
        NETNS_MARK.write_text("folder" if NETNS_DIR.exists() else "nothing")


def remove_netns_mount() -> None:
    """Undo the mount of /run/netns when a run (this or an earlier one) caused it and no namespace is left in it."""
    if not NETNS_MARK.exists() or (NETNS_DIR.exists() and any(NETNS_DIR.iterdir())):
        return
    before = NETNS_MARK.read_text()
    NETNS_MARK.unlink()
    if netns_is_mount():
        subprocess.run(["umount", NETNS_DIR], check=True)
    if before == "nothing":
        NETNS_DIR.rmdir()


def processes_in(names: Sequence[str]) -> list[int]:
    """Return the processes whose network namespace is one of those named."""
    wanted = set()
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            wanted.add(netns_path(name).stat().st_ino)
    if not wanted:
        return []
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "ns" / "net").stat().st_ino in wanted:
                found.append(int(entry.name))
    return found


def hierarchies() -> list[Path]:
    """Return the root of each cgroup hierarchy: one with cgroup v2, one per controller with v1."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [folder for folder in sorted(CGROUPS.iterdir()) if folder.is_dir() and (folder / "cgroup.procs").exists()]


def make_cgroup(name: str) -> None:
    """Make a cgroup in every hierarchy; a new cpuset (v1) has to be given its CPUs and memory."""
    for root in hierarchies():
        folder = root / name
        if root == CGROUPS:
            _pass_on_controllers(folder.parent)
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            if root != CGROUPS and (folder.parent / file).exists():
                (folder / file).write_text((folder.parent / file).read_text())


def _pass_on_controllers(folder: Path) -> None:
    """With cgroup v2 a group has the controllers that its parent passes on; one that cannot be is not needed here."""
    for controller in (folder / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def join_cgroup(name: str) -> None:
    """Move this process to a cgroup (`a/b`) in every hierarchy."""
    outer, _, _ = name.partition("/")
    make_cgroup(outer)
    make_cgroup(name)
    for root in hierarchies():
        (root / name / "cgroup.procs").write_text("0")


def remove_cgroup(name: str) -> None:
    """Remove a cgroup and those below it, waiting for the last processes in them to be gone."""
    deadline = time.monotonic() + REMOVAL_DEADLINE
    for root in hierarchies():
        while (root / name).exists():
            try:
                for folder in sorted((root / name).rglob("*/"), reverse=True):
                    folder.rmdir()
                (root / name).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
