"""Records of measured columns: their units, even spacing, and rows that are missing."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from smcpn.base import units
from smcpn.errors import InputError, counted, listed, shown, visible
from smcpn.model.record import Record

Array = NDArray[np.float64]
_log = logging.getLogger(__name__)

UNIFORM = 1e-3
"""Share of the interval within which times count as equally spaced: a file rounds them."""
NEARLY, MOSTLY = 0.1, 0.9
"""Sampling has gaps, and is not irregular, where most intervals are nearly the median."""
DATED = "s since the first"
"""Unit of dates and durations, whose source states none."""
EARLIEST, LATEST = 1800, 2200_00_00_00_00_00
"""Year, and number, between which numbers may be dates."""
GAP = 1.5
"""Usual intervals from which on a row is missing."""


Names = str | Sequence[str]


@dataclass(frozen=True)
class MeasuredSamples:
    """Samples of an experiment, and the units that their source states, by column.

    t: (T,)
    u: (T, n_inputs)
    y: (T, n_outputs)
    units: Of dates and durations that is `DATED`.
    """

    t: Array | None
    u: Array
    y: Array
    units: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, rows: NDArray[np.int_]) -> Self:
        """Return some of the samples, whose places rise."""
        if len(rows) == len(self.y):
            return self
        t = None if self.t is None else self.t[rows]
        return replace(self, t=t, u=self.u[rows], y=self.y[rows])


@dataclass(frozen=True)
class RecordColumns:
    """The columns that make a record, and how the model sees them.

    time: Column of times; there is ``dt`` without.
    dt, t_unit, hold, to: See `smcpn.read_record`.
    """

    time: str | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    beside: BesideColumns
    dt: float | None
    t_unit: str | None
    hold: str
    to: Mapping[str, str]

    @classmethod
    def of(
        cls,
        outputs: Names,
        inputs: Names,
        time: str | None,
        dt: float | None,
        t_unit: str | None,
        hold: str,
        to: Mapping[str, str] | None,
        beside: Mapping[str, Names],
    ) -> RecordColumns:
        """Check arguments."""
        if (time is None) == (dt is None):
            raise InputError(
                "give either time, a column (an index of pandas becomes one by df.reset_index()), "
                "or dt, the sampling interval",
                argument="time",
            )
        u, y = map(_as_tuple, (inputs, outputs))
        around = BesideColumns({name: _as_tuple(one) for name, one in beside.items() if one})
        around.check(len(y))
        wanted = cls(time, u, y, around, dt, t_unit, hold, to or {})
        if not (u or y):
            raise InputError("outputs and inputs are empty: name columns", argument="outputs")
        for number, column in enumerate(wanted.columns):
            if column in wanted.columns[:number]:
                raise InputError(f"column {shown(column)} is used twice: name it once")
        for column in wanted.to:
            if column not in wanted.columns:
                raise InputError(
                    f"to names {shown(column)}, which is no column that is read: "
                    f"choose from {listed(wanted.columns)}",
                    argument="to",
                )
        return wanted

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns of numbers that are wanted."""
        return (*(() if self.time is None else (self.time,)), *self.inputs, *self.measured)

    @property
    def measured(self) -> tuple[str, ...]:
        """Columns of outputs, and of what is known beside them."""
        return (*self.outputs, *self.beside.columns)

    @property
    def states_unit(self) -> bool:
        """True if the user says in which unit the model counts time."""
        return self.t_unit is not None or self.time in self.to

    def record(self, source: str, name: str, measured: MeasuredSamples) -> Record:
        """Return the record of columns of a source, and tell rows that are missing."""
        if self.time is None:
            axis: dict[str, Any] = {"dt": self.dt, "t_unit": self.t_unit or "s"}
        else:
            assert measured.t is not None
            noted = measured.units.get(self.time, "")
            unit = stated_unit(self.t_unit, noted, source)
            t = dates_as_seconds(measured.t, noted or self.t_unit or "", f"column '{self.time}'")
            with naming(source, self.time):
                axis = time_axis(t, unit, self.to.get(self.time) or self.t_unit)
        u = self._converted(source, self.inputs, measured.u, measured.units)
        q, noted = len(self.outputs), measured.units
        y = self._converted(source, self.outputs, measured.y[:, :q], noted)
        units = [self.to.get(one, noted.get(one, "")) for one in self.outputs]
        pairs = [(noted.get(one, ""), self.to.get(one, "")) for one in self.outputs]
        beside = self.beside.values(measured.y[:, q:], pairs, noted)
        return told_gaps(
            Record(u=u, y=y, **axis, hold=self.hold, y_unit=units, name=name, **beside)
        )

    def _converted(
        self, source: str, columns: Sequence[str], values: Array, noted: Mapping[str, str]
    ) -> Array | None:
        if not columns:
            return None
        found = [values[:, j] for j in range(len(columns))]
        for j, column in enumerate(columns):
            to = self.to.get(column)
            if to is None:
                continue
            if column not in noted:
                raise InputError(
                    f"to converts {shown(column)}, and {source} states no unit of it: convert it "
                    "yourself, or state its unit, in a header as 'x [mm]'",
                    argument="to",
                )
            with naming(source, column):
                found[j] = converted(found[j], noted[column], to)
        return np.column_stack(found)


@dataclass(frozen=True)
class BesideColumns:
    """Columns of y_sd, y_lower and y_upper, by these names: one for each output, "" for none."""

    by_name: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def check(self, n_outputs: int) -> None:
        """Refuse another number of columns than there are outputs."""
        for name, columns in self.by_name.items():
            if len(columns) != n_outputs:
                raise InputError(
                    f"{name} has {counted(len(columns), 'column')} for "
                    f"{counted(n_outputs, 'output')}: name one for each, '' where there is none",
                    argument=name,
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """All of them, in the order in which `values` takes them."""
        return tuple(one for columns in self.by_name.values() for one in columns if one)

    def values(
        self, measured: Array, units: Sequence[tuple[str, str]], noted: Mapping[str, str]
    ) -> dict[str, Any]:
        """Arguments of `Record` from columns (T, .), in the units of the outputs.

        units: Unit of each output in the source, and that to convert it to; either may be "".
        noted: Units that the source states, by column; that of its output where it states none.
        """
        found, left = dict[str, Array](), iter(measured.T)
        for name, columns in self.by_name.items():
            found[name] = np.full((len(measured), len(columns)), np.nan)
            for j, (unit, to) in enumerate(units):
                if not columns[j]:
                    continue
                values, own, wanted = next(left), noted.get(columns[j]) or unit, to or unit
                if own and wanted and own != wanted:
                    # A deviation has no zero: that of a temperature is not moved.
                    offset = converted(np.zeros(1), own, wanted) if name == "y_sd" else 0.0
                    values = converted(values, own, wanted) - offset
                found[name][:, j] = values
        return found


def _as_tuple(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@contextmanager
def naming(source: str, column: str) -> Generator[None]:
    """Add source and column to an `InputError` about the values of a column."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{source}, column '{column}': {error}") from error


def converted(values: Array, unit: str, to: str) -> Array:
    """Convert values from a unit to another, ``"degC"`` to ``"K"`` with its offset."""
    return np.asarray(units.conversion(unit, to)(values), dtype=float)


def stated_unit(given: str | None, noted: str, what: str) -> str:
    """Return the unit of time that is given or that data note; seconds where neither is.

    Dates are seconds whatever is given, to which they are then converted.

    given, noted: Of the argument ``t_unit``, and of the data.
    """
    if noted == DATED:
        return "s"
    units_of_time = {units.time_unit(one) for one in (given, noted) if one}
    if len(units_of_time) > 1:
        raise InputError(
            f"t_unit is '{given}', but {what} says '{noted}': correct one of them; to converts",
            argument="t_unit",
        )
    return units_of_time.pop() if units_of_time else "s"


def dates_as_seconds(t: Array, noted: str, name: str) -> Array:
    """Return times, in seconds from the first where the numbers are dates, as 20260131.

    That is told. They are 8 digits, or 12 or 14 with minutes and seconds, and each is a date; and
    no unit of them is known.

    t: (T,)
    noted: Unit that data or user state; "" where none is known.
    """
    if noted or not len(t) or not np.isfinite(t).all():
        return t
    after = {8: 1_000_000, 12: 100, 14: 1}.get(len(f"{t[0]:.0f}"))
    if after is None or (t != np.floor(t)).any() or t.min() < 0 or t.max() * after > LATEST:
        return t
    rest = t.astype(np.int64) * after
    parts: list[NDArray[np.int64]] = []
    for base in (100, 100, 100, 100, 100):
        rest, part = np.divmod(rest, base)
        parts.append(part)
    second, minute, hour, day, month = parts
    first = ((rest - 1970) * 12 + month - 1).astype("datetime64[M]")
    dates = first.astype("datetime64[D]") + (day - 1)
    real = (month >= 1) & (month <= 12) & (dates.astype("datetime64[M]") == first) & (hour < 24)
    if not (real & (minute < 60) & (second < 60) & (rest >= EARLIEST)).all():
        return t
    sentence = (
        f"{name}: numbers such as {t[0]:.0f} are taken for dates, and counted in seconds from the "
        "first; state their unit (t_unit) where they are times"
    )
    _log.warning("%s", visible(sentence))
    seconds = dates.astype("datetime64[s]").astype(np.int64) + 3600 * hour + 60 * minute + second
    return (seconds - seconds[0]).astype(float)


def time_axis(t: Array, unit: str, to: str | None) -> dict[str, Any]:
    """Return the arguments of `Record` for measured times: dt where it can be, and the unit.

    t: (T,)
    unit: In which they were measured.
    to: That of the model, to which they are converted; without it they stay, but parts of a second
        become seconds.
    """
    unit, wanted = units.time_unit(unit), units.time_unit(to or units.model_time(unit))
    if wanted != unit:
        t = converted(t, unit, wanted)
    axis: dict[str, Any] = {"t": t, "t_unit": wanted}
    if len(t) < 2 or not np.isfinite(t).all():
        return axis
    spacing = (t[-1] - t[0]) / (len(t) - 1)
    off = np.abs(t - t[0] - spacing * np.arange(len(t))).max()
    if 0.0 <= off <= UNIFORM * spacing:
        axis = {"dt": float(f"{spacing:.12g}"), "start": float(t[0]), "t_unit": wanted}
    return axis


def told_unit(records: list[Record], stated: bool) -> list[Record]:
    """Return records; log a warning where their data alone say that time is not in seconds.

    stated: Whether the user says in which unit the model counts time.
    """
    others = [one for one in records if one.t_unit != "s"]
    if others and not stated:
        unit = others[0].t_unit
        more = f" and {counted(len(others) - 1, 'other')}" if len(others) > 1 else ""
        sentence = (
            f"{others[0].name}{more}: times stay in {unit}, as the data say, so rates and dead "
            f"times of the model are in {unit} too; 'to' converts them, as to 's'"
        )
        _log.warning("%s", visible(sentence))
    return records


def told_gaps(record: Record) -> Record:
    """Return the record; log a warning where rows are missing from it.

    Its input is not known there, and what the hold puts in its place passes for measured.
    """
    if record.uniform or not record.n_inputs:
        return record
    steps = np.diff(record.t)
    usual = float(np.median(steps))
    gaps = np.flatnonzero(steps > GAP * usual)
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
