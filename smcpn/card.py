"""Short forms of an object: a few lines where it is printed, tables and a picture in HTML.

An interpreter prints ``repr``, a notebook shows ``_repr_html_``; both are made of one `Card`. The
text stays below 25 lines and 2000 characters, however large the object.
"""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from smcpn.columns import align
from smcpn.errors import InputError, visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

    Attributes
    ----------
    heading : str
        What the object is, in a line.
    table : sequence of sequence of str
        Rows of cells, the first one the head; may be empty.
    lines : sequence of str
        Warnings and hints below the table.
    verdict : sequence of str
        The last lines, which stand however many others there are.
    """

    heading: str
    table: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()
    verdict: Sequence[str] = ()

    @property
    def text(self) -> str:
        """Less than 25 lines of text."""
        rows = [[_cut(cell, CELL) for cell in row] for row in self._rows]
        table = align(rows, left=(0,)).splitlines() if rows else []
        lines = [_cut(visible(line), WIDTH) for line in self._lines]
        verdict = [visible(line) for line in self.verdict]
        parts = [_cut(visible(self.heading), WIDTH), *table, *self._left_out, *lines, *verdict]
        return _cut("\n".join(_cut(line, 2 * WIDTH) for line in parts), LONGEST)

    @property
    def html(self) -> str:
        """A heading, a table, and lines, as HTML."""
        return "".join(self._html())

    def _html(self) -> Iterator[str]:
        yield f"<p><b>{escape(_cut(self.heading, 2 * WIDTH))}</b></p>"
        if self._rows:
            head, *rows = self._rows
            yield "<table><thead>" + _row("th", head) + "</thead><tbody>"
            yield from (_row("td", row) for row in rows)
            yield "</tbody></table>"
        lines = [*self._left_out, *self._lines, *self.verdict]
        yield "".join(f"<div>{escape(_cut(line, 4 * WIDTH))}</div>" for line in lines)

    @property
    def _rows(self) -> Sequence[Sequence[str]]:
        return self.table[: ROWS + 1]

    @property
    def _lines(self) -> Sequence[str]:
        return self.lines[: LINES - len(self.verdict)]

    @property
    def _left_out(self) -> list[str]:
        rest = len(self.table) - len(self._rows)
        return [f"... and {rest} more"] if rest else []


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


def _row(tag: str, cells: Sequence[Any]) -> str:
    first, *others = cells
    rest = "".join(f'<{tag} style="text-align:right">{escape(str(one))}</{tag}>' for one in others)
    return f'<tr><{tag} style="text-align:left">{escape(str(first))}</{tag}>{rest}</tr>'


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
