"""The control planes as tests see them: two API servers, started through ``dev`` or already running."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dev.cluster import Cluster
from dev.errors import ClusterError


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
        return asserted(self.cluster, *arguments, stdin=stdin, check=check)

    def ipam_kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """kubectl against the IPAM control plane."""
        return asserted(self.cluster, *arguments, plane="ipam", stdin=stdin, check=check)

    def install_crds(self, folder: Path) -> None:
        """Apply every file of ``folder`` to both API servers and wait until all kinds are served."""
        for kubectl in (self.kubectl, self.ipam_kubectl):
            kubectl("apply", "--server-side", "--force-conflicts", "-f", str(folder))
            kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(folder))

    def stop(self) -> None:
        self.cluster.down()


def asserted(
    cluster: Cluster, *arguments: str, plane: str = "cell", stdin: str | None = None, check: bool = True
) -> str:
    """kubectl on a plane; a refusal fails the test, or lets what waits for a condition look again."""
    try:
        return cluster.kubectl(*arguments, plane=plane, stdin=stdin, check=check, timeout=120)
    except ClusterError as error:
        raise AssertionError(str(error)) from error
