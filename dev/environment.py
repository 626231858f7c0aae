"""The file `env` of a run folder: what users source and what `dev.cluster.Cluster` reads."""

from __future__ import annotations

import shlex

from dev.node import Node
from dev.paths import PLANES, RunDir
from dev.state import State


def write_environment(run: RunDir, state: State) -> None:
    """Write the paths of a cluster that is ready, by rename."""
    values: dict[str, object] = {
        "RUN_DIR": run.root,
        "BIN_DIR": run.bin,
        "KUBECTL": run.bin / "kubectl",
        "NODES": " ".join(state.nodes),
    }
    for plane in PLANES:
        values[f"{plane.upper()}_KUBECONFIG"] = run.kubeconfig(plane)
        values[f"{plane.upper()}_AUDIT_LOG"] = run.audit_log(plane)
    for name in state.nodes:
        node = Node(name, run, state)
        values |= {
            f"{name.upper()}_{key}": value
            for key, value in {
                "NETNS": node.netns,
                "PID": node.pid,
                "STATE_DIR": node.state_dir,
                "CNI_BIN_DIR": node.cni_bin_dir,
                "CNI_CONF_DIR": node.cni_conf_dir,
                "CNI_SOCKET": node.cni_socket,
                "LOCATOR": node.locator,
                "UNDERLAY": node.underlay,
            }.items()
        }
    lines = [f"{name}={shlex.quote(str(value))}\n" for name, value in values.items()]
    partial = run.env.with_suffix(".partial")
    partial.write_text("".join(lines))
    partial.rename(run.env)


def read_environment(run: RunDir) -> dict[str, str]:
    """Read the file that `write_environment` wrote."""
    words = shlex.split(run.env.read_text())
    return dict(word.split("=", 1) for word in words)
