"""Tables and figures as text: set in columns for people, separated by commas for programs."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence

from smcpn.errors import visible
from smcpn.tables.table import Fact, Table

FORMULA = ("=", "+", "-", "@", "'")
"""With which a cell begins that a spreadsheet computes."""
INDENT = 17
"""Characters of the name of a figure and of the space behind it."""


def table_text(table: Table) -> str:
    """Return a table as text, without its title."""
    rows = [table.heads, *table.cells] if table.heads else table.cells
    left = [j for j, column in enumerate(table.columns) if column.words]
    return "\n".join([*([align(rows, left)] if rows else []), *table.notes])


def align(rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Set rows of text in columns, right-aligned but for the columns ``left``."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def fact_lines(
    facts: Iterable[Fact], warnings: Iterable[str] = (), width: int | None = None
) -> list[str]:
    """Return figures, then warnings, as lines of a summary, each behind its name.

    Lines longer than ``width`` go on below, where one is given.
    """
    every = [*facts, *(("warning", sentence) for sentence in warnings)]
    lines = [f"{name:<{INDENT - 1}} {text}" for name, text in every]
    if width is None:
        return lines
    wrap = textwrap.TextWrapper(width, subsequent_indent=" " * INDENT, break_long_words=False)
    return [part for line in lines for part in wrap.wrap(line)]


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
