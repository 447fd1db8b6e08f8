"""Records from files by the options of a command, without a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smcpn.config.files import ColumnError, Columns, Layout, read_columns
from smcpn.config.records import converted, time_axis
from smcpn.errors import InputError, listed
from smcpn.io.parse import BadLineError, content_lines, is_number, split_fields
from smcpn.model.record import Record

CLOCKS = ("t", "time", "T", "Time")
"""Columns of times, where none is named."""
DELIMITERS = (",", ";", "\t")
TEXT = (".csv", ".txt", ".tsv", ".dat")


@dataclass(frozen=True)
class Source:
    """Where the columns of a record are.

    Attributes
    ----------
    inputs, outputs : mapping of str to str
        Columns by names.
    time : str or None
        Column of times; one of `CLOCKS` by default.
    dt : float or None
        Sampling interval, s, where there is no such column.
    columns : sequence of str, optional
        Names of the columns of a text file without a line of names.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    time: str | None = None
    dt: float | None = None
    columns: Sequence[str] | None = None

    def record(self, path: Path) -> Record:
        """Read a file.

        Raises
        ------
        InputError
            If it cannot be read, a column is missing, or there is no time axis.
        """
        if self.time is not None and self.dt is not None:
            raise InputError("--time and --dt are given: give one of both", argument="dt")
        found, clock = self._read(path)
        if clock is None:
            axis: dict[str, Any] = {"dt": self.dt}
        else:
            assert found.t is not None
            unit = found.units.get(clock, "s")
            axis = time_axis(found.t if unit == "s" else converted(found.t, unit, "s"))
        units = [found.units.get(column, "") for column in self.outputs.values()]
        return Record(
            u=found.u if self.inputs else None,
            y=found.y,
            **axis,
            name=path.name,
            y_unit=units[0] if len(set(units)) == 1 else "",
        )

    def _read(self, path: Path) -> tuple[Columns, str | None]:
        """Return the columns, and the name of that of the times."""
        delimiter, decimal = self._marks(path)
        for clock in self._clocks():
            layout = Layout(
                clock,
                tuple(self.inputs.values()),
                tuple(self.outputs.values()),
                None if self.columns is None else tuple(self.columns),
                delimiter,
                decimal,
            )
            try:
                return read_columns(path, layout), clock
            except ColumnError as error:
                if clock is None or error.argument != clock or self.time is not None:
                    raise
        raise InputError(
            f"{path} has no column {' or '.join(CLOCKS[:2])}: name the column of times with "
            "--time, or give the sampling interval in seconds with --dt",
            argument="time",
        )

    def _clocks(self) -> tuple[str | None, ...]:
        if self.dt is not None:
            return (None,)
        return CLOCKS if self.time is None else (self.time,)

    def _marks(self, path: Path) -> tuple[str, str]:
        """Separator of columns and decimal mark of a text file, as its first lines have them."""
        if path.suffix.lower() not in TEXT or not path.is_file():
            return ",", "."
        lines = [line for _, line in content_lines(path)[:2]] or [""]
        delimiter = max(DELIMITERS, key=lambda mark: (lines[0].count(mark), mark == ","))
        decimal = "," if delimiter != "," and "." not in lines[-1] and "," in lines[-1] else "."
        try:
            first = split_fields(lines[0], delimiter)
        except BadLineError:
            first = []
        if self.columns is None and any(first) and all(is_number(one, decimal) for one in first):
            raise InputError(
                f"{path} begins with numbers: name its {len(first)} columns with --columns, as "
                "--columns t,x,v",
                argument="columns",
            )
        return delimiter, decimal


def check_measured(record: Record, names: Sequence[str]) -> Record:
    """Refuse a record with an output of which nothing was measured."""
    empty = [name for name, y in zip(names, record.y.T, strict=True) if not np.isfinite(y).any()]
    if empty:
        raise InputError(
            f"{record.name} has no number in the column of {listed(empty)}: leave it out of "
            "--observe, as a hidden state"
        )
    return record
