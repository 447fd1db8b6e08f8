"""Short forms of an object: a few lines where it is printed, tables and a picture in HTML.

An interpreter prints ``repr``, a notebook shows ``_repr_html_``; both are made of one `Card`. The
text stays below 25 lines and 2000 characters, however large the object.
"""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

from smcpn.errors import InputError, visible
from smcpn.tables.html import table_html_styled
from smcpn.tables.table import Table
from smcpn.tables.text import table_text

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
    table : Table
        Its title is the heading, and its notes are the lines below it.
    verdict : sequence of str
        The last lines, which stand however many others there are.
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
