"""What a cluster made outside its run folder, written down before it is made, so that anybody can clean up after it."""

from __future__ import annotations

import contextlib
import json
import secrets
import tempfile
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from dev.paths import RunDir
from dev.processes import start_time


@dataclass
class State:
    """One run: its id (the suffix of every name outside the run folder), its supervisor and its size."""

    run_id: str
    nodes: list[str]
    sockets_dir: str = ""
    supervisor_pid: int = 0
    supervisor_start: str = ""
    api_ports: dict[str, int] = field(default_factory=dict)
    ready: bool = False
    control_plane: str = "process"
    """`process`, or `container`."""
    own_engine: bool = True
    """The containers are in an engine that ends with the run, not in one that was there before."""

    @classmethod
    def new(cls, nodes: int, control_plane: str = "process", *, own_engine: bool = True) -> State:
        """Return the state of a run that is about to start."""
        run_id = secrets.token_hex(3)
        return cls(
            run_id,
            [f"node{number}" for number in range(1, nodes + 1)],
            str(Path(tempfile.gettempdir()) / f"nc-{run_id}"),
            control_plane=control_plane,
            own_engine=own_engine,
        )

    @classmethod
    def load(cls, run: RunDir) -> State | None:
        """Read a run folder's state, of any version; None when no cluster was started there or it was cleaned up."""
        try:
            written = json.loads(run.state.read_text())
        except FileNotFoundError:
            return None
        known = {entry.name for entry in fields(cls)}
        return cls(**{name: value for name, value in written.items() if name in known})

    def save(self, run: RunDir) -> None:
        """Write the state by rename."""
        partial = run.state.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=2) + "\n")
        partial.rename(run.state)

    @property
    def running(self) -> bool:
        """Whether the supervisor of this run is alive."""
        return bool(self.supervisor_pid) and start_time(self.supervisor_pid) == self.supervisor_start

    @property
    def sockets(self) -> Path:
        """A folder for unix sockets: their paths are limited to 107 bytes, run folders are not."""
        return Path(self.sockets_dir or Path(tempfile.gettempdir()) / f"nc-{self.run_id}")

    @property
    def control_socket(self) -> Path:
        """Where the supervisor takes requests."""
        return self.sockets / "control"

    @property
    def egress_socket(self) -> Path:
        """Where the cell's API server reaches nodes through."""
        return self.sockets / "egress"

    @property
    def engine_socket(self) -> Path:
        """Where the container engine of this run answers, when it has one."""
        return self.sockets / "docker.sock"

    @property
    def hub(self) -> str:
        """The network namespace with the bridge between the nodes."""
        return f"nc-{self.run_id}-hub"

    def netns(self, node: str) -> str:
        """Return the name of a node's network namespace."""
        return f"nc-{self.run_id}-{node}"

    def cgroup(self, node: str) -> str:
        """Return the name of a node's cgroup in every hierarchy."""
        return f"nc-{self.run_id}-{node}"

    def forget(self, run: RunDir) -> None:
        """Remove the state file: nothing is left outside the run folder."""
        with contextlib.suppress(FileNotFoundError):
            run.state.unlink()
