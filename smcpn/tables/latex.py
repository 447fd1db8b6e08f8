"""A table as LaTeX, with the rules of ``booktabs``."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf

from smcpn.errors import visible
from smcpn.tables.table import Cell, Column, Table

_ESCAPED = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
} | {one: f"\\{one}" for one in "&%$#_{}"}  # fmt: skip


def table_latex(table: Table) -> str:
    """Return a table as a ``tabular``, without title and notes."""
    columns = table.columns
    places = "".join("l" if column.words else "r" for column in columns)
    rows = [[_cell(one, of) for one, of in zip(row, columns, strict=True)] for row in table.rows]
    return "\n".join([
        rf"\begin{{tabular}}{{{places}}}",
        r"\toprule",
        _line([_text(name) for name in table.heads]),
        r"\midrule",
        *map(_line, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ])  # fmt: skip


def _cell(cell: Cell, column: Column) -> str:
    text = column.text(cell)
    if isinstance(cell, str) or cell is None or text == column.missing:
        return _text(text) or "--"
    sign = "-" if cell < 0 else ""
    if isinf(cell):
        return rf"${sign}\infty$"
    mantissa, _, exponent = format(cell, column.form).partition("e")
    power = rf" \times 10^{{{int(exponent)}}}" if exponent else ""
    return f"${mantissa}{power}${_text(' ' * bool(column.unit) + column.unit)}"


def _text(text: str) -> str:
    """Return a text as LaTeX prints it."""
    escaped = "".join(_ESCAPED.get(one, one) for one in visible(text))
    return escaped.replace(r" \%", r"\,\%")


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
