"""What an experiment hands back: rows beside the published numbers, and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

from smcpn.columns import align


@dataclass(frozen=True)
class Row:
    """One line of the table; what does not apply is empty or None.

    Attributes
    ----------
    figure, ours, published, target : str
    met : bool or None
        Whether ours reaches the target.
    note : str
    """

    figure: str
    ours: str
    published: str = ""
    target: str = ""
    met: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """Rows of an experiment, and its figures by name, not drawn yet."""

    rows: list[Row]
    figures: dict[str, Callable[[], Figure]] = field(default_factory=dict)

    def text(self) -> str:
        """The rows as a table."""
        lines = [["", "ours", "published", "target", "met", ""]]
        for row in self.rows:
            met = "" if row.met is None else ("yes" if row.met else "NO")
            lines.append([row.figure, row.ours, row.published, row.target, met, row.note])
        return align(lines, left=(0, 1, 2, 3, 4, 5))


def listed(numbers: list[float] | tuple[float, ...]) -> str:
    """Numbers with three digits."""
    return " ".join(f"{number:.3g}" for number in numbers)
