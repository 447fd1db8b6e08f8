"""Text set in columns, for people and for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from smcpn.errors import visible

FORMULA = ("=", "+", "-", "@", "'")
"""With which a cell begins that a spreadsheet computes."""


def counted(number: int, noun: str) -> str:
    """A number of things: ``1 input``, ``2 inputs``."""
    return f"{number} {noun}" + ("s" if number != 1 else "")


def align(rows: list[list[str]], left: tuple[int, ...] = ()) -> str:
    """Set rows of text in columns, right-aligned but for the columns ``left``.

    Control characters, as names from a file may have, are escaped.
    """
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def warning_lines(sentences: Iterable[str]) -> list[str]:
    """Lines of a summary, one for each warning."""
    return [f"warning          {sentence}" for sentence in sentences]


def csv_line(cells: Iterable[str | float]) -> str:
    """Return a line of comma-separated values: numbers with all their digits, and texts.

    A text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(map(_csv_cell, cells))
    return line.getvalue()


def _csv_cell(value: str | float) -> str:
    if not isinstance(value, str):
        return repr(float(value))
    text = visible(value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text
