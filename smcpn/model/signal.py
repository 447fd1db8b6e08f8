"""The input between two samples: held, linear, band-limited, or a known function of time.

It is defined once. `Samples` computes it as numbers, of a record or a stream; `Signal` writes it as
graphs, which a kernel evaluates once for all particles. An input that is held or linear is known
from the samples before and after; of one that is smooth between samples the graphs take numbers
that `Samples` computes for every step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import factorial
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.model.delay import Delay, inputs_before, intervals_of, spacing_before, times_before
from smcpn.model.expression import applied
from smcpn.model.measured import measured_rows
from smcpn.model.record import CONTEXT, InputFunction, Record

Array = NDArray[np.float64]

TOGETHER = 2**13
"""Intervals between samples whose steps are interpolated at a time."""
WEIGHTS = 2**20
"""Weights of the samples of a band-limited input that are computed at a time."""
KAISER_BETA = 12.0
"""Stop band below -118 dB, pass band to 0.88 of the Nyquist frequency with 2 x 64 taps."""


class Samples(ABC):
    """Samples that count from 0 on, and the input between them.

    template: Tells the hold, the number of inputs, and the function where the input is one.
    """

    def __init__(self, template: Record, n_outputs: int) -> None:
        self.template, self.n_outputs = template, n_outputs

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _known(self, a: int, b: int) -> Array:
        """Times, inputs and outputs of samples that there are."""

    def columns(self, a: int, b: int) -> Array:
        """Times, inputs and outputs of the samples [a, b), (b - a, 1 + n + q).

        Beyond the first and the last one times go on, inputs are those that are known or else the
        nearest, and outputs are missing.
        """
        first, last = max(a, 0), min(b, len(self))
        before, after, known = first - a, b - last, self._known(first, last)
        if not before and not after:
            return known
        columns = np.pad(known, ((before, after), (0, 0)), mode="edge")
        n = 1 + self.template.n_inputs
        end = len(columns) - after
        columns[:before, n:] = columns[end:, n:] = np.nan
        columns[:before, 0] = self._times_before(columns[before, 0], before)
        columns[end:, 0] += (self.template.interval if after else 0.0) * np.arange(1, after + 1)
        columns[:before, 1:n] = self._inputs_before(columns[before:, 1:n], before)
        columns[end:, 1:n] = self._inputs_after(columns[:end, 1:n], after)
        return columns

    def _times_before(self, begin: float, number: int) -> Array:
        """Times before the first sample, which is at ``begin``, (number,)."""
        times = begin - spacing_before(self.template) * np.arange(number, 0, -1)
        return np.asarray(times, dtype=np.float64)

    def _inputs_before(self, u: Array, number: int) -> Array:
        """Inputs before the first sample of those known, (number, n_inputs)."""
        return np.repeat(u[:1], number, axis=0)

    def _inputs_after(self, u: Array, number: int) -> Array:
        """Inputs after the last sample of those known, (number, n_inputs)."""
        return np.repeat(u[-1:], number, axis=0)

    def times(self, a: int, b: int, parts: int) -> Array:
        """Times ``t_k + j/parts (t_{k+1} - t_k)``, j = 0..parts, shape (b - a - 1, parts + 1)."""
        t = self.columns(a, b)[:, 0]
        return t[:-1, None] + np.diff(t)[:, None] * (np.arange(parts + 1) / parts)

    def inputs(self, a: int, b: int, parts: int) -> Array:
        """Input at `times`, shape (b - a - 1, parts + 1, n_inputs).

        A held input jumps at a sample: the first point of an interval has the value after the jump,
        the last point the value before the next one, so that a step never sees the jump.
        """
        given = self._given_inputs(a, b, parts)
        if not self.template.held:
            return given
        held = np.repeat(self._held(a, b)[:, None], parts + 1, axis=1)
        return np.concatenate([given, held], axis=2)

    def _held(self, a: int, b: int) -> Array:
        """Numbers of the intervals between the samples [a, b), which the later ones have."""
        n, held = self.template.n_inputs, self.template.held
        return self.columns(a, b)[1:, 1 + n - held : 1 + n]

    def _given_inputs(self, a: int, b: int, parts: int) -> Array:
        """Of `inputs` those that are no numbers of an interval."""
        template, n = self.template, self.template.n_inputs - self.template.held
        if n == 0:
            return np.empty((b - a - 1, parts + 1, 0))
        function = self._function(a, b)
        if function is not None:
            times = self.times(a, b, parts)
            values = np.asarray(function(times.ravel()), dtype=float)
            return values.reshape(*times.shape, n)
        if template.hold == "bandlimited":
            return self._band_limited(a, b, parts)
        u = self.columns(a, b)[:, 1 : 1 + n]
        if template.hold == "zoh":
            return np.repeat(u[:-1, None], parts + 1, axis=1)
        rising = (np.arange(parts + 1) / parts)[None, :, None]
        return u[:-1, None] * (1.0 - rising) + u[1:, None] * rising

    def _function(self, a: int, b: int) -> InputFunction | None:
        """The input between the samples [a, b) as a function of time, where it is known as one."""
        return self.template.u_function

    def rates(self, a: int, b: int, order: int) -> Array:
        """Time derivatives 1..order of the input after each sample, (b - a - 1, order, n_inputs).

        A held input has none, a linear one its slope; of a smooth input they are those of the
        polynomial through nine points, an eighth of the sampling interval apart.
        """
        template, n = self.template, self.template.n_inputs - self.template.held
        rates = np.zeros((b - a - 1, order, template.n_inputs))
        if order == 0 or n == 0:
            return rates
        columns = self.columns(a, b)
        lengths = np.diff(columns[:, 0])[:, None]
        if template.smooth:
            taylor = np.linalg.solve(
                np.vander(np.arange(9.0), increasing=True), self.inputs(a, b, 8)
            )
            for k in range(1, order + 1):
                rates[:, k - 1, :n] = taylor[:, k, :n] * factorial(k) / (lengths / 8) ** k
        elif template.hold == "foh":
            rates[:, 0, :n] = np.diff(columns[:, 1 : 1 + n], axis=0) / lengths
        return rates

    def curves(self, a: int, b: int, degree: int, begin: float = -1.0) -> Array:
        """Polynomials of the input over the intervals that end at the samples [a, b).

        Coefficients by powers over the interval from ``begin`` to 1, (b - a, degree + 1, n_inputs).
        """
        nodes = np.vander(np.linspace(begin, 1.0, degree + 1), increasing=True)
        points = self.inputs(a - 1, b, degree)
        # Added one after the other: a sample of a stream and those of a record round alike.
        made = np.zeros(points.shape)
        for k, column in enumerate(np.linalg.inv(nodes).T):
            made += column[:, None] * points[:, k, None, :]
        # Numbers of an interval are compared, so that none may be rounded.
        if self.template.held:
            made[:, :, -self.template.held :] = 0.0
            made[:, 0, -self.template.held :] = points[:, -1, -self.template.held :]
        return made

    def first_rates(self, order: int) -> Array:
        """Time derivatives 1..order of the input at the first sample, (order, n_inputs)."""
        return self.rates(0, 2, order)[0]

    def _band_limited(self, a: int, b: int, parts: int) -> Array:
        """Kaiser-windowed sinc through the samples."""
        n = self.template.n_inputs
        known = self.columns(a - CONTEXT + 1, b + CONTEXT)[:, 1 : 1 + n]
        windows = np.lib.stride_tricks.sliding_window_view(known, 2 * CONTEXT, axis=0)
        fine = np.empty((b - a, parts + 1, n))
        np.einsum("pw,tnw->tpn", _taps(parts), windows, out=fine[:, :parts])
        # The window of the last sample gives the value at the end of the last interval.
        fine[:-1, parts] = fine[1:, 0]
        return fine[:-1]


class RecordSamples(Samples):
    """The samples of a record."""

    def __init__(self, record: Record, n_outputs: int | None = None) -> None:
        super().__init__(record, record.n_outputs if n_outputs is None else n_outputs)

    def __len__(self) -> int:
        return len(self.template)

    @override
    def _known(self, a: int, b: int) -> Array:
        record, n = self.template, 1 + self.template.n_inputs
        columns = np.empty((b - a, n + self.n_outputs))
        columns[:, 0], columns[:, 1:n] = record.t[a:b], record.u[a:b]
        columns[:, n:] = measured_rows(record, self.n_outputs)[a:b]
        return columns

    @override
    def _times_before(self, begin: float, number: int) -> Array:
        return times_before(self.template, number)

    @override
    def _inputs_before(self, u: Array, number: int) -> Array:
        return inputs_before(self.template, number)

    @override
    def _inputs_after(self, u: Array, number: int) -> Array:
        known = np.concatenate([u[-1:], self.template.input_around()[1][:number]])
        return np.pad(known, ((0, number + 1 - len(known)), (0, 0)), mode="edge")[1:]

    @override
    def _band_limited(self, a: int, b: int, parts: int) -> Array:
        if not self.template.periodic:
            return super()._band_limited(a, b, parts)
        # To import it takes half a second.
        from scipy import signal

        fine = np.asarray(signal.resample(self.template.u, parts * len(self), axis=0))
        fine = fine.reshape(len(self), parts, -1)
        here = np.arange(a, b - 1)
        begun, next_one = (np.take(fine, here + k, axis=0, mode="wrap") for k in range(2))
        return np.concatenate([begun, next_one[:, :1]], axis=1)


def substep_times(record: Record, parts: int) -> Array:
    """Times at both ends of every sampling interval and within, see `Samples.times`."""
    return RecordSamples(record).times(0, len(record), parts)


def substep_inputs(record: Record, parts: int) -> Array:
    """Input at `substep_times`, (T - 1, parts + 1, n_inputs), see `Samples.inputs`."""
    return RecordSamples(record).inputs(0, len(record), parts)


@dataclass(frozen=True)
class BandLimited:
    """The band-limited input of a record as a function of time, as of `Samples.inputs`.

    begin, interval: Time of the first sample, and between samples.
    u: (T, n), inputs at the samples, where they are not periodic between those known around them.
    """

    begin: float
    interval: float
    u: Array
    periodic: bool

    @classmethod
    def of(cls, record: Record) -> BandLimited:
        """Take that of a record."""
        begin, length, n = float(record.t[0]), len(record), record.n_inputs
        interval = (float(record.t[-1]) - begin) / (length - 1)
        if record.periodic:
            return cls(begin, interval, record.u, True)
        around = RecordSamples(record).columns(-CONTEXT, length + CONTEXT)[:, 1 : 1 + n]
        return cls(begin - CONTEXT * interval, interval, around, False)

    def __call__(self, t: Array) -> Array:
        """Inputs at times (m,), (m, n)."""
        values, step = np.empty((len(t), self.u.shape[1])), max(1, WEIGHTS // len(self.u))
        at = (np.asarray(t) - self.begin) / self.interval
        for k in range(0, len(at), step):
            some = slice(k, k + step)
            values[some] = self._series(at[some]) if self.periodic else self._windowed(at[some])
        return values

    def _series(self, at: Array) -> Array:
        """Fourier series through whole periods."""
        length = len(self.u)
        terms, number = np.fft.rfft(self.u, axis=0) / length, np.arange(length // 2 + 1)
        terms[1 : (length + 1) // 2] *= 2.0
        return np.real(np.exp(2j * np.pi / length * np.outer(at, number)) @ terms)

    def _windowed(self, at: Array) -> Array:
        """Kaiser-windowed sinc."""
        near = np.floor(at).astype(int)[:, None] + np.arange(-CONTEXT + 1, CONTEXT + 1)
        weights = _windowed_sinc(near - at[:, None])
        samples = np.take(self.u, near, axis=0, mode="clip")
        return np.einsum("pw,pwn->pn", weights, samples)


def given_function(record: Record) -> InputFunction | None:
    """Function as which the input of a record was given; None where its samples tell it."""
    return None if isinstance(record.u_function, BandLimited) else record.u_function


def band_limited(record: Record) -> bool:
    """Return True if an input is the band-limited signal through the samples."""
    given = record.n_inputs > record.held and given_function(record) is None
    return given and record.hold == "bandlimited"


def stream_intervals(template: Record, delay: Delay | None) -> tuple[float, float] | None:
    """Shortest and longest interval of a stream like a record; None where they are not checked.

    Those of a grid need no check. It is known how many delayed inputs arrive in one, and a
    band-limited one has equal ones.
    """
    if template.dt is not None or not (delay is not None or band_limited(template)):
        return None
    return intervals_of(template)


def _windowed_sinc(distance: NDArray[Any]) -> Array:
    """Weights of samples at distances in sampling intervals, of less than `CONTEXT`."""
    within = np.sqrt(np.maximum(1 - (distance / CONTEXT) ** 2, 0.0))
    weights = np.sinc(distance) * np.i0(KAISER_BETA * within) / np.i0(KAISER_BETA)
    return np.asarray(weights, dtype=np.float64)


@lru_cache(maxsize=64)
def _taps(parts: int) -> Array:
    return np.array([sinc_taps(j / parts) for j in range(parts)])


@lru_cache(maxsize=2048)
def sinc_taps(shift: float) -> Array:
    """Weights of the samples -63, ..., 64 about one for the input a ``shift`` after it, (128,)."""
    taps = np.arange(-CONTEXT + 1, CONTEXT + 1)
    weights = _windowed_sinc(taps - shift)
    weights.setflags(write=False)
    return weights


@dataclass(frozen=True)
class SharedGraphs:
    """Graphs, by the samples, of what all particles share at a step, an interval and a sample.

    window: (L width, 1), symbols of the last L samples, the latest last; where an interval is
        crossed that is the one at its end.
    width: Numbers of a sample.
    index: (4, 1) or (5, 1), symbols of the number of the step in its interval, of the steps of this
        interval, of all steps before the interval or the sample, of the sample or that before the
        interval, and, where intervals have parts, which are then meant by them, of the part.
    record: Symbols of the numbers of a record.
    values, interval_values: Symbols of the numbers of every step, and of every interval, that are
        known beside these.
    step, interval, sample: ``step_row``, ``interval_row`` and ``sample_row`` of a
        `smcpn.codegen.lower.LaneProgram`.
    """

    window: ca.SX
    width: int
    index: ca.SX
    record: ca.SX
    values: ca.SX
    interval_values: ca.SX
    step: ca.SX
    interval: ca.SX
    sample: ca.SX


class Signal:
    """Samples and the input between them as graphs, which all particles share.

    smooth: Whether the input is known by numbers of every step, and not by the samples alone.
    uniform: Whether all sampling intervals of a record are equally long.
    places: Points of a step, as fractions of it, at which `input` is needed.
    rates: Highest time derivative that is needed.
    degree: Of the polynomial of an interval, where `polynomial` is needed.
    before: Samples before an interval that are looked at besides the one that it begins with.
    more: Numbers of a sample behind its outputs.
    held: Last inputs that are numbers of the interval which ends at a sample.
    curves: Degree of the polynomials of past intervals, where `curve` is needed.
    parts: Equal parts of an interval, each of which begins like one: `spacing`, `steps` and what a
        step has are those of a part, and before the others than the first no `sample` is measured.
        Times of a step are since its part began, and inputs are those of the interval.
    looped: Whether the kernel loops over parts, or else over the steps of all of them.
    step, count: Number of a step in its interval, and the steps of this interval.
    steps: Steps of the record before an interval or up to a sample.
    number: Number in the record of the sample, or of the one before an interval.
    part: Number of the part of the interval.
    width: Numbers of a sample.
    linear, interval: Whether the input of the record is linear between samples, and its sampling
        interval.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        smooth: bool = False,
        uniform: bool = True,
        *,
        places: Sequence[float] = (),
        rates: int = 0,
        degree: int | None = None,
        before: int = 0,
        more: int = 0,
        curves: int | None = None,
        held: int = 0,
        parts: int = 1,
        looped: bool = True,
    ) -> None:
        n, self.held, self.curves, self.parts = n_inputs, held, curves, parts
        self._of_curves = 0 if curves is None else (curves + 1) * n
        more += self._of_curves
        self.n_inputs, self.n_outputs, self.more = n, n_outputs, more
        self.smooth, self.uniform, self.before = smooth and n > 0, uniform, before
        self.places, self.order, self.degree = tuple(places), rates, degree
        self.width = 1 + n + n_outputs + more
        self._window = ca.SX.sym("window", (2 + before) * self.width)
        self._index = ca.SX.sym("index", 4 + (looped and parts > 1))
        self.step, self.count, self.steps, self.number, *part = ca.vertsplit(self._index)
        self.part = part[0] if part else ca.SX(0.0)
        if parts > 1 and not looped:
            self.count = self.count * (1.0 / parts)
            self.part = ca.floor((self.step + 0.5) / self.count)
            self.step = self.step - self.part * self.count
        self._share = 1.0 / self.count
        self.linear, self.interval = ca.SX.sym("linear"), ca.SX.sym("interval")
        self._numbers = [self.linear, self.interval]
        of_step = len(self.places) if degree is None else degree + 1
        self._values = ca.SX.sym("values", n * of_step if self.smooth else 0)
        self._rates = ca.SX.sym("rates", n * rates if self.smooth else 0)
        self._halves = ca.SX.sym("halves", 2 * n if self.smooth and degree is not None else 0)

    @property
    def widths(self) -> tuple[int, int]:
        """Numbers of a step and of an interval, where the samples alone do not tell the input."""
        return self._values.numel(), self._rates.numel() + self._halves.numel()

    def constant(self, name: str) -> ca.SX:
        """Return the symbol of one more number of a record, behind `linear` and `interval`."""
        self._numbers.append(ca.SX.sym(name))
        return self._numbers[-1]

    def graphs(
        self, step: ca.SX | None = None, interval: ca.SX | None = None, sample: ca.SX | None = None
    ) -> SharedGraphs:
        """Rows of a program as graphs of the samples."""
        none = ca.SX(0, 1)
        return SharedGraphs(
            window=self._window,
            width=self.width,
            index=self._index,
            record=ca.vertcat(*self._numbers),
            values=self._values,
            interval_values=ca.vertcat(self._rates, self._halves),
            step=none if step is None else step,
            interval=none if interval is None else interval,
            sample=none if sample is None else sample,
        )

    def _sample(self, back: int) -> ca.SX:
        last = (2 + self.before - back) * self.width
        return self._window[last - self.width : last]

    def t(self, back: int = 0) -> ca.SX:
        """Time of a sample so many before the last one."""
        return self._sample(back)[0]

    def u(self, back: int = 0) -> ca.SX:
        """Inputs measured at a sample so many before the last one, (n, 1)."""
        return self._sample(back)[1 : 1 + self.n_inputs]

    @property
    def begin(self) -> ca.SX:
        """Inputs just after the sample that begins an interval, (n, 1)."""
        given = ca.vertsplit(self.u(1))[: self.n_inputs - self.held]
        return ca.vertcat(*given, self.of_interval)

    @property
    def of_interval(self) -> ca.SX:
        """Inputs that are numbers of an interval, (held, 1)."""
        return ca.vertcat(*ca.vertsplit(self.u())[self.n_inputs - self.held :])

    def others(self, back: int = 0) -> ca.SX:
        """Numbers of a sample behind its outputs, but for `curve`."""
        return self._sample(back)[self.width - self.more : self.width - self._of_curves]

    def curve(self, back: int, j: int) -> ca.SX:
        """Polynomial of an input over the interval from 0 to 1 that ends with a sample."""
        return self._sample(back)[self.width - self._of_curves + j :: self.n_inputs]

    def sample(self, back: int = 0) -> ca.SX:
        """Input, time, outputs (0 where missing) and whether each is present, of a sample."""
        n = 1 + self.n_inputs
        y = ca.vertsplit(self._sample(back)[n : n + self.n_outputs]) if self.n_outputs else []
        # A NaN is not less than anything.
        present = [value < np.inf for value in y]
        if back and self.parts > 1:
            present = [ca.logic_and(here, self.part == 0.0) for here in present]
        known = [
            applied("if_else_zero", [here, value]) for here, value in zip(present, y, strict=True)
        ]
        return ca.vertcat(self.u(back), self.t(back), *known, *present)

    @property
    def begin_time(self) -> ca.SX:
        """Time at the beginning of an interval."""
        return self.t(1) if self.parts == 1 else ca.SX(0.0)

    @property
    def end_time(self) -> ca.SX:
        """Time at the end of an interval."""
        return self.t() if self.parts == 1 else self.spacing

    @property
    def spacing(self) -> ca.SX:
        """Length of an interval."""
        return self.between_samples * (1.0 / self.parts) if self.parts > 1 else self.between_samples

    @property
    def between_samples(self) -> ca.SX:
        """Time between the samples about an interval."""
        return self.interval if self.uniform else self.t() - self.t(1)

    @property
    def gap(self) -> ca.SX:
        """Time to the next sample at the begin of an interval, 0 where later parts begin."""
        if self.parts == 1:
            return self.between_samples
        return ca.if_else(self.part == 0.0, self.between_samples, 0.0)

    @property
    def spacing_before(self) -> ca.SX:
        """Length of the interval before this one, where these are of different lengths."""
        before = self.t(1) - self.t(2)
        if self.parts == 1:
            return before
        return ca.if_else(self.part == 0.0, before * (1.0 / self.parts), self.spacing)

    @property
    def h(self) -> ca.SX:
        """Length of a step."""
        return self.spacing * self._share

    def time(self, place: float) -> ca.SX:
        """Time at a point of a step."""
        return self._along(self.begin_time, self.h, place)

    def input(self, place: float) -> ca.SX:
        """Input at a point of a step, (n, 1)."""
        if self.smooth:
            k, n = self.places.index(place), self.n_inputs
            return self._values[k * n : (k + 1) * n]
        return self._along(self.begin, self.rise * self._share, place)

    @property
    def rise(self) -> ca.SX:
        """Change of the input over an interval, (n, 1)."""
        return self.linear * (self.u() - self.begin)

    def _along(self, begin: ca.SX, change: ca.SX, place: float) -> ca.SX:
        """Value at a point of a step, of that which begins an interval and its change by a step.

        All but the number of the step is the same for all steps of an interval.
        """
        return (begin + place * change) + self.step * change

    @property
    def rates(self) -> list[ca.SX]:
        """Time derivatives of the input at the beginning of an interval, lowest first."""
        n = self.n_inputs
        if self.smooth:
            return [self._rates[k * n : (k + 1) * n] for k in range(self.order)]
        rates = [ca.SX.zeros(n, 1) for _ in range(self.order)]
        if rates and n:
            rates[0] = self.rise / self.spacing
        return rates

    @property
    def polynomial(self) -> ca.SX:
        """Coefficients of the input over an interval from -1 to 1, by powers, (n (degree + 1),)."""
        assert self.degree is not None
        if self.smooth:
            return self._values
        parts = [ca.SX.zeros(self.n_inputs, 1) for _ in range(self.degree + 1)]
        parts[1] = 0.5 * self.rise
        parts[0] = self.begin + parts[1]
        return ca.vertcat(*parts)

    @property
    def halves(self) -> ca.SX:
        """Input and time in the middle of an interval and at its end, (n + 1, 2)."""
        given = ca.horzcat(self.begin + 0.5 * self.rise, self.begin + self.rise)
        if self.smooth:
            given = ca.reshape(self._halves, self.n_inputs, 2)
        return ca.vertcat(given, ca.horzcat(self.begin_time + 0.5 * self.spacing, self.end_time))

    def numbers_of(self, record: Record, *others: float) -> Array:
        """Numbers of a record, the last ones of `constant`."""
        return np.array([float(record.hold == "foh"), record.interval, *others])

    def values_of(self, samples: Samples, a: int, b: int, steps: int) -> Array | None:
        """Numbers of the steps of the intervals between the samples [a, b), (m, steps, r)."""
        if not self.smooth:
            return None
        m, n = b - a - 1, self.n_inputs
        if self.degree is not None:
            made = samples.curves(a + 1, b, self.degree)
            return made.reshape(m, 1, (self.degree + 1) * n)
        # The least common denominator of all places.
        finer = next(k for k in range(1, 100) if all((k * p).is_integer() for p in self.places))
        values, template = np.empty((m, steps, len(self.places), n)), samples.template
        whole = template.periodic or template.u_function is not None
        together = max(m, 1) if whole else TOGETHER
        for begin in range(0, m, together):
            end = min(begin + together, m)
            points = samples.inputs(a + begin, a + end + 1, finer * steps)
            for k, place in enumerate(self.places):
                first = int(finer * place)
                some = points[:, first : first + finer * steps : finer]
                values[begin:end, :, k] = some[:, :steps]
        return values.reshape(m, steps, len(self.places) * n)

    def rates_of(self, samples: Samples, a: int, b: int) -> Array | None:
        """Numbers of the intervals between the samples [a, b), (m, q)."""
        if not self.widths[1]:
            return None
        numbers = samples.rates(a, b, self.order)
        if self._halves.numel():
            numbers = np.concatenate([numbers, samples.inputs(a, b, 2)[:, 1:]], axis=1)
        return np.ascontiguousarray(numbers.reshape(b - a - 1, self.widths[1]))
