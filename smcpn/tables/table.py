"""A table as data: columns with the format of their numbers, rows, a title, and notes below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan

from smcpn.errors import visible

Cell = str | float | None
"""A text; a number; or None, as nan, for a number that is not known."""
Fact = tuple[str, str]
"""Name of a figure, and the figure as text."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes
    ----------
    name : str
        Its head.
    form : str
        How a number is written, as of `format`.
    unit : str
        Written behind each number.
    missing : str
        Written for a number that is not known.
    words : bool
        Whether it holds text and is set left; numbers are set right.
    long : bool
        Whether its text may take several lines where there is room for them.
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

    Attributes
    ----------
    columns : sequence of Column
    rows : sequence of sequence of str, float or None
    title : str
    notes : sequence of str
        Sentences below the rows.
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
