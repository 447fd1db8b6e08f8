"""Text set in columns."""

from __future__ import annotations

from collections.abc import Iterable

from smcpn.errors import visible


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
