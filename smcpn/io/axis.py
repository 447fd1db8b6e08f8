"""Which samples are new: times that strictly increase."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, real_number, shown, whole_number
from smcpn.io.events import Event, Report
from smcpn.io.parse import Sample
from smcpn.model.problem import Problem
from smcpn.model.record import Record

# ---- What arrives: checked, and put on the time axis of the stream.

Array = NDArray[np.float64]

LONGEST_GAP = 100_000
"""Sampling intervals without a sample beyond which a stream is not the same experiment."""
_NOTHING = np.empty(0)


class Arrival:
    """A sample that has its place, after those missing before it.

    Attributes
    ----------
    status : str
        ``"assimilated"``, ``"late"`` or ``"duplicate"``.
    times, u, y : ndarray, (m, ), (m, n), (m, q)
        Of the missing samples, and last of the one that arrived.
    """

    __slots__ = ("status", "times", "u", "y")

    def __init__(
        self, status: str, times: Array = _NOTHING, u: Array = _NOTHING, y: Array = _NOTHING
    ) -> None:
        self.status, self.times, self.u, self.y = status, times, u, y

    @property
    def missing(self) -> int:
        """Samples that were put in."""
        return max(0, len(self.times) - 1)


class Arrivals:
    """Takes the samples of a stream in.

    Parameters
    ----------
    problem : Problem
        Its first record tells the sampling and the hold.
    """

    def __init__(self, problem: Problem) -> None:
        self._record, self._ode = problem.records[0], problem.ode
        self.axis = TimeAxis(self._record)
        self._n_outputs = len(problem.observe)
        self.held = np.zeros(self._record.n_inputs)

    @property
    def last(self) -> float:
        """Time of the last sample."""
        return self.axis.last

    @property
    def last_given(self) -> float | None:
        """Time of the last sample as it was given; None before the first."""
        return self.axis.given if math.isfinite(self.axis.given) else None

    def take(self, u: Any, y: Any, t: float | None) -> Arrival:
        """Check a sample and place it; see `Online` for what becomes of it.

        Raises
        ------
        InputError
            As of `Online.update`.
        """
        inputs, outputs = self._inputs(u), self._outputs(y)
        times = self.axis.place(t)
        if isinstance(times, str):
            return Arrival(times)
        before, self.held = self.held, inputs
        missing = len(times) - 1
        if missing == 0:
            return Arrival("assimilated", times, inputs[None], outputs[None])
        shares = np.arange(1, missing + 2)[:, None] / (missing + 1)
        if self._record.hold == "zoh":
            shares = np.floor(shares)
        between = before + (inputs - before) * shares
        between[-1] = inputs
        measured = np.full((missing + 1, self._n_outputs), np.nan)
        measured[-1] = outputs
        return Arrival("assimilated", times, between, measured)

    def coming(self, u: Any, t: Any) -> tuple[Array, Array]:
        """Times (m,) and inputs (m, n) of samples to come, which are not taken in.

        Raises
        ------
        InputError
            As of `Online.predict`.
        """
        size, given = self._record.n_inputs, self._record.u_function is None
        if size and given:
            inputs = np.asarray(u, dtype=float).reshape(-1, size)
        else:
            inputs = np.zeros((whole_number("u", u, 1, otherwise=" of samples to predict"), size))
        if not len(inputs) or not np.isfinite(inputs).all():
            raise InputError("u holds no samples, or some that are not finite: an input is known")
        return self.axis.coming(len(inputs), t), inputs

    def _inputs(self, u: Any) -> Array:
        size = self._record.n_inputs
        if u is None and (size == 0 or self._record.u_function is not None):
            return np.zeros(size)
        inputs = _columns("u", u, size)
        if not np.isfinite(inputs).all():
            raise InputError(
                f"u is {shown(u)}: an input must be known at every sample (only y may be missing)"
            )
        return inputs

    def _outputs(self, y: Any) -> Array:
        if y is None:
            return np.full(self._n_outputs, np.nan)
        outputs = _columns("y", y, self._n_outputs)
        if np.isinf(outputs).any():
            raise InputError(f"y is {shown(y)}: give finite numbers, or NaN where one is missing")
        return outputs


class TimeAxis:
    """The sampling times of a stream.

    Parameters
    ----------
    record : Record
        With ``dt`` the samples lie on a grid, and times are rounded to it. Otherwise times are
        taken as they are, and ``record.interval`` is the usual distance.
    """

    def __init__(self, record: Record) -> None:
        self._grid, self._interval = record.dt is not None, record.interval
        self._start, self._count, self.given = record.start, 0, -math.inf
        self.last = -math.inf

    def place(self, t: float | None) -> Array | str:
        """Times of the missing samples and of the new one; or why it has no place.

        Raises
        ------
        InputError
            For a time that is no number, one that is needed and not given, or too long a gap.
        """
        if t is None:
            return self._add(1, self._next_time())
        t = real_number("t", t, "give a time in seconds")
        if self._count == 0:
            self._start = t if self._grid else self._start
            return self._add(1, t)
        distance = (t - self.given) / self._interval
        if distance == 0.0 or (self._grid and abs(distance) < 0.5):
            return "duplicate"
        if distance < 0.0:
            return "late"
        if distance > LONGEST_GAP:
            raise InputError(
                f"t is {t:g}, {distance:.0f} sampling intervals after the sample before: begin a "
                "new Online after so long a gap"
            )
        return self._add(max(1, round(distance)), t)

    def coming(self, m: int, t: Any) -> Array:
        """Times of the next m samples, (m,), which do not become part of the axis.

        Raises
        ------
        InputError
            If times are needed, or are not m rising ones after the last sample.
        """
        if t is None:
            self._next_time()
            return self._start + self._interval * np.arange(
                self._count, self._count + m, dtype=float
            )
        times = np.asarray(t, dtype=float).ravel()
        if len(times) != m or not (np.diff(times, prepend=self.last) > 0).all():
            raise InputError(f"t is {shown(t)}: give {m} rising times after the last sample")
        return times

    def document(self) -> dict[str, float]:
        """What `resume` needs, as JSON can hold it."""
        return {
            "start": self._start, "count": self._count, "given": self.given, "last": self.last
        }  # fmt: skip

    def resume(self, document: Mapping[str, float]) -> None:
        """Go on where the axis that ``document`` was taken of was."""
        self._start, self._count = float(document["start"]), int(document["count"])
        self.given, self.last = float(document["given"]), float(document["last"])

    def _next_time(self) -> float:
        if not self._grid:
            raise InputError(
                "t is missing: the problem's record has irregular times, so update needs the time "
                "of every sample; give the record dt where they are equally spaced"
            )
        return self._start + self._interval * self._count

    def _add(self, steps: int, given: float) -> Array:
        times: Array
        if self._grid:
            times = self._start + self._interval * np.arange(
                self._count, self._count + steps, dtype=float
            )
        else:
            times = np.array([given])
            if steps > 1:
                times = self.last + (given - self.last) * np.arange(1, steps + 1) / steps
                times[-1] = given
        self._count += steps
        self.given, self.last = given, float(times[-1])
        return times


def _columns(name: str, values: Any, size: int) -> Array:
    """Return ``values`` as floats, (size,).

    Raises
    ------
    InputError
        If they are no numbers, or not as many.
    """
    try:
        array = np.array(values, dtype=float).ravel()
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is {shown(values)}: give {size} numbers") from error
    if len(array) != size:
        raise InputError(f"{name} has {len(array)} values, the problem {size}: {shown(values)}")
    return array


# ---- When a sample was taken.


class Clock:
    """The times of samples.

    A sample's time is the one its source states; else its sequence number times the sampling
    interval; else that of the sample before and one interval. In the last case a bad line keeps
    its place in time.

    Parameters
    ----------
    interval : float, optional
        Sampling interval in seconds; None where the times are irregular.
    start : float
        Time of sequence number zero.
    first : float, optional
        Time of the first sample that states none; ``start`` by default.
    """

    def __init__(self, interval: float | None, start: float, first: float | None = None) -> None:
        self._interval, self._start = interval, start
        # Counted from the last time stated, so that the sum gathers no rounding.
        self._origin, self._ticks = start if first is None else first, 0

    def time_of(self, sample: Sample) -> float:
        """Return the time of a sample.

        Raises
        ------
        InputError
            If it states none and the sampling interval is not known.
        """
        if sample.t is not None:
            return self._set(sample.t)
        if self._interval is None:
            raise InputError(
                f"line {sample.line} states no time and the problem's record is irregular: "
                "send t with every sample"
            )
        if sample.number is not None:
            return self._set(self._start + self._interval * sample.number)
        t = self._origin + self._interval * self._ticks
        self._ticks += 1
        return t

    def bad_line(self) -> None:
        """Count a line that is no sample: where times are counted it keeps its place."""
        self._ticks += 1

    def _set(self, t: float) -> float:
        self._origin, self._ticks = t, 1
        return t


SAME = 1e-3
"""Sampling intervals within which two times are one."""
GAP = 1.5
"""Sampling intervals between two samples above which some are missing."""
JUMP = 1000
"""Sampling intervals of a gap that is believed only once the next sample comes after it: one
garbled digit of a time must not make every later sample a late one."""
MEMORY = 65536
"""Times of samples that are remembered; older ones that come again count as duplicates."""

Placed = list[tuple[Sample, float]]


@dataclass
class _Skipped:
    """A run of samples skipped for the same reason, reported as one."""

    kind: str
    line: int
    first: float
    last: float
    count: int = 1

    def event(self) -> Event:
        times = f"t = {self.first:g}" + (f" to {self.last:g}" if self.count > 1 else "")
        reason = (
            "assimilated before"
            if self.kind == "duplicate"
            else "older than one assimilated before"
        )
        message = f"{_samples(self.count)} at {times}: {reason}, skipped"
        return Event(self.kind, message, self.line, self.first, self.count)


class Ordering:
    """Sort out samples by their times: new, duplicate or late; and report gaps.

    Parameters
    ----------
    interval : float, optional
        Sampling interval in seconds; None where the times are irregular: nothing is then a gap.
    report : callable
        Called with every `Event`.
    last : float, optional
        Time of the last sample assimilated before.
    """

    def __init__(self, interval: float | None, report: Report, last: float | None = None) -> None:
        self._interval, self._report = interval, report
        self._same = SAME * (interval or 0.0)
        self._assimilated = [] if last is None else [last]
        self._skipped: _Skipped | None = None
        self._held: tuple[Sample, float] | None = None

    def place(self, sample: Sample, t: float) -> Placed:
        """Return the samples, with their times, that are to be assimilated."""
        if self._assimilated and t <= self._assimilated[-1] + self._same:
            self._skip(sample, t)
            return []
        self._report_skipped()
        if self._held is None:
            if self._intervals_to(t) > JUMP:
                self._held = (sample, t)
                return []
            return self._accept([(sample, t)])
        held, self._held = self._held, None
        if t > held[1] + self._same:
            return self._accept([held, (sample, t)])
        self._refuse(*held, f"the next sample is at t = {t:g}")
        return self.place(sample, t)

    def finish(self) -> None:
        """Report what is still open."""
        self._report_skipped()
        if self._held is not None:
            self._refuse(*self._held, "no sample follows it")
            self._held = None

    def _accept(self, placed: Placed) -> Placed:
        for sample, t in placed:
            intervals = self._intervals_to(t)
            if intervals > GAP:
                missing = round(intervals) - 1
                message = (
                    f"{_samples(missing)} missing between t = {self._assimilated[-1]:g} and {t:g}"
                )
                self._report(Event("gap", message, sample.line, t, missing))
            self._assimilated.append(t)
        if len(self._assimilated) > 2 * MEMORY:
            del self._assimilated[:MEMORY]
        return placed

    def _intervals_to(self, t: float) -> float:
        if not self._assimilated or self._interval is None:
            return 0.0
        return (t - self._assimilated[-1]) / self._interval

    def _skip(self, sample: Sample, t: float) -> None:
        kind = "duplicate" if self._known(t) else "late"
        if self._skipped is not None and self._skipped.kind == kind:
            self._skipped.count += 1
            self._skipped.last = t
            return
        self._report_skipped()
        self._skipped = _Skipped(kind, sample.line, t, t)

    def _known(self, t: float) -> bool:
        """Whether a sample of this time was assimilated, or is too old to tell."""
        if t < self._assimilated[0] - self._same:
            return True
        place = bisect_left(self._assimilated, t - self._same)
        return self._assimilated[place] <= t + self._same

    def _report_skipped(self) -> None:
        if self._skipped is not None:
            self._report(self._skipped.event())
            self._skipped = None

    def _refuse(self, sample: Sample, t: float, why: str) -> None:
        message = f"t = {t:g} jumps ahead by {self._intervals_to(t):.0f} intervals and {why}"
        self._report(Event("bad-time", f"{message}, skipped", sample.line, t))


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"
