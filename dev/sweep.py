"""Remove what a run left outside its folder, and its own files. Safe to repeat, and after SIGKILL of anything."""

from __future__ import annotations

import shutil

from dev import isolation
from dev.paths import RunDir
from dev.processes import kill_and_wait
from dev.state import State


def sweep(run: RunDir, state: State) -> None:
    """End every process in the run's namespaces, then remove its cgroups, namespaces, sockets and files; logs stay."""
    if state.nodes:
        names = [state.netns(node) for node in state.nodes]
        kill_and_wait(isolation.processes_in([*names, state.hub]))
        for node in state.nodes:
            isolation.remove_cgroup(state.cgroup(node))
        for name in (*names, state.hub):
            isolation.remove_netns(name)
        isolation.remove_netns_mount()
    if state.control_plane == "container":
        _remove_containers(state)
    shutil.rmtree(state.sockets, ignore_errors=True)
    remove_files(run)
    state.forget(run)


def _remove_containers(state: State) -> None:
    if state.own_engine:
        isolation.remove_cgroup(state.cgroup("engine"))
    else:
        from dev.containers import remove_containers

        remove_containers(state.run_id)


def remove_files(run: RunDir) -> None:
    """Remove what a run wrote to its folder, except the logs."""
    for folder in ("bin", "engine", "etcd", "nodes", "pki"):
        shutil.rmtree(run.root / folder, ignore_errors=True)
    for file in (run.env, *run.root.glob("*.kubeconfig")):
        file.unlink(missing_ok=True)
