"""The time axis: which samples are new, where they lie, and how many are missing before them.

`smcpn.Online`, `smcpn.io.Stream` and CSV files that continue a record follow one rule:

====================  =============================================================================
time of a sample      what becomes of it
====================  =============================================================================
none                  the next point of the grid; refused where times are irregular
on a grid (``dt``)    rounded to a whole number of intervals after the sample before, so that a
                      clock that drifts is followed
irregular             taken as it is; the mean interval of the record is then the unit of a gap
not after the last    left out: a duplicate if it is the time of one of the last 65536 samples or
                      older than these, otherwise late. On a grid, times less than half an interval
                      apart are one; elsewhere equal ones are
k intervals later     k - 1 missing samples are put in, so that solver steps keep their length
> 1000 intervals      doubtful: a stream believes it once the next sample comes after it
> 100000 intervals    refused: another experiment
====================  =============================================================================
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from smcpn.base.arguments import NUMBERS, Kind
from smcpn.base.stored import Number, Stored, Whole
from smcpn.errors import InputError, real_number, shown, whole_number
from smcpn.io.doses import NO_DOSES
from smcpn.model.delay import parts_of
from smcpn.model.dose import Dose, as_doses
from smcpn.model.dosing import route_of
from smcpn.model.problem import Problem
from smcpn.model.record import BESIDE, Record, faults_beside
from smcpn.model.signal import band_limited, given_function, stream_intervals

Array = NDArray[np.float64]

MEMORY = 65536
"""Times of samples that are remembered; older ones that come again count as duplicates."""
DOUBTFUL_GAP = 1000
"""Intervals without a sample beyond which a time may be a garbled one."""
LONGEST_GAP = 100_000
"""Intervals without a sample beyond which a stream is not the same experiment."""
ROUNDED = 0.5
"""Intervals below which two times on a grid are one."""
_NOTHING = np.empty((0, 0))


def _date(text: str) -> str:
    datetime.fromisoformat(text)
    return text


@dataclass(frozen=True)
class AxisState(Stored):
    """Place of a stream on its time axis.

    start: Time of its first sample.
    count: Samples so far.
    given, last: See `TimeAxis`.
    epoch: Date of time zero, where samples come with dates.
    """

    start: Number
    count: Whole
    given: float
    last: float
    epoch: Annotated[str, AfterValidator(_date)] | None = None


class TimeAxis:
    """The sampling times of a stream.

    With ``dt`` of the record the samples lie on a grid (``grid``: times are rounded to it).
    Otherwise times are taken as they are, the interval is the usual distance, and with ``fills``
    missing samples are put in. ``regular`` says that the record's interval is the same throughout;
    ``given`` and ``last`` are the time of the last sample as it was given and on the axis, -inf
    before the first; ``epoch`` is the date of time zero, where samples come with dates.
    """

    def __init__(self, record: Record, fills: bool = True) -> None:
        self.interval, self.regular, self.fills = record.interval, record.uniform, fills
        if record.held and not self.regular:
            # Samples were inserted where doses arrive.
            self.interval = float(np.ptp(record.t)) / max(int(record.given.sum()) - 1, 1)
        self.start = float(record.t[0])
        self.grid = record.dt is not None
        self._origin, self._count = self.start, 0
        self.given = self.last = -math.inf
        self.epoch: datetime | None = None
        self._known: list[float] = []

    @classmethod
    def after(cls, record: Record) -> TimeAxis:
        """Return the axis on which samples follow those of a record."""
        axis, end = cls(record), float(record.t[-1])
        axis.resume(AxisState(axis.start, len(record), end, end))
        return axis

    def status(self, t: float | None) -> str:
        """Return ``"new"``, ``"late"`` or ``"duplicate"``: what a sample of time ``t`` would be."""
        if t is None or not self._known:
            return "new"
        if t > self.given and t - self.given >= self._apart:
            return "new"
        after = bisect_left(self._known, t)
        near = self._known[max(0, after - 1) : after + 1]
        is_known = any(self.same(t, known) for known in near)
        return "duplicate" if is_known or t < self._known[0] else "late"

    @property
    def _apart(self) -> float:
        """Distance of two times from which on they are not one."""
        return ROUNDED * self.interval if self.grid else 0.0

    def same(self, t: float, other: float) -> bool:
        """Return whether two times are one."""
        return t == other or abs(t - other) < self._apart

    def intervals_to(self, t: float) -> float:
        """Return the number of intervals from the last sample to ``t``; 0 before the first."""
        return (t - self.given) / self.interval if self._known else 0.0

    def place(self, t: float | None) -> list[float]:
        """Add a new sample; return the times of the missing ones before it, and its own.

        Raises `InputError` if a time is needed and not given, or the gap is too long.
        """
        if t is None:
            t = self._next_time()
            return self._keep([t], t)
        if not self._known:
            self._origin = t
            return self._add(1, t)
        distance = self.intervals_to(t)
        if distance > LONGEST_GAP:
            raise InputError(
                f"t is {t:g}, {distance:.0f} sampling intervals after the sample before: begin a "
                "new Online or NestedFilter after so long a gap"
            )
        return self._add(max(1, round(distance)) if self.fills or self.grid else 1, t)

    def insert(self, number: int) -> None:
        """Count samples that were put in between others, where doses arrive."""
        self._count += number

    def coming(self, m: int, t: Any) -> Array:
        """Return the times of the next m samples, (m,), which do not become part of the axis.

        Raises `InputError` if times are needed, or are not m rising ones after the last sample.
        """
        if t is None:
            self._next_time()
            return np.array(self._grid_times(m))
        times = NUMBERS("t", t).ravel()
        if len(times) != m or not (np.diff(times, prepend=self.last) > 0).all():
            raise InputError(f"t is {shown(t)}: give {m} rising times after the last sample")
        return times

    @property
    def state(self) -> AxisState:
        """State from which `resume` goes on."""
        epoch = None if self.epoch is None else self.epoch.isoformat()
        return AxisState(self._origin, self._count, self.given, self.last, epoch)

    def resume(self, state: AxisState) -> None:
        """Go on from a state; all earlier times count as known."""
        self.epoch = None if state.epoch is None else datetime.fromisoformat(state.epoch)
        self._origin, self._count = state.start, state.count
        self.given, self.last = state.given, state.last
        self._known = [state.given] if state.count else []

    def _next_time(self) -> float:
        if not self.grid:
            raise InputError(
                "t is missing: the problem's record has irregular times, or doses between its "
                "samples, so update needs the time of every sample; give the record dt where it "
                "has neither"
            )
        return self._grid_times(1)[0]

    def _grid_times(self, m: int) -> list[float]:
        """Next times of the grid, to which samples that were put in do not belong."""
        number = round((self.last - self._origin) / self.interval) + 1 if self._known else 0
        return [self._origin + self.interval * k for k in range(number, number + m)]

    def _add(self, steps: int, given: float) -> list[float]:
        if self.grid:
            times = self._grid_times(steps)
        elif steps == 1:
            times = [given]
        else:
            distance = given - self.last
            times = [self.last + distance * k / steps for k in range(1, steps)] + [given]
        return self._keep(times, given)

    def _keep(self, times: list[float], given: float) -> list[float]:
        """Add samples to the axis, the last of which was given a time."""
        self._count += len(times)
        self.given, self.last = given, times[-1]
        self._known.append(given)
        if len(self._known) > 2 * MEMORY:
            del self._known[:MEMORY]
        return times


class Arrival(NamedTuple):
    """A sample placed on the time axis, with the missing samples before it.

    status: ``"new"``, ``"late"`` or ``"duplicate"``.
    sample: Time, inputs and outputs, NaN where missing; empty unless it is new.
    gap: (m, 1 + n + q), the same of the samples that were put in before it.
    """

    status: str
    sample: Sequence[float] = ()
    gap: Array = _NOTHING


class SampleArrivals:
    """Checks the samples of a stream and places them on its time axis.

    The first record of the problem defines the sampling and the hold. From ``last_input``, (n,),
    the inputs of missing samples are held, or interpolated; ``doses`` are those given so far.
    """

    def __init__(self, problem: Problem) -> None:
        self._record = problem.records[0]
        self._function, dosing = given_function(self._record), problem.model.dosing
        if dosing is not None and dosing.lagged and band_limited(self._record):
            raise InputError(
                f"{self._record.name}: a stream in which the lag of a dose is learned takes no "
                "band-limited input, of which an interval has to tell more than is known when it "
                "ends: choose hold 'foh' or 'zoh', or fix the lag",
                argument="problem",
            )
        # A sample sets accumulators back: one that is put in would lose what they have counted.
        self.axis = TimeAxis(self._record, fills=not problem.ode.accumulators)
        self._n_outputs, self._width = len(problem.observe), problem.model.measured
        self._has_sd = problem.model.takes_y_sd
        self.last_input: Sequence[float] = [0.0] * self._record.n_inputs
        self._given = self._record.n_inputs - self._record.held
        self._dosing, self.doses = dosing, tuple[Dose, ...]()
        self._between = stream_intervals(self._record, problem.model.delay)
        # Most parts of an interval in which it is known how many delayed inputs arrive.
        self._parts = parts_of(self._record) if problem.model.delay is not None else None

    def take(self, u: Any, outputs: Sequence[float], t: float | None, doses: Any = ()) -> Arrival:
        """Check a sample and place it; ``outputs`` are of `measured`.

        Raises `InputError` as of `Online.update`.
        """
        inputs = self._inputs(u)
        if t is not None:
            t = real_number("t", t, "give a time")
            status = self.axis.status(t)
            if status != "new":
                self.give(doses)
                return Arrival(status)
        none = isinstance(doses, tuple) and not doses
        if self._dosing is not None or (not none and as_doses(doses, "stream")):
            return self._take_dosed(t, inputs, outputs, doses)
        times, gap = self._placed(t), _NOTHING
        if len(times) > 1:
            gap = self._gap(times, np.array(self.last_input), np.array(inputs))
        self.last_input = inputs
        return Arrival("new", [times[-1], *inputs, *outputs], gap)

    def _placed(self, t: float | None) -> list[float]:
        """Place a sample, see `TimeAxis.place`; where its interval is refused nothing is taken."""
        if self._between is None:
            return self.axis.place(t)
        since, begun = self.axis.last, self.axis.state
        times = self.axis.place(t)
        try:
            self._check_between(since, times)
        except InputError:
            self.axis.resume(begun)
            raise
        return times

    def _check_between(self, since: float, times: Sequence[float]) -> None:
        """Refuse intervals in which more delayed inputs may arrive than there are places for."""
        lengths = np.diff([since, *times])
        if self._between is None or not math.isfinite(lengths[0]):
            return
        shortest, longest = self._between
        for length, t in zip(lengths.tolist(), times, strict=True):
            if not shortest <= length <= longest:
                raise InputError(
                    f"t is {t:g}, {length:g} after the sample before: with a delay or a "
                    "band-limited input the intervals of a stream are as those of the problem's "
                    f"record, from {shortest:g} to {longest:g}; pose the problem with a record of "
                    "such times",
                    argument="t",
                )

    def _take_dosed(
        self, t: float | None, inputs: list[float], outputs: Sequence[float], doses: Any
    ) -> Arrival:
        """Place a new sample of a stream with doses, and those that are put in where they arrive.

        Where it is refused nothing is taken.
        """
        since, begun, known = self.axis.last, self.axis.state, self.doses
        more: Sequence[Dose] = as_doses(doses, "stream")
        times = self._placed(t)
        before = np.array(self.last_input[: len(inputs)])
        sample, gap = [times[-1], *inputs, *outputs], _NOTHING
        if len(times) > 1:
            gap = self._gap(times, before, np.array(inputs))
        # A dose at the time of its sample is at the sample, also where that is put on a grid.
        more = [replace(one, time=times[-1]) if one.time == t else one for one in more]
        if not math.isfinite(since):
            more, self.doses = [*self.doses, *more], ()
        try:
            first = times[0], times[0]
            self._enter(more, *((since, begun.given) if math.isfinite(since) else first))
            rows = self._dosed(since, before, np.vstack([*gap, sample]))
        except InputError:
            self.doses = known
            self.axis.resume(begun)
            raise
        self.axis.insert(len(rows) - len(times))
        self.last_input = rows[-1, 1 : 1 + self._record.n_inputs].tolist()
        return Arrival("new", rows[-1].tolist(), rows[:-1])

    def give(self, doses: Any) -> None:
        """Take doses that were given since the last sample or are still to come.

        Raises `InputError` as of `Online.give`.
        """
        self._enter(as_doses(doses, "stream"), self.axis.last, self.axis.given)

    def _enter(self, more: Sequence[Dose], since: float, own: float) -> None:
        """Add doses to those given so far, but for those that are among these.

        They are not before the last sample, which is ``since`` and was given a time of its ``own``.
        """
        # Where the last sample was put on a grid it may be later than its own time.
        more = [replace(one, time=since) if own <= one.time < since else one for one in more]
        more = [one for one in more if one not in self.doses]
        if self._dosing is None:
            if not more:
                return
            raise InputError(NO_DOSES, argument="doses")
        self._dosing.check_kinds(more, "stream")
        for dose in more:
            if dose.time < since:
                raise InputError(
                    f"a dose is given at {dose.time:g}, and samples have come to {since:g}: give "
                    "doses before the samples that follow them, and begin with a sample without "
                    "outputs at the first dose",
                    argument="doses",
                )
        self.doses = tuple(sorted((*self.doses, *more), key=lambda one: one.time))

    @property
    def stored_doses(self) -> Array:
        """Doses as numbers, see `smcpn.checkpoint.stream_state.StreamState`."""
        keys = [] if self._dosing is None else [one.key for one in self._dosing.routes]
        rows = [
            (d.time, d.amount, d.duration, 0.0 if isinstance(d.lag, str) else d.lag,
             keys.index(route_of(d)))
            for d in self.doses
        ]  # fmt: skip
        return np.array(rows, dtype=float).reshape(-1, 5)

    def resume_doses(self, stored: Array) -> None:
        """Go on from `stored_doses`."""
        routes = () if self._dosing is None else self._dosing.routes
        found: list[Dose] = []
        for time, amount, duration, lag, number in stored.tolist():
            if not 0 <= number < len(routes):
                raise InputError(
                    f"a dose of the stream is of route {number:g}: the file is damaged"
                )
            one = routes[int(number)]
            lag = one.lag if isinstance(one.lag, str) else lag
            found.append(Dose(time, one.state, amount, duration, lag, one.fraction))
        self.doses = tuple(found)

    def _dosed(self, since: float, before: Array, rows: Array) -> Array:
        """Rows of samples after one at a time, with those where doses arrive, and their numbers."""
        assert self._dosing is not None
        n, begun = self._dosing.n_inputs, math.isfinite(since)
        t, u = np.append(since, rows[:, 0]), np.vstack([before, rows[:, 1 : 1 + n]])
        if not begun:
            # It ends no interval: what it has of the next one does not count.
            t, u = np.append(t[1:], t[-1] + self._record.interval), u[[1, 1]]
        # Where the input is smooth that of a sample which is put in does not count.
        hold = "zoh" if self._record.smooth else self._record.hold
        one = Record(
            t=t, u=self._function or (u if n else None), hold=hold,
            doses=self.doses, name="stream",
            u_before=np.empty((0, n)),
        )  # fmt: skip
        made = self._dosing.prepared(one)
        if begun and self._parts is not None:
            self._check_parts(parts_of(made), self._parts)
        some = slice(1, None) if begun else slice(0, 1)
        outputs = np.full((len(made.t[some]), self._width), np.nan)
        outputs[np.isin(made.t[some], rows[:, 0])] = rows[:, 1 + n :]
        return np.column_stack([made.t[some], made.u[some], outputs])

    def _check_parts(self, parts: int, most: int) -> None:
        """Refuse more parts of an interval than those of the problem's record have."""
        if parts > most:
            raise InputError(
                f"{parts - 1} doses arrive between two samples of a stream with a delay, and in "
                f"the problem's record at most {most - 1}: pose the problem with a record of as "
                "many",
                argument="doses",
            )

    def _gap(self, times: list[float], before: Array, inputs: Array) -> Array:
        """Missing samples between one and the next, whose inputs and last time are given."""
        m = len(times) - 1
        shares = np.arange(1, m + 1)[:, None] / (m + 1)
        if self._record.hold == "zoh":
            shares = np.zeros((m, 1))
        between = before + (inputs - before) * shares
        return np.column_stack([times[:-1], between, np.full((m, self._width), np.nan)])

    def coming(self, u: Any, t: Any) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Return times (m,) and inputs (m, n) of samples to come, which are not taken in.

        Where doses arrive there are others between them; the last result is True for those asked.

        Raises `InputError` as of `Online.predict`.
        """
        size, given = self._given, self._function is None
        if size and given:
            values = NUMBERS("u", u)
            if values.size % size:
                raise InputError(f"u has shape {values.shape}: give (m, {size}) values")
            inputs = values.reshape(-1, size)
        else:
            inputs = np.zeros((whole_number("u", u, 1, otherwise=" of samples to predict"), size))
        if not len(inputs) or not np.isfinite(inputs).all():
            raise InputError("u holds no samples, or some that are not finite: an input is known")
        times = self.axis.coming(len(inputs), t)
        self._check_between(self.axis.last, times.tolist())
        if self._dosing is None:
            return times, inputs, np.full(len(times), True)
        missing = np.full((len(times), self._width), np.nan)
        last = np.array(self.last_input[:size])
        rows = self._dosed(self.axis.last, last, np.column_stack([times, inputs, missing]))
        chosen = np.isin(rows[:, 0], times)
        return rows[:, 0], rows[:, 1 : 1 + self._record.n_inputs], chosen

    def _inputs(self, u: Any) -> list[float]:
        if u is None and (self._given == 0 or self._function is not None):
            return [0.0] * self._given
        inputs = _floats("u", u, self._given)
        if not all(map(math.isfinite, inputs)):
            raise InputError(
                f"u is {shown(u)}: an input must be known at every sample (only y may be missing)"
            )
        return inputs

    def measured(
        self, y: Any, y_sd: Any = None, y_lower: Any = None, y_upper: Any = None
    ) -> list[float]:
        """Outputs of a sample as a row has them, checked, see `smcpn.model.measured.measured_rows`.

        The arguments are those of `Online.update`.
        """
        outputs, beside = self._outputs(y), (y_sd, y_lower, y_upper)
        # Most samples have nothing else, and this is the path of every update.
        alone = y_sd is None and y_lower is None and y_upper is None
        if alone and self._width == self._n_outputs:
            return outputs
        given: dict[str, Any] = dict(zip(BESIDE, beside, strict=True))
        known = [name for name in BESIDE if getattr(self._record, name) is not None]
        for name, one in given.items():
            if one is not None and name not in known:
                raise InputError(
                    f"{name} is given, which the problem's record has not: give it a column {name}",
                    argument=name,
                )
        if self._width == self._n_outputs:
            return outputs
        missing = [math.nan] * self._n_outputs
        columns = [
            missing if one is None else _floats(name, one, self._n_outputs)
            for name, one in given.items()
        ]
        arrays = map(np.array, (outputs, *columns))
        for name, where, why in faults_beside(*arrays, has_sd=self._has_sd):
            if name in known and where.any():
                raise InputError(f"{name} is {shown(given[name])}: {why}", argument=name)
        return [number for column in (*columns, outputs) for number in column]

    def _outputs(self, y: Any) -> list[float]:
        if y is None:
            return [math.nan] * self._n_outputs
        outputs = _floats("y", y, self._n_outputs)
        if math.inf in outputs or -math.inf in outputs:
            raise InputError(f"y is {shown(y)}: give finite numbers, or NaN where one is missing")
        return outputs


def _floats(name: str, values: Any, size: int) -> list[float]:
    """Return ``values`` as that many floats."""
    if isinstance(values, float):
        numbers = [float(values)]
    elif type(values) is np.ndarray and values.dtype.char == "d":
        numbers = values.ravel().tolist()
    else:
        numbers = Kind(f"{size} numbers", NUMBERS.read)(name, values).ravel().tolist()
    if len(numbers) != size:
        raise InputError(f"{name} has {len(numbers)} values, the problem {size}: {shown(values)}")
    return numbers
