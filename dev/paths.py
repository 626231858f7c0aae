"""Where the local cluster keeps its files: the cache (shared by checkouts) and one run folder per cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
GO_MODULES = CHECKOUT / "dev" / "go"
MANIFESTS = CHECKOUT / "dev" / "manifests"
PLANES = ("cell", "ipam")


def cache_dir() -> Path:
    """Return the folder for everything that is built once and kept: $NETCLAIM_CACHE, else ~/.cache/netclaim."""
    configured = os.environ.get("NETCLAIM_CACHE")
    folder = Path(configured).expanduser() if configured else Path.home() / ".cache" / "netclaim"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def default_run_dir() -> Path:
    """Return $NETCLAIM_RUN_DIR, else `.run` in the checkout."""
    configured = os.environ.get("NETCLAIM_RUN_DIR")
    return Path(configured).expanduser().resolve() if configured else CHECKOUT / ".run"


@dataclass(frozen=True)
class RunDir:
    """The layout of one cluster's run folder."""

    root: Path

    @property
    def state(self) -> Path:
        """What the cluster made outside this folder, for whoever has to clean up after it."""
        return self.root / "state.json"

    @property
    def env(self) -> Path:
        """The shell file that users and tests source."""
        return self.root / "env"

    @property
    def lock(self) -> Path:
        """Held by the supervisor for as long as it lives."""
        return self.root / "lock"

    @property
    def bin(self) -> Path:
        """Links to the programs of this cluster."""
        return self.root / "bin"

    @property
    def log(self) -> Path:
        """One log file per process, and the audit logs. Kept after `down`."""
        return self.root / "log"

    def pki(self, plane: str) -> Path:
        """Certificates and keys of one control plane."""
        return self.root / "pki" / plane

    def kubeconfig(self, plane: str) -> Path:
        """The administrator's kubeconfig of one control plane."""
        return self.root / f"{plane}.kubeconfig"

    def audit_log(self, plane: str) -> Path:
        """The API server's audit log: JSON lines, level Metadata."""
        return self.log / f"audit-{plane}.log"

    def node(self, name: str) -> Path:
        """Everything that belongs to one node."""
        return self.root / "nodes" / name
