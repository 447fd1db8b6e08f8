"""Records from files by the options of a command, without a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from smcpn.errors import InputError, listed
from smcpn.io.doses import doses_left_out
from smcpn.io.files import ColumnError
from smcpn.io.read import read_records
from smcpn.model.record import Record

CLOCKS = ("t", "time", "T", "Time")
"""Columns of times, where none is named."""


@dataclass(frozen=True)
class Source:
    """Names of the columns of a file that are inputs, outputs and time.

    inputs, outputs: Columns by names.
    time: Column of times; one of `CLOCKS` by default.
    dt: Sampling interval, where there is no such column.
    columns: Names of the columns of a text file without a line of names.
    time_unit: Unit that the equations count time in: that of ``dt``, or to which times are
        converted.
    experiment, delimiter, decimal: See `smcpn.read_records`.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    time: str | None = None
    dt: float | None = None
    columns: Sequence[str] | None = None
    time_unit: str | None = None
    experiment: str | None = None
    delimiter: str | None = None
    decimal: str | None = None

    def records(self, path: Path) -> list[Record]:
        """Read the experiments of a file.

        Raises `InputError` if it cannot be read, a column is missing, there is no time axis, or
        there are doses.
        """
        if self.time is not None and self.dt is not None:
            raise InputError("--time and --dt are given: give one of both", argument="dt")
        clocks = CLOCKS if self.time is None else (self.time,)
        for clock in clocks if self.dt is None else (None,):
            try:
                found = read_records(
                    path,
                    inputs=tuple(self.inputs.values()),
                    outputs=tuple(self.outputs.values()),
                    time=clock,
                    dt=self.dt,
                    t_unit=self.time_unit if clock is None else None,
                    to={clock: self.time_unit} if clock and self.time_unit else None,
                    header=self.columns,
                    experiment=self.experiment,
                    delimiter=self.delimiter,
                    decimal=self.decimal,
                )
            except ColumnError as error:
                if clock is None or error.argument != clock or self.time is not None:
                    raise
                continue
            left_out = doses_left_out(path, (*self.inputs.values(), *self.outputs.values()))
            if left_out:
                raise InputError(
                    f"{left_out}: leave the column out, or identify a model that takes doses"
                )
            return found
        raise InputError(
            f"{path} has no column {' or '.join(CLOCKS[:2])}: name the column of times with "
            "--time, or give the sampling interval with --dt",
            argument="time",
        )


def check_measured(record: Record, names: Sequence[str]) -> Record:
    """Refuse a record with an output of which nothing was measured."""
    empty = [name for name, y in zip(names, record.y.T, strict=True) if not np.isfinite(y).any()]
    if empty:
        raise InputError(
            f"{record.name} has no number in the column of {listed(empty)}: leave it out of "
            "--observe, as a hidden state"
        )
    return record
