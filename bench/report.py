"""What a benchmark reports: figures with units, the goal where there is one, and whether it was met."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. ``goal`` is an upper bound (``at_least`` turns it into a lower one); None: published only."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Whether the goal holds; always true without one."""
        if self.goal is None:
            return True
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def __str__(self) -> str:
        text = f"{self.name:44} {self.value:12,.3f} {self.unit}"
        if self.goal is None:
            return text
        return f"{text}  (goal {'>=' if self.at_least else '<='} {self.goal:g}: {'met' if self.met else 'MISSED'})"


@dataclass(slots=True)
class Report:
    """A benchmark's outcome: its id (B1..B14), a title, ratios first, then absolute figures."""

    id: str
    title: str
    figures: list[Figure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def goals_met(self) -> bool:
        return all(figure.met for figure in self.figures)

    def add(self, name: str, value: float, unit: str, *, goal: float | None = None, at_least: bool = False) -> None:
        """Add one figure; see `Figure`."""
        self.figures.append(Figure(name, value, unit, goal, at_least))

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "title": self.title,
            "goalsMet": self.goals_met,
            "figures": [
                {"name": f.name, "value": f.value, "unit": f.unit, "goal": f.goal, "atLeast": f.at_least, "met": f.met}
                for f in self.figures
            ],
            "notes": self.notes,
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.id} {self.title}", *map(str, self.figures), *(f"note: {n}" for n in self.notes)])
