"""The control planes as tests see them: two API servers, started through ``dev`` or already running."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dev.cluster import Cluster


@dataclass
class ControlPlane:
    """The cell's and the IPAM's API server of one local cluster."""

    cluster: Cluster

    @classmethod
    def start(cls, run_dir: Path, how: str = "process") -> Self:
        return cls(Cluster.up(run_dir, nodes=0, control_plane=how))

    @classmethod
    def attach(cls, run_dir: Path) -> Self:
        return cls(Cluster.load(run_dir))

    @property
    def cell_kubeconfig(self) -> Path:
        return Path(self.cluster.cell_kubeconfig)

    @property
    def ipam_kubeconfig(self) -> Path:
        return Path(self.cluster.ipam_kubeconfig)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """kubectl against the cell; its output (stderr is part of the error)."""
        return self._run(self.cell_kubeconfig, arguments, stdin, check=check)

    def ipam_kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """kubectl against the IPAM control plane."""
        return self._run(self.ipam_kubeconfig, arguments, stdin, check=check)

    def install_crds(self, folder: Path) -> None:
        """Apply every file of ``folder`` to both API servers and wait until all kinds are served."""
        for kubeconfig in (self.cell_kubeconfig, self.ipam_kubeconfig):
            self._run(kubeconfig, ("apply", "--server-side", "--force-conflicts", "-f", str(folder)), None)
            self._run(kubeconfig, ("wait", "--for=condition=Established", "--timeout=30s", "-f", str(folder)), None)

    def stop(self) -> None:
        self.cluster.down()

    def _run(self, kubeconfig: Path, arguments: tuple[str, ...], stdin: str | None, *, check: bool = True) -> str:
        done = subprocess.run(
            [str(self.cluster.kubectl_path), "--kubeconfig", str(kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if check and done.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout if done.returncode == 0 else done.stderr
