"""`python -m netclaim.api [FOLDER]`: writes the definition of every kind to FOLDER (crds/ by default).

Files of kinds that are no longer there are removed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from netclaim.api import crdgen
from netclaim.api.kinds import KINDS


def write(folder: Path) -> list[Path]:
    """Write every kind's file and remove what no kind has; returns the files that changed."""
    wanted = {folder / crdgen.file_name(kind): crdgen.render(kind) for kind in KINDS}
    folder.mkdir(parents=True, exist_ok=True)
    changed = [path for path in sorted(folder.glob("*.yaml")) if path not in wanted]
    for path in changed:
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="ascii") != text:
            path.write_text(text, encoding="ascii")
            changed.append(path)
    return changed


def main() -> None:
    """Write the files and say which changed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("crds")
    try:
        changed = write(folder)
    except crdgen.SchemaError as error:
        sys.exit(f"crds: {error}")
    for path in changed:
        sys.stdout.write(f"{path}\n")
    sys.stdout.write(f"{len(KINDS)} kinds in {folder}, {len(changed)} files changed\n")


if __name__ == "__main__":
    main()
