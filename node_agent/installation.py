"""``python -m node_agent.installation BINARY FOLDER``: install the CNI plugin on the node, also over one that runs.

Writing into a binary that is being executed fails ("text file busy"), and a half-written one would be executed: so a
new file is written beside it, made durable, and renamed over the name.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

MODE = 0o755


def install(binary: Path, folder: Path) -> Path:
    """Copy ``binary`` into ``folder`` under its own name, by write and rename; returns where. Raises OSError."""
    target = folder / binary.name
    partial = folder / f".{binary.name}.{os.getpid()}"
    try:
        with partial.open("wb") as file:
            file.write(binary.read_bytes())
            os.fchmod(file.fileno(), MODE)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return target


def main(argv: list[str]) -> int:
    """Install; the exit code: 0, 1 with the reason on stderr, 2 for a wrong call."""
    if len(argv) != 2:
        sys.stderr.write("usage: python -m node_agent.installation BINARY FOLDER\n")
        return 2
    try:
        target = install(Path(argv[0]), Path(argv[1]))
    except OSError as error:
        sys.stderr.write(f"the CNI plugin cannot be installed: {error}\n")
        return 1
    sys.stdout.write(f"installed {target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
