"""Results as tables for other programs: dataframes, CSV, LaTeX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from math import isinf, isnan
from os import PathLike
from pathlib import Path
from typing import Any

from typing_extensions import override

from smcpn.arguments import FILE_NAME, FileName
from smcpn.card import Card, WithCard
from smcpn.columns import counted, csv_line
from smcpn.errors import InputError, one_of, visible
from smcpn.files import write_output
from smcpn.results.summary import ParameterRow

BACKENDS = ("pandas", "polars")
"""Libraries whose dataframes can be made."""
COLUMNS = (*(field.name for field in fields(ParameterRow)), "flag")
"""Of a table for programs; `ParameterRow` explains them."""
_ESCAPED = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
} | {one: f"\\{one}" for one in "&%$#_{}"}  # fmt: skip


class ParameterTable(WithCard, list[ParameterRow]):
    """The parameter table, one `ParameterRow` a parameter, and its forms for other programs."""

    @override
    def card(self) -> Card:
        head = ["parameter", "prior", "mean", "sd", "sd %", "2.5 %", "97.5 %", ""]
        rows = [[row.name, row.prior, *row.figures, row.flag] for row in self]
        return Card(f"Table of {counted(len(self), 'parameter')}", [head, *rows])

    def to_dataframe(self, backend: str = "pandas") -> Any:
        """Return the table as a dataframe, one row a parameter; see `WithTable.to_dataframe`."""
        return dataframe({name: [getattr(row, name) for row in self] for name in COLUMNS}, backend)

    def to_csv(self, path: str | PathLike[str]) -> Path:
        """Write the table to a file; see `WithTable.to_csv`."""
        file = FILE_NAME("path", path)
        rows = [COLUMNS, *([getattr(row, name) for name in COLUMNS] for row in self)]
        write_output(file, "".join(f"{csv_line(row)}\n" for row in rows).encode())
        return file

    def to_latex(self) -> str:
        """Return the table as LaTeX; see `WithTable.to_latex`."""
        if all(row.sd == 0.0 for row in self):
            header, rows = ["value"], [[row.mean] for row in self]
        else:
            header = ["mean", "sd", r"2.5\,\%", r"97.5\,\%"]
            rows = [[row.mean, row.sd, row.low, row.high] for row in self]
        digits = [5, 2, 5, 5]
        lines = [
            [latex_text(row.name), latex_text(row.prior), *map(latex_number, numbers, digits)]
            for row, numbers in zip(self, rows, strict=True)
        ]
        return "\n".join([
            rf"\begin{{tabular}}{{ll{'r' * len(header)}}}",
            r"\toprule",
            _line(["parameter", "prior", *header]),
            r"\midrule",
            *map(_line, lines),
            r"\bottomrule",
            r"\end{tabular}",
        ])  # fmt: skip


class WithTable(ABC):
    """A result that other programs can read: its draws, and its parameter table."""

    @abstractmethod
    def table(self) -> ParameterTable:
        """The parameter table as data."""

    @abstractmethod
    def to_dataframe(self, backend: str = "pandas") -> Any:
        """Return draws of equal weight as a dataframe, one row a draw, one column a parameter.

        All of them count the same, as those of emcee or ArviZ do: means, quantiles and histograms
        of the columns are those of the posterior. Weighted particles are resampled, as many as
        there are, by their weights and with a fixed seed; the particles themselves are ``values``
        and ``weights``. Chains are not resampled: the columns ``chain`` and ``draw`` come first. A
        maximum has one row. The parameter table is ``result.table().to_dataframe()``.

        Parameters
        ----------
        backend : {"pandas", "polars"}
            Library of the dataframe, which has to be installed.

        Raises
        ------
        InputError
            If it is not.
        """

    def to_csv(self, path: FileName) -> Path:
        """Write the parameter table to a file of comma-separated values, and return its path.

        Numbers have all their digits; the columns are those of `ParameterRow`, and ``flag``. A text
        that a spreadsheet would take for a formula has an apostrophe before it. The draws are
        ``result.to_dataframe().to_csv(path)``.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        return self.table().to_csv(path)

    def to_latex(self) -> str:
        r"""Return the parameter table as a LaTeX ``tabular`` with the rules of ``booktabs``.

        Characters that LaTeX reads otherwise are escaped; it needs ``\usepackage{booktabs}``.
        """
        return self.table().to_latex()


def dataframe(columns: Mapping[str, Any], backend: str) -> Any:
    """Return columns, lists or arrays, as a dataframe of pandas or polars.

    Raises
    ------
    InputError
        If the library is not known, or not installed.
    """
    try:
        module = import_module(one_of("backend", backend, BACKENDS))
    except ImportError:
        raise InputError(
            f"to_dataframe needs {backend}, which is not installed: pip install {backend}",
            argument="backend",
        ) from None
    return module.DataFrame(dict(columns))


def latex_text(text: str) -> str:
    """Return a text as LaTeX prints it."""
    return "".join(_ESCAPED.get(one, one) for one in visible(text))


def latex_number(value: float, digits: int) -> str:
    """Return a number of so many digits in LaTeX, a dash for none."""
    if isnan(value):
        return "--"
    sign = "-" if value < 0 else ""
    if isinf(value):
        return rf"${sign}\infty$"
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    power = rf" \times 10^{{{int(exponent)}}}" if exponent else ""
    return f"${mantissa}{power}$"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
