"""Records from files of measurements: one of a file, or all experiments of several."""

from __future__ import annotations

import glob
import logging
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn import units
from smcpn.arguments import FileName, checked
from smcpn.columns import counted
from smcpn.errors import InputError, listed, shown, visible
from smcpn.io.axis import ROUNDED, TimeAxis
from smcpn.io.files import Columns, Layout, read_columns, read_text
from smcpn.io.parse import Channels, Slot
from smcpn.io.table import DECIMALS, TextTable
from smcpn.model.problem import Problem
from smcpn.model.record import Record

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

UNIFORM = 1e-3
"""Share of the interval within which times count as equally spaced: a file rounds them."""
NEARLY, MOSTLY = 0.1, 0.9
"""Sampling has gaps, and is not irregular, where most intervals are nearly the median."""


def converted(values: Array, unit: str, to: str) -> Array:
    """Convert values from a unit to another, ``"degC"`` to ``"K"`` with its offset.

    Raises
    ------
    InputError
        If a unit is not known, or they measure different things.
    """
    return np.asarray(units.conversion(unit, to)(values), dtype=float)


def time_axis(t: Array) -> dict[str, Any]:
    """Return the arguments of `Record` for measured times in seconds: dt where it can be."""
    spacing = (t[-1] - t[0]) / (len(t) - 1)
    off = np.abs(t - t[0] - spacing * np.arange(len(t))).max()
    if off <= UNIFORM * spacing:
        return {"dt": float(f"{spacing:.12g}"), "start": float(t[0])}
    return {"t": t}


def told_gaps(record: Record) -> Record:
    """Return the record; log a warning where rows are missing from it.

    Its input is not known there, and what the hold puts in its place passes for measured.
    """
    if record.uniform or not record.n_inputs:
        return record
    steps = np.diff(record.t)
    usual = float(np.median(steps))
    gaps = np.flatnonzero(steps > (1.0 + ROUNDED) * usual)
    if len(gaps) and (np.abs(steps - usual) <= NEARLY * usual).mean() >= MOSTLY:
        at = gaps[steps[gaps].argmax()]
        more = f", and {counted(len(gaps) - 1, 'shorter gap')}" if len(gaps) > 1 else ""
        did = "held" if record.hold == "zoh" else "drawn as a line"
        sentence = (
            f"{record.name}: rows are missing between samples {at} and {at + 1}, "
            f"{steps[at] / usual:.3g} intervals apart{more}: the input is {did} over a gap. If it "
            f"moved there, make two records, of the samples before {at + 1} and of those from it"
        )
        _log.warning("%s", visible(sentence))
    return record


def matching(path: Path) -> list[Path]:
    """Return the files that a name with ``*``, ``?`` or ``[]`` stands for, run2 before run10.

    Raises
    ------
    InputError
        If there is none.
    """
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = sorted(map(Path, glob.glob(str(path))), key=_natural)
    if not found:
        raise InputError(f"no file is called {path}: correct the pattern")
    return found


def _natural(path: Path) -> list[Any]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", str(path))]


def chosen(path: Path, found: Sequence[Columns], labels: Sequence[str] | None) -> list[Columns]:
    """Return the experiments of these labels, all without any.

    Raises
    ------
    InputError
        If there is no experiment of a label.
    """
    if labels is None:
        return list(found)
    known = {one.label: one for one in found}
    for label in labels:
        if known.keys() == {""}:
            raise InputError(
                f"{path} has one experiment: leave experiments out, or name the column that tells "
                'them apart, experiment = "..."',
                argument="experiments",
            )
        if label not in known:
            raise InputError(
                f"{path} has no experiment '{label}': choose from {listed(known)}",
                argument="experiments",
            )
    return [known[label] for label in labels]


Names = str | Sequence[str]


@checked
def read_record(
    path: FileName,
    *,
    outputs: Names = (),
    inputs: Names = (),
    time: str | None = None,
    dt: float | None = None,
    hold: str = "foh",
    to: Mapping[str, str] | None = None,
    name: str | None = None,
    header: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
) -> Record:
    """Return the record in a file of one experiment.

    Parameters
    ----------
    path : str or path
        CSV and other text (.csv, .txt, .tsv, .dat), MAT, HDF5 (.h5, .hdf5) or NPZ. How a text is
        written is guessed and told in one line of the log: separator, decimal mark, encoding, lines
        before the names, units in brackets or in a line below.
    outputs, inputs : str or sequence of str
        Columns of y, where ``nan``, ``-`` or nothing is a missing sample, and of u. In MAT and HDF5
        files ``"rig.force"`` is in a structure or a group, ``"y[0]"`` the first column of a matrix.
    time : str, optional
        Column of seconds, of another unit that the file states, or of dates, as
        2026-01-31 12:00:00.5, of which the first is at 0. Give either it or ``dt``.
    dt, hold
        See `Record`. Times within 0.1 % of an interval of equal spacing count as equally spaced.
    to : mapping of str to str, optional
        Units that columns are converted to, from that which the file states: ``{"x": "m"}``. Times
        become seconds, or the unit that the model counts them in: ``{"date": "day"}``.
    name : str, optional
        That of the file by default.
    header : sequence of str, optional
        Names of the columns of a text that has no line of names.
    delimiter, decimal : str, optional
        Of a text, where the guess is wrong; the delimiter ``" "`` is any white space.

    Raises
    ------
    InputError
        If the file cannot be read, can be read in two ways, or has several experiments; it names
        the line, the column, the value and what to do.

    Examples
    --------
    >>> record = smcpn.read_record(  # doctest: +SKIP
    ...     "rig.csv", time="t", inputs="force", outputs="position", to={"position": "m"})
    """
    options = _Options.of(outputs, inputs, time, dt, hold, to, header, delimiter, decimal)
    found = options.records(Path(path), name or Path(path).name, None)
    if len(found) > 1:
        raise InputError(
            f"{path} has {len(found)} experiments: read them as a list by smcpn.read_records",
            argument="path",
        )
    return found[0]


@checked
def read_records(
    paths: FileName | Sequence[FileName],
    *,
    experiment: str | None = None,
    experiments: Sequence[str | int] | None = None,
    outputs: Names = (),
    inputs: Names = (),
    time: str | None = None,
    dt: float | None = None,
    hold: str = "foh",
    to: Mapping[str, str] | None = None,
    header: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
) -> list[Record]:
    """Return the records of several experiments with one system, for `Problem`.

    Parameters
    ----------
    paths : str, path or sequence of these
        Files of one format; ``"runs/*.csv"`` stands for all that match, run2 before run10.
    experiment : str, optional
        Where a file holds several experiments: the column that tells them apart. In MAT and HDF5
        files also the array of structures, or the group of groups, that has the columns of an
        experiment in each member. Cells of arrays hold one experiment in each without it.
    experiments : sequence of str or int, optional
        Labels of those that are read, all by default.
    outputs, inputs, time, dt, hold, to, header, delimiter, decimal
        See `read_record`.

    Raises
    ------
    InputError
        As `read_record`, and if no file matches or there is no such experiment.

    Examples
    --------
    >>> records = smcpn.read_records(  # doctest: +SKIP
    ...     "all.csv", experiment="run", time="t", inputs="force", outputs="position")
    """
    options = _Options.of(
        outputs, inputs, time, dt, hold, to, header, delimiter, decimal, experiment
    )
    labels = None if experiments is None else [str(label) for label in experiments]
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [file for one in given for file in matching(Path(one))]
    if not files:
        raise InputError("paths is empty: name at least one file", argument="paths")
    return [record for file in files for record in options.records(file, file.name, labels)]


@dataclass(frozen=True)
class _Options:
    """What is read of a file, and how."""

    layout: Layout
    dt: float | None
    hold: str
    to: Mapping[str, str]

    @classmethod
    def of(
        cls,
        outputs: Names,
        inputs: Names,
        time: str | None,
        dt: float | None,
        hold: str,
        to: Mapping[str, str] | None,
        header: Sequence[str] | None,
        delimiter: str | None,
        decimal: str | None,
        experiment: str | None = None,
    ) -> _Options:
        """Check arguments.

        Raises
        ------
        InputError
            If there is no time axis or no column, or a column is named twice.
        """
        if (time is None) == (dt is None):
            raise InputError(
                "give either time, a column, or dt, the sampling interval in seconds",
                argument="time",
            )
        u, y = ((one,) if isinstance(one, str) else tuple(one) for one in (inputs, outputs))
        names = None if header is None else tuple(header)
        layout = Layout(time, u, y, names, delimiter, decimal, experiment)
        if not (u or y):
            raise InputError("outputs and inputs are empty: name columns", argument="outputs")
        for number, column in enumerate(layout.wanted):
            if column in layout.wanted[:number]:
                raise InputError(f"column {shown(column)} is used twice: name it once")
        for column in to or ():
            if column not in layout.wanted:
                raise InputError(
                    f"to names {shown(column)}, which is no column that is read: "
                    f"choose from {listed(layout.wanted)}",
                    argument="to",
                )
        check_marks(delimiter, decimal)
        return cls(layout, dt, hold, to or {})

    def records(self, path: Path, name: str, labels: Sequence[str] | None) -> list[Record]:
        """Records of a file, named by it and by their experiment."""
        found = chosen(path, read_columns(path, self.layout), labels)
        several = len(found) > 1 or self.layout.experiment is not None
        return [
            self._record(path, one, f"{name} [{one.label}]" if several else name) for one in found
        ]

    def _record(self, path: Path, found: Columns, name: str) -> Record:
        layout = self.layout
        if layout.time is None:
            axis: dict[str, Any] = {"dt": self.dt}
        else:
            assert found.t is not None
            unit = found.units.get(layout.time, "s")
            to = self.to.get(layout.time, "s")
            with naming(path, layout.time):
                axis = time_axis(found.t if unit == to else converted(found.t, unit, to))
        both: dict[str, Array] = {}
        for columns, values in ((layout.inputs, found.u), (layout.outputs, found.y)):
            for j, column in enumerate(columns):
                both[column] = self._converted(path, column, values[:, j], found.units)
        noted = {self.to.get(one, found.units.get(one, "")) for one in layout.outputs}
        u, y = (
            np.column_stack([both[one] for one in names]) if names else None
            for names in (layout.inputs, layout.outputs)
        )
        unit = noted.pop() if len(noted) == 1 else ""
        return told_gaps(Record(u=u, y=y, **axis, hold=self.hold, y_unit=unit, name=name))

    def _converted(self, path: Path, column: str, values: Array, noted: Mapping[str, str]) -> Array:
        to = self.to.get(column)
        if to is None:
            return values
        if column not in noted:
            raise InputError(
                f"to converts {shown(column)}, and {path} states no unit of it: convert it "
                "yourself, or write its unit into the header, as 'x [mm]'",
                argument="to",
            )
        with naming(path, column):
            return converted(values, noted[column], to)


@contextmanager
def naming(path: Path, column: str) -> Generator[None]:
    """Add file and column to an `InputError` about the values of a column."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}, column '{column}': {error}") from error


def check_marks(delimiter: str | None, decimal: str | None) -> None:
    """Refuse a separator of columns that is not one character, and an unknown decimal mark.

    Raises
    ------
    InputError
    """
    if delimiter is not None and len(delimiter) != 1:
        raise InputError(
            f"delimiter is {shown(delimiter)}: give one character, ',' ';' '\\t' '|' or ' '",
            argument="delimiter",
        )
    if decimal is not None and decimal not in DECIMALS:
        raise InputError(f"decimal is {shown(decimal)}: give '.' or ','", argument="decimal")


def following_record(path: Path, problem: Problem) -> Record:
    """Return the samples of a text file that follow the last record of a problem.

    Columns are called as the lines of a stream are, see `Channels`.

    Raises
    ------
    InputError
        If the file cannot be read, a line is no sample (it is named), or the times of the samples
        do not fit the interval of the record.
    """
    channels, last = Channels.of(problem), problem.records[-1]
    columns = _columns_by_slot(path, channels)
    header = None if columns[1] is None else tuple(columns[1])
    slots = columns[0]
    u = [slots["u", j] for j in range(len(channels.inputs))]
    measured = {j: slots["y", j] for j in range(len(channels.outputs)) if ("y", j) in slots}
    layout = Layout(slots.get(("t", 0)), tuple(u), tuple(measured.values()), header)
    (found,) = read_text(path, layout)
    y = np.full((len(found.y), len(channels.outputs)), np.nan)
    y[:, list(measured)] = found.y
    if last.dt is None:
        if found.t is None:
            raise InputError(f"{path} has no column t: the record it continues has times")
        return Record(u=found.u, y=y, t=found.t, hold=last.hold, name=str(path))
    if found.t is not None:
        _require_interval(path, found.t, last)
    return Record(u=found.u, y=y, dt=last.dt, hold=last.hold, name=str(path))


def _columns_by_slot(path: Path, channels: Channels) -> tuple[dict[Slot, str], list[str] | None]:
    """Columns by what is in them; and names for them, where the file has none."""
    names = list(TextTable.open(path, tuple(channels.slots)).dialect.names)
    order: list[Slot] = list(channels.in_order)
    if not any(names):
        slots: list[Slot] = [("t", 0), *order] if len(names) == len(order) + 1 else order
        if len(names) != len(slots):
            raise InputError(
                f"{path} has {counted(len(names), 'column')} without names instead of "
                f"{len(slots)}: name them in the first line"
            )
        given = [f"{kind}{j}" for kind, j in slots]
        return dict(zip(slots, given, strict=True)), given
    known = [(channels.slots[name], name) for name in names if name in channels.slots]
    missing = channels.missing_from({slot for slot, _ in known})
    if missing:
        raise InputError(
            f"{path} names {missing} ({listed(names)}): name every column by its input, output or t"
        )
    if len(dict(known)) < len(known):
        raise InputError(f"{path} names a column twice ({listed(names)}): rename one")
    return dict(known), None


def _require_interval(path: Path, times: Array, last: Record) -> None:
    """Refuse times that leave a gap: samples would be taken for later ones than they are."""
    axis = TimeAxis.after(last)
    expected = axis.coming(len(times), None)
    wrong = np.flatnonzero(np.abs(times - expected) >= ROUNDED * axis.interval)
    if len(wrong):
        k = int(wrong[0])
        raise InputError(
            f"{path}: t is {times[k]:g} at sample {k}, {expected[k]:g} follows the record at its "
            f"interval of {axis.interval:g} s: fill gaps with empty outputs, or leave out t"
        )
