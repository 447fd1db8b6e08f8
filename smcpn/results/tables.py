"""Results as tables for other programs: dataframes, CSV, LaTeX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

from typing_extensions import override

from smcpn.base.arguments import FILE_NAME, FileName
from smcpn.base.files import write_output
from smcpn.base.tables import Card, Column, Table, WithCard, csv_line, table_latex, words
from smcpn.errors import InputError, counted, one_of
from smcpn.model.ode import ODE
from smcpn.results.summary import ParameterRow, shortened

BACKENDS = ("pandas", "polars")
"""Libraries whose dataframes can be made."""
COLUMNS = (*(field.name for field in fields(ParameterRow)), "flag")
"""Of a table for programs; `ParameterRow` explains them."""


FIGURES = ("parameter", "mode", "mean", "sd", "sd %", "2.5 %", "97.5 %", "")
"""Columns of the parameter table that a short text has."""


class ParameterTable(WithCard, list[ParameterRow]):
    """The parameter table, one `ParameterRow` a parameter, and its forms for other programs."""

    def as_table(self, ode: ODE | None = None, **more: Mapping[str, float]) -> Table:
        """Return the table as it is shown; with an ODE, the entries of a long vector in a row.

        Parameters
        ----------
        ode : ODE, optional
        mode, truth : mapping of str to float, optional
            Further columns, by parameter.
        """
        known = {name: Column(name, ".5g") for name in more}
        columns = [
            words("parameter"), words("prior", long=True), *known.values(), Column("mean", ".5g"),
            Column("sd", ".2g"), Column("sd %", ".2g"), Column("2.5 %", ".5g"),
            Column("97.5 %", ".5g"), words(),
        ]  # fmt: skip
        rows = [
            [row.name, row.prior, *(one.get(row.name) for one in more.values()), *row.figures,
             row.flag]
            for row in self
        ]  # fmt: skip
        table = Table(columns, rows)
        return table if ode is None else shortened(table, ode)

    def without_functions(self, ode: ODE, **more: Mapping[str, float]) -> Table:
        """Return the table as it is shown, without the parameters of unknown functions."""
        rows = ParameterTable(row for row in self if row.name not in ode.priors)
        return rows.as_table(ode, **more)

    @override
    def card(self) -> Card:
        title = f"Table of {counted(len(self), 'parameter')}"
        return Card(replace(self.as_table(), title=title))

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
            name, prior, mean = self.as_table().select("parameter", "prior", "mean").columns
            rows = [[row.name, row.prior, row.mean] for row in self]
            return table_latex(Table((name, prior, replace(mean, name="value")), rows))
        shown = "parameter", "prior", "mean", "sd", "2.5 %", "97.5 %"
        return table_latex(self.as_table().select(*shown))


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
