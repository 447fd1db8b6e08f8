"""Tables of results as data, and each way to show them: text, HTML, LaTeX, and cards.

A `Table` has columns with the format of their numbers, rows, a title, and notes below. As text it
is set in columns for people, or separated by commas for programs; as HTML it is for a page with a
style sheet or a notebook without; LaTeX has the rules of ``booktabs``.

An interpreter prints ``repr``, a notebook shows ``_repr_html_``; both are made of one `Card`. The
text stays below 25 lines and 2000 characters, however large the object.
"""

from __future__ import annotations

import base64
import csv
import io
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from math import isinf, isnan
from typing import TYPE_CHECKING

from smcpn.errors import InputError, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Card",
    "Cell",
    "Column",
    "Fact",
    "Table",
    "WithCard",
    "csv_line",
    "fact_lines",
    "table_html",
    "table_latex",
    "table_text",
    "words",
]


Cell = str | float | None
"""A text; a number; or None, as nan, for a number that is not known."""
Fact = tuple[str, str]
"""Name of a figure, and the figure as text."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    name: Its head.
    form: How a number is written, as of `format`.
    unit: Written behind each number.
    missing: Written for a number that is not known.
    words: Whether it holds text and is set left; numbers are set right.
    long: Whether its text may take several lines where there is room for them.
    """

    name: str = ""
    form: str = ""
    unit: str = ""
    missing: str = ""
    words: bool = False
    long: bool = False

    def text(self, cell: Cell) -> str:
        """Return a cell as text, control characters escaped."""
        if isinstance(cell, str):
            return visible(cell)
        if cell is None or isnan(cell):
            return self.missing
        return f"{cell:{self.form}} {self.unit}".rstrip()


def words(name: str = "", long: bool = False) -> Column:
    """Return a column of text."""
    return Column(name, words=True, long=long)


@dataclass(frozen=True)
class Table:
    """Rows of cells under their columns.

    notes: Sentences below the rows.
    """

    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Cell]] = ()
    title: str = ""
    notes: Sequence[str] = ()

    @classmethod
    def of_pairs(cls, pairs: Mapping[str, str]) -> Table:
        """Return names and what each is in two columns without heads."""
        return cls((words(), words(long=True)), list(pairs.items()))

    @property
    def heads(self) -> list[str]:
        """Names of the columns; none where no column has one."""
        names = [visible(column.name) for column in self.columns]
        return names if any(names) else []

    @property
    def cells(self) -> list[list[str]]:
        """The rows as text."""
        return [
            [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]

    def select(self, *names: str) -> Table:
        """Return the table with the columns of these names, in this order, of those it has."""
        places = {column.name: j for j, column in enumerate(self.columns)}
        kept = [places[name] for name in names if name in places]
        rows = [[row[j] for j in kept] for row in self.rows]
        return replace(self, columns=[self.columns[j] for j in kept], rows=rows)


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


ROWS, LINES = 12, 10
"""Most rows of a table, its head aside, and most lines below it."""
WIDTH, CELL, LONGEST = 110, 24, 1900
"""Characters of a line, of a cell, and of the whole."""
DPI = 72
"""Of the picture, which a notebook keeps."""
STYLE = "overflow-x:auto;max-width:100%;font-size:90%"


@dataclass(frozen=True)
class Card:
    """Short description of an object: a heading, a table and a few lines, as text or as HTML.

    table: Its title is the heading, and its notes are the lines below it.
    verdict: The last lines, which stand however many others there are.
    """

    table: Table
    verdict: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Less than 25 lines of text."""
        cells = [[_cut(cell, CELL) for cell in row] for row in self._shown.cells]
        parts = [
            _cut(visible(self.table.title), WIDTH),
            *table_text(replace(self._shown, rows=cells)).splitlines(),
            *(_cut(visible(line), WIDTH) for line in self._notes),
            *map(visible, self.verdict),
        ]
        return _cut("\n".join(_cut(line, 2 * WIDTH) for line in parts), LONGEST)

    @property
    def html(self) -> str:
        """A heading, a table, and lines, as HTML."""
        lines = (escape(_cut(line, 4 * WIDTH)) for line in [*self._notes, *self.verdict])
        return "".join([
            f"<p><b>{escape(_cut(self.table.title, 2 * WIDTH))}</b></p>",
            *([table_html_styled(self._shown)] if self.table.rows else []),
            *(f"<div>{line}</div>" for line in lines),
        ])  # fmt: skip

    @property
    def _shown(self) -> Table:
        """The first rows, without the notes."""
        columns = self.table.columns if self.table.rows else ()
        return replace(self.table, columns=columns, rows=self.table.rows[:ROWS], notes=())

    @property
    def _notes(self) -> list[str]:
        rest = len(self.table.rows) - ROWS
        left_out = [f"... and {rest} more"] if rest > 0 else []
        return [*left_out, *self.table.notes[: LINES - len(self.verdict)]]


class WithCard(ABC):
    """An object that shows a `Card` of itself, and in a notebook a small picture."""

    @abstractmethod
    def card(self) -> Card:
        """Card that is shown where the object is printed."""

    def picture(self) -> Figure | None:
        """The figure that a notebook shows below; none by default."""
        return None

    def __repr__(self) -> str:
        return self.card().text

    def _repr_html_(self) -> str:
        try:
            figure = self.picture()
        except InputError:
            # Of a result that cannot be drawn the table is worth as much.
            figure = None
        image = "" if figure is None else _image(figure)
        return f'<div style="{STYLE}">{self.card().html}{image}</div>'


def _image(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    source = base64.b64encode(buffer.getvalue()).decode()
    return f'<img style="max-width:100%" src="data:image/png;base64,{source}">'


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
