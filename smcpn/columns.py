"""Text set in columns."""

from __future__ import annotations


def align(rows: list[list[str]], left: tuple[int, ...] = ()) -> str:
    """Set rows of text in columns, right-aligned but for the columns ``left``."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if j in left else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
