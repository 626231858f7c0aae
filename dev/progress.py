"""What a waiting user sees: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

PLAIN_INTERVAL = 15.0


class Display(Protocol):
    """Shows steps that begin, advance and end; several may be open at once."""

    def begin(self, step: str) -> None:
        """Show that `step` is being waited for."""

    def advance(self, step: str, done: int, total: int) -> None:
        """Show that `done` of `total` parts of an open step are finished."""

    def end(self, step: str, outcome: str = "") -> None:
        """Show that `step` is finished, with a few words on how."""

    def say(self, text: str) -> None:
        """Print one line."""

    def close(self) -> None:
        """Give the terminal back."""


class PlainDisplay:
    """Lines for logs and pipes: one when a step ends, and one now and then while a long one runs."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def begin(self, step: str) -> None:
        """Remember when the step began."""
        self._began[step] = self._told[step] = time.monotonic()

    def advance(self, step: str, done: int, total: int) -> None:
        """Print a line when the last one is old enough."""
        now = time.monotonic()
        if now - self._told[step] >= PLAIN_INTERVAL:
            self._told[step] = now
            self.say(f"... {step}: {done} of {total} packages, {now - self._began[step]:.0f} s")

    def end(self, step: str, outcome: str = "") -> None:
        """Print the step with its time."""
        seconds = time.monotonic() - self._began.pop(step, time.monotonic())
        self.say(f"{seconds:6.1f} s  {step}{f': {outcome}' if outcome else ''}")

    def say(self, text: str) -> None:
        """Print one line at once."""
        print(text, flush=True)

    def close(self) -> None:
        """Nothing to give back."""


class _PartsBar(BarColumn):
    """A bar for the steps whose parts are counted, nothing for the others."""

    def render(self, task: Task) -> ProgressBar | Text:  # type: ignore[override]
        return Text("") if task.total is None else super().render(task)


class TerminalDisplay:
    """A spinner per open step, with a bar where the number of parts is known."""

    def __init__(self) -> None:
        self._console = Console()
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]done[/]"),
            TextColumn("{task.description}"),
            _PartsBar(bar_width=24),
            TextColumn("{task.fields[parts]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._progress.start()

    def begin(self, step: str) -> None:
        """Open a spinner."""
        self._tasks[step] = self._progress.add_task(step, total=None, parts="")

    def advance(self, step: str, done: int, total: int) -> None:
        """Turn the spinner into a bar."""
        self._progress.update(self._tasks[step], completed=done, total=total, parts=f"{done}/{total}")

    def end(self, step: str, outcome: str = "") -> None:
        """Replace the spinner by a line that stays."""
        task = self._tasks.pop(step, None)
        seconds = 0.0
        if task is not None:
            seconds = next((t.elapsed or 0.0 for t in self._progress.tasks if t.id == task), 0.0)
            self._progress.remove_task(task)
        self.say(f"[green]{seconds:6.1f} s[/]  {step}{f': {outcome}' if outcome else ''}")

    def say(self, text: str) -> None:
        """Print above the live part."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Stop the live part."""
        self._progress.stop()


@contextmanager
def display() -> Iterator[Display]:
    """Open the display that fits standard output."""
    shown: Display = TerminalDisplay() if sys.stdout.isatty() else PlainDisplay()
    try:
        yield shown
    finally:
        shown.close()
