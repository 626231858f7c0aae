"""The root of a virtual machine as an initramfs: a cpio archive (format newc) made of this machine's own files.

Archives may follow each other in one file: the kernel unpacks them in order, a later one over the earlier.
"""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path, PurePosixPath
from typing import Final

from dev.errors import ClusterError

_MAGIC: Final = b"070701"
_END: Final = "TRAILER!!!"


class Initramfs:
    """Files by their place in the machine; ``write`` makes the archive."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, int, bytes | Path]] = {}

    def folder(self, place: str) -> None:
        """Have a folder, and those above it."""
        path = PurePosixPath(place)
        for each in (*reversed(path.parents), path):
            if each.name:
                self._entries.setdefault(str(each).lstrip("/"), (stat.S_IFDIR | 0o755, 0, b""))

    def file(self, place: str, content: bytes | str, *, mode: int = 0o644, modified: int = 0) -> None:
        """Have a file of this content."""
        self.folder(str(PurePosixPath(place).parent))
        encoded = content.encode() if isinstance(content, str) else content
        self._entries[place.lstrip("/")] = (stat.S_IFREG | mode, modified, encoded)

    def copy(self, source: Path, place: str = "") -> None:
        """Have a copy of a file of this machine, at the same place unless another is named."""
        target = place or str(source)
        found = source.stat()
        self.folder(str(PurePosixPath(target).parent))
        mode = stat.S_IFREG | stat.S_IMODE(found.st_mode)
        self._entries[target.lstrip("/")] = (mode, int(found.st_mtime), source.resolve())

    def link(self, place: str, target: str) -> None:
        """Have a symbolic link."""
        self.folder(str(PurePosixPath(place).parent))
        self._entries[place.lstrip("/")] = (stat.S_IFLNK | 0o777, 0, target.encode())

    def program(self, source: Path, place: str = "") -> None:
        """Have a program, or a shared library, with every library that it needs."""
        self.copy(source, place)
        for library in libraries(source):
            if str(library).lstrip("/") not in self._entries:
                self.copy(library)

    def write(self, path: Path) -> None:
        """Write the archive, by rename."""
        partial = path.with_name(f".{path.name}.new")
        with partial.open("wb") as out:
            for number, (place, (mode, modified, content)) in enumerate(self._entries.items(), start=1):
                data = content.read_bytes() if isinstance(content, Path) else content
                out.write(_entry(number, place, mode, modified, data))
            out.write(_entry(0, _END, 0, 0, b""))
            out.write(b"\0" * (-out.tell() % 512))
        partial.rename(path)


def libraries(program: Path) -> list[Path]:
    """The shared libraries that a program needs, by the paths that the loader finds them at. None for a static one."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if "not a dynamic executable" in done.stdout + done.stderr or "statically linked" in done.stdout:
        return []
    found = []
    for line in done.stdout.splitlines():
        name, arrow, place = line.strip().partition(" => ")
        path = (place if arrow else name).split(" (")[0].strip()
        if path == "not found":
            raise ClusterError(f"{program} needs {name}, which is not on this machine")
        if path.startswith("/"):
            found.append(Path(path))
    return found


def _entry(number: int, place: str, mode: int, modified: int, data: bytes) -> bytes:
    name = place.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = (number, mode, 0, 0, links, modified, len(data), 0, 0, 0, 0, len(name), 0)
    header = _MAGIC + b"".join(b"%08X" % field for field in fields) + name
    return header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4)
