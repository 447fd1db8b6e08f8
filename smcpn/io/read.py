"""Records from files of measurements: one of a file, or all experiments of several."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import FileName, checked
from smcpn.base.units import conversion, duration, time_unit
from smcpn.errors import InputError, counted, listed
from smcpn.io.axis import ROUNDED, TimeAxis
from smcpn.io.channels import Channels, Slot
from smcpn.io.dialect import check_marks
from smcpn.io.doses import FIELDS
from smcpn.io.files import Columns, Layout, read_columns, read_text
from smcpn.io.table import TextTable
from smcpn.model.problem import Problem
from smcpn.model.record import BESIDE, Record
from smcpn.model.units_and_times import Names, RecordColumns, converted, naming, told_unit

Array = NDArray[np.float64]


def matching(path: Path) -> list[Path]:
    """Return the files that a name with ``*``, ``?`` or ``[]`` stands for, run2 before run10.

    Raises `InputError` if there is none.
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

    Raises `InputError` if there is no experiment of a label.
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


@checked
def read_record(
    path: FileName,
    *,
    outputs: Names = (),
    inputs: Names = (),
    time: str | None = None,
    dt: float | None = None,
    t_unit: str | None = None,
    hold: str = "foh",
    to: Mapping[str, str] | None = None,
    y_sd: Names = (),
    y_lower: Names = (),
    y_upper: Names = (),
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
        before the names, units in brackets or in a line below. MAT and HDF5 are read in a process
        of its own, which a damaged file may crash.
    outputs, inputs : str or sequence of str
        Columns of y, where ``nan``, ``-`` or nothing is a missing sample, and of u; samples whose
        ``MDV`` or ``EVID``, if it is no column named here, is not 0 have no y; in a text of
        one column so is an empty line, but for those at the end. In MAT and HDF5
        files ``"rig.force"`` is in a structure or a group, ``"y[0]"`` the first column of a matrix.
    time : str, optional
        Column of numbers, in seconds or in another unit that the file states, or of dates, as
        2026-01-31 12:00:00.5, 31.01.2026 12:00 or 20260131, of which the first is at 0 and which
        are counted in
        seconds unless ``to`` says another unit. Give either it or ``dt``.
    dt, hold
        See `Record`. Times within 0.1 % of an interval of equal spacing count as equally spaced.
    t_unit : str, optional
        Unit of ``dt``, or of a column of times of which the file states none; seconds by default.
    to : mapping of str to str, optional
        Units that columns are converted to, from that which the file states: ``{"x": "m"}``, or
        ``{"date": "day"}`` for a model that counts days. Nothing else is converted.
    y_sd, y_lower, y_upper : str or sequence of str
        Columns of what `Record` has beside y, in the unit of their output; one for each, "" where
        there is none.
    name : str, optional
        That of the file by default.
    header : sequence of str, optional
        Names of the columns of a text that has no line of names.
    delimiter : str, optional
        What separates columns of a text, where the guess is wrong; ``" "`` is any white space.
    decimal : {".", ","}, optional
        Decimal mark of a text, where the guess is wrong.

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
    beside = {"y_sd": y_sd, "y_lower": y_lower, "y_upper": y_upper}
    wanted = RecordColumns.of(outputs, inputs, time, dt, t_unit, hold, to, beside)
    options = _Options.of(wanted, header, delimiter, decimal)
    found = options.records(Path(path), name or Path(path).name, None)
    if len(found) > 1:
        raise InputError(
            f"{path} has {len(found)} experiments: read them as a list by smcpn.read_records",
            argument="path",
        )
    return told_unit(found, wanted.states_unit)[0]


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
    t_unit: str | None = None,
    hold: str = "foh",
    to: Mapping[str, str] | None = None,
    y_sd: Names = (),
    y_lower: Names = (),
    y_upper: Names = (),
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
        Column that tells the experiments of a file apart, where it holds several. In MAT and HDF5
        files also the array of structures, or the group of groups, that has the columns of an
        experiment in each member. Cells of arrays hold one experiment in each without it.
    experiments : sequence of str or int, optional
        Labels of those that are read, all by default.
    outputs, inputs, time, dt, t_unit, hold, to, y_sd, y_lower, y_upper, header, delimiter, decimal
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
    beside = {"y_sd": y_sd, "y_lower": y_lower, "y_upper": y_upper}
    wanted = RecordColumns.of(outputs, inputs, time, dt, t_unit, hold, to, beside)
    options = _Options.of(wanted, header, delimiter, decimal, experiment)
    labels = None if experiments is None else [str(label) for label in experiments]
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = [file for one in given for file in matching(Path(one))]
    if not files:
        raise InputError("paths is empty: name at least one file", argument="paths")
    found = [record for file in files for record in options.records(file, file.name, labels)]
    return told_unit(found, wanted.states_unit)


@dataclass(frozen=True)
class _Options:
    """Options of reading a file: its parts, and how they are written."""

    layout: Layout
    wanted: RecordColumns

    @classmethod
    def of(
        cls,
        wanted: RecordColumns,
        header: Sequence[str] | None,
        delimiter: str | None,
        decimal: str | None,
        experiment: str | None = None,
    ) -> _Options:
        """Check arguments.

        Raises `InputError` if a separator or decimal mark is none.
        """
        check_marks(delimiter, decimal)
        names = None if header is None else tuple(header)
        columns = (wanted.time, wanted.inputs, wanted.measured)
        return cls(Layout(*columns, names, delimiter, decimal, experiment), wanted)

    def records(self, path: Path, name: str, labels: Sequence[str] | None) -> list[Record]:
        """Records of a file, named by it and by their experiment."""
        found = chosen(path, read_columns(path, self.layout), labels)
        several = len(found) > 1 or self.layout.experiment is not None
        return [
            self.wanted.record(str(path), f"{name} [{one.label}]" if several else name, one)
            for one in found
        ]


def following_record(path: Path, problem: Problem) -> Record:
    """Return the samples of a text file that follow the last record of a problem.

    Columns are called as the lines of a stream are, see `Channels`.

    Raises `InputError` if the file cannot be read, a line is no sample (it is named), or the times
    of the samples do not fit the interval of the record.
    """
    channels, last = Channels.of(problem), problem.records[-1]
    slots, header = _columns_by_slot(path, channels)
    numbers = {slot: name for slot, name in slots.items() if slot[0] in ("y", *BESIDE)}
    inputs = tuple(slots["u", j] for j in range(len(channels.inputs)))
    layout = Layout(slots.get(("t", 0)), inputs, tuple(numbers.values()), header)
    (found,) = read_text(path, layout)
    convert = channels.conversions({slot: found.units.get(slots[slot], "") for slot in slots})
    values: dict[str, Any] = {
        kind: np.full((len(found.y), len(channels.outputs)), np.nan) for kind, _ in numbers
    }
    for (kind, j), column in zip(numbers, found.y.T, strict=True):
        values[kind][:, j] = convert.get((kind, j), np.asarray)(column)
    t, clock, moved = found.t, layout.time or "", float
    unit = time_unit(found.units.get(clock, last.t_unit))
    if t is not None and unit != last.t_unit:
        with naming(str(path), clock):
            moved = conversion(unit, last.t_unit)
            t = converted(t, unit, last.t_unit)
    if last.dt is None and t is None:
        raise InputError(f"{path} has no column t: the record it continues has times")
    if last.dt is not None and t is not None:
        _require_interval(path, t, last)
    for kind in (name for name in BESIDE if getattr(last, name) is not None):
        values.setdefault(kind, np.full(values["y"].shape, np.nan))
    if channels.doses is not None and ("dose", 0) in slots:
        columns = {one: FIELDS[j] for (kind, j), one in slots.items() if kind == "dose"}
        columns |= {clock: "time"} if clock else {}
        values["doses"] = channels.doses.read_file(path, columns, moved)
    axis: dict[str, Any] = {"t": t} if last.dt is None else {"dt": last.dt}
    return Record(u=found.u, **values, **axis, t_unit=last.t_unit, hold=last.hold, name=str(path))


def _columns_by_slot(
    path: Path, channels: Channels
) -> tuple[dict[Slot, str], tuple[str, ...] | None]:
    """Columns by what is in them; and names for them, where the file has none."""
    labels = [name for name, (kind, _) in channels.slots.items() if kind == "dose"]
    names = list(TextTable.open(path, tuple(channels.slots), labels=labels).dialect.names)
    order: list[Slot] = list(channels.in_order)
    if not any(names):
        slots: list[Slot] = [("t", 0), *order] if len(names) == len(order) + 1 else order
        if len(names) != len(slots):
            raise InputError(
                f"{path} has {counted(len(names), 'column')} without names instead of "
                f"{len(slots)}: name them in the first line"
            )
        given = tuple(f"{kind}{j}" for kind, j in slots)
        return dict(zip(slots, given, strict=True)), given
    known = [(channels.slots[name], name) for name in names if name in channels.slots]
    missing = channels.missing_from({slot for slot, _ in known}, whole=True)
    if missing:
        raise InputError(f"{path} names {missing} ({listed(names)}): {channels.remedy}")
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
            f"interval of {duration(axis.interval, last.t_unit)}: fill gaps with empty outputs, "
            "or leave out t"
        )
