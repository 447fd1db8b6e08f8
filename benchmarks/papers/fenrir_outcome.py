"""The result of an experiment: rows with the published numbers, and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from benchmarks.rows import Row


def beside(
    figure: str,
    ours: str,
    published: str = "",
    target: str = "",
    met: bool | None = None,
    note: str = "",
) -> Row:
    """Return the row of a figure; what the paper has for it comes first in the note."""
    notes = [f"paper {published}" if published else "", note]
    return Row(figure, ours, target, met, "; ".join(part for part in notes if part))


@dataclass(frozen=True)
class Outcome:
    """Rows of an experiment, and its figures by name, not drawn yet."""

    rows: list[Row]
    figures: dict[str, Callable[[], Figure]] = field(default_factory=dict)


def listed(numbers: list[float] | tuple[float, ...]) -> str:
    """Numbers with three digits."""
    return " ".join(f"{number:.3g}" for number in numbers)
