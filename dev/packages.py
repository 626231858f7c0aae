"""Debian's part of a node: container runtime, CNI plugins and network tools, installed only where missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from dev.errors import ClusterError
from dev.paths import cache_dir
from dev.progress import Display

BUSYBOX = Path("/bin/busybox")
CNI_PLUGINS = Path("/usr/lib/cni")
SEARCHED = "/usr/sbin:/usr/bin:/sbin:/bin"
COMMANDS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "iptables": "iptables",
    "nft": "nftables",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "socat": "socat",
    "ping": "iputils-ping",
    "tcpdump": "tcpdump",
    "modprobe": "kmod",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "mount": "mount",
    "sysctl": "procps",
}
FILES = {str(CNI_PLUGINS / "ptp"): "containernetworking-plugins", "/usr/lib/*/libnftables.so.1": "libnftables1"}
SUGGESTION = "or start the control planes alone: --nodes 0"


def dockerd(display: Display) -> Path:
    """Return a dockerd to start: the one installed, else the one of Debian's package, unpacked in the cache.

    The package is not installed, since installing it starts a daemon that changes the machine's network.
    """
    found = shutil.which("dockerd", path=SEARCHED)
    if found:
        return Path(found)
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError("no container engine answers, and starting one needs root and Debian's packages")
    folder = cache_dir() / "docker.io"
    # The cache may be older than the machine: what the daemon runs is looked for each time.
    if any(shutil.which(command, path=SEARCHED) is None for command in ("containerd", "runc")):
        install(["containerd", "runc", "libdevmapper1.02.1", "libsystemd0"], display)
    if not folder.exists():
        step = "Debian package docker.io, unpacked"
        display.begin(step)
        partial = folder.with_name(f"docker.io.{os.getpid()}")
        partial.mkdir()
        unpack = "dpkg -x docker.io_*.deb . && rm docker.io_*.deb"
        _run(["apt-get", "update"])
        _run(["apt-get", "download", "docker.io"], partial)
        _run(["sh", "-c", unpack], partial)
        partial.rename(folder)
        display.end(step)
    return folder / "usr" / "sbin" / "dockerd"


def missing() -> list[str]:
    """Return the Debian packages that a node needs and this machine does not have."""
    needed = {package for command, package in COMMANDS.items() if shutil.which(command, path=SEARCHED) is None}
    needed |= {package for pattern, package in FILES.items() if not any(Path("/").glob(pattern.lstrip("/")))}
    return sorted(needed)


def ensure(display: Display) -> None:
    """Install what is missing; raises ClusterError when that takes an administrator, or another system than Debian."""
    needed = missing()
    if os.geteuid() != 0:
        raise ClusterError(f"nodes need root, for their network and mount namespaces: run this as root, {SUGGESTION}")
    if not needed:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError(
            f"nodes need what is in these packages of Debian: {', '.join(needed)}. There is no apt-get here: "
            f"install what corresponds to them, {SUGGESTION}"
        )
    install(needed, display)


def install(packages: list[str], display: Display) -> None:
    """Install packages of Debian; raises ClusterError when that fails."""
    step = f"Debian packages {' '.join(packages)}"
    display.begin(step)
    _run(["apt-get", "update"])
    _run(["apt-get", "install", "-y", "--no-install-recommends", *packages])
    display.end(step)


def _run(command: list[str], folder: Path | None = None) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)} failed:\n{(done.stderr or done.stdout).strip()[-1500:]}")
