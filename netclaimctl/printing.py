"""What the commands print: findings to stdout, everything else to stderr; colours on a terminal only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

SOUND = 0
UNSOUND = 1
UNREADABLE = 2
"""Exit codes: all is as it should be, something is not, and the question could not be answered."""


def say(text: str, style: str = "") -> None:
    """One finding, on one line however long it is."""
    Console().print(Text(text, style=style), soft_wrap=True)


def remark(text: str) -> None:
    """What is not a finding: counts, progress, errors."""
    Console(stderr=True).print(Text(text), soft_wrap=True)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Columns as kubectl prints them: aligned, never wrapped. `styles`: one for each row, empty for none."""
    listed = [tuple(row) for row in rows]
    widths = [max(len(row[column]) for row in (tuple(headers), *listed)) for column in range(len(headers))]
    say(_line([header.upper() for header in headers], widths), "bold")
    for number, row in enumerate(listed):
        say(_line(row, widths), styles[number] if styles else "")


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "   ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
