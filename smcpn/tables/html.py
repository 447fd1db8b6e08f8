"""A table as HTML, for a page with a style sheet and for a notebook without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from smcpn.tables.table import Column, Table

Attributes = Callable[[Column], str]


def table_html(table: Table) -> str:
    """Return a table for a page whose style sheet knows its classes, without title and notes.

    On a narrow page each row stands by itself, every cell beside the head of its column.
    """
    kind = "pairs" if not table.heads else "wide cards" if len(table.columns) > 2 else "wide"
    return f'<div class="scroll"><table class="{kind}">{_parts(table, _classes)}</table></div>'


def table_html_styled(table: Table) -> str:
    """Return a table for a page without a style sheet, as a notebook, without title and notes."""
    return f"<table>{_parts(table, _style)}</table>"


def _parts(table: Table, attributes: Attributes) -> str:
    head = "".join(
        f'<th scope="col"{attributes(column)}>{escape(name)}</th>'
        for column, name in zip(table.columns, table.heads, strict=False)
    )
    rows = "".join(f"<tr>{_row(table, row, attributes)}</tr>\n" for row in table.cells)
    return f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{rows}</tbody>"


def _row(table: Table, row: Sequence[str], attributes: Attributes) -> str:
    return "".join(
        f"<td{attributes(column)}>{escape(cell)}</td>"
        for column, cell in zip(table.columns, row, strict=True)
    )


def _classes(column: Column) -> str:
    names = "words" * column.words + " long" * column.long
    head = f' data-head="{escape(column.name)}"' if column.name else ""
    return (f' class="{names}"' if names else "") + head


def _style(column: Column) -> str:
    return f' style="text-align:{"left" if column.words else "right"}"'
