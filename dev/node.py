"""One node of a cluster that runs, as other code uses it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.isolation import netns_path
from dev.paths import RunDir
from dev.state import State

LOCATOR_BLOCK = "fd5f::/32"
UNDERLAY_DEVICE = "up0"


@dataclass(frozen=True)
class Node:
    """A node's paths as the host sees them, and how to run something inside it."""

    name: str
    run: RunDir
    state: State

    @property
    def number(self) -> int:
        """1 for node1."""
        return int(self.name.removeprefix("node"))

    @property
    def folder(self) -> Path:
        """Everything that belongs to the node."""
        return self.run.node(self.name)

    @property
    def netns(self) -> Path:
        """The file of the node's network namespace; its last part is the name for `ip netns`."""
        return netns_path(self.state.netns(self.name))

    @property
    def pid(self) -> int:
        """The node's first process, which holds its mount namespace; 0 when the node is off."""
        try:
            return int((self.folder / "pid").read_text())
        except FileNotFoundError:
            return 0

    @property
    def state_dir(self) -> Path:
        """The agent's state: /var/lib/netclaim inside the node."""
        return self.folder / "lib" / "netclaim"

    @property
    def cni_bin_dir(self) -> Path:
        """The CNI plugins: /opt/cni/bin inside the node."""
        return self.folder / "cni" / "bin"

    @property
    def cni_conf_dir(self) -> Path:
        """The CNI configuration: /etc/cni/net.d inside the node."""
        return self.folder / "cni" / "net.d"

    @property
    def cni_socket(self) -> Path:
        """Where the agent listens, as seen inside the node: each node has a /run of its own."""
        return Path("/run/netclaim/agent.sock")

    @property
    def locator(self) -> str:
        """The node's SRv6 locator, a /64 of fd5f::/32."""
        return f"fd5f:0:0:{self.number}::/64"

    @property
    def underlay(self) -> str:
        """The device that leads to the other nodes."""
        return UNDERLAY_DEVICE

    @property
    def underlay_address(self) -> str:
        """The node's IPv6 address on the underlay."""
        return f"fd00:aa::{self.number}"

    @property
    def underlay_mac(self) -> str:
        """The MAC address on the underlay; as with a real card, the same after a reboot."""
        return f"02:6e:63:00:00:{self.number:02x}"

    @property
    def ipv4(self) -> str:
        """The node's IPv4 address, which Kubernetes knows as its InternalIP."""
        return f"172.31.0.{10 + self.number}"

    @property
    def pod_range(self) -> str:
        """The IPv4 range of the cluster network's Pods on this node."""
        return f"10.244.{self.number}.0/24"

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the words that run `argv` in the node's network and mount namespaces, with the host's process ids.

        Every program before `argv` replaces itself by the next one, so process id and signals are those of `argv`.
        """
        of = f"/proc/{self.pid}/ns"
        enter = ["nsenter", f"--mount={of}/mnt", f"--uts={of}/uts", f"--net={self.netns}"]
        proc = 'mount -n -t proc proc /proc && exec "$@"'
        return [*enter, "unshare", "--mount", "--propagation", "slave", "sh", "-c", proc, "sh", *argv]

    def install_cni_plugin(self, path: Path, name: str = "") -> None:
        """Install a CNI plugin on the node by write and rename, also over one that runs."""
        target = self.cni_bin_dir / (name or "netclaim-cni")
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copy2(path, partial)
        partial.rename(target)
