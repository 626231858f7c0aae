"""`python -m dev.reference [FOLDER]`: writes the reference pages to FOLDER (docs/reference by default)."""

from __future__ import annotations

import sys
from pathlib import Path

from dev.paths import CHECKOUT
from dev.reference import kinds, observed, programs, reasons


def pages() -> dict[str, str]:
    """File name -> text of every page."""
    return {**kinds.pages(), **programs.pages(), **reasons.pages(), **observed.pages()}


def write(folder: Path) -> list[Path]:
    """Write every page and remove what is none; returns the files that changed."""
    wanted = {folder / name: text for name, text in pages().items()}
    folder.mkdir(parents=True, exist_ok=True)
    changed = [path for path in sorted(folder.glob("*.md")) if path not in wanted]
    for path in changed:
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    return changed


def main() -> None:
    """Write the pages and say which changed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKOUT / "docs" / "reference"
    for path in write(folder):
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
