"""Dead time of inputs: u(t - tau) for every particle, exact for the record's hold.

An input that is held or linear between samples jumps or bends where a sample arrives, for a dead
time tau = (m + r) dt at the fraction r of every sampling interval. The interval is cut there, and
each part takes the steps of a whole interval, of its own length: no step sees a jump, and the
order of convergence is kept. Lengths are functions of tau, so that derivatives by tau are those of
the steps; m, which is constant but for jumps where r is 0, has none. Several dead times cut the
interval at each of their fractions, and samples that are not equally spaced cut it wherever one of
them arrives, into as many parts as any interval of the records needs. An input that is smooth
between samples is the polynomial of degree eight through nine of its points in each interval.

`DeadTimes` changes time, as doses with a lag do (`smcpn.model.dosing`): the parts of a kernel are
equally long, and in one of them a particle's time T runs at the speed w, from one cut to the next,

    dx/ds = w f(x, u(T - tau), T),   T = first + w (s - s_0),

so that each part begins and is stepped through as any interval between two samples. A `DelayLine`
has the steps themselves, of lengths that particles do not share.

An interval brings, of every delayed input, the samples between its least and its greatest dead
time. A particle picks its own and keeps in its state what it needs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import log2
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.lower import LaneProgram
from smcpn.likelihood.diffusion import powered
from smcpn.likelihood.lanes import Grid
from smcpn.model.dosing import ascending
from smcpn.model.problem import Model
from smcpn.model.signal import Samples, Signal

Array = NDArray[np.float64]


class DeadTimes:
    """Dead times in the graphs of a likelihood; without any, all stays as it is.

    Parameters
    ----------
    model : Model
    grid : Grid
        Of the records: `Grid.delays` and how inputs go on between samples.

    Attributes
    ----------
    model : Model
        By the time of the kernel; its inputs are polynomials of a part of an interval.
    parts : int
        Of an interval, see `smcpn.codegen.lower.LaneProgram.parts`.
    speed : casadi.SX
        Of time in a part.
    """

    def __init__(self, model: Model, grid: Grid) -> None:
        self._given, self.model, self.parts, self.speed = model, model, 1, ca.SX(1.0)
        self._lookup = None if model.delay is None else _Lookup(model, grid)
        if self._lookup is not None:
            self.parts = self._lookup.parts
            self._lay_out(self._lookup)
            self._change_time()

    def _lay_out(self, lookup: _Lookup) -> None:
        """Make the symbols of what a particle keeps of a part, and of what samples tell of it."""
        size = lookup.degree + 1
        names = ("part_begin", "part_time", "pace", "speed")
        self._begin, self._time, self._pace, self.speed = map(ca.SX.sym, names)
        self._curves = [ca.SX.sym(f"curve_{j}", 1, size) for j in range(self._given.u.numel())]
        self._ends = ca.SX.sym("ends", len(lookup.spans))
        self._moving = ca.vertcat(
            self._begin, self._time, self._pace, self.speed, *map(ca.vec, self._curves)
        )
        self._known = ca.SX.sym("known", len(lookup.undelayed), size)
        names = ("part", "sampled", "begun")
        self._part, self._sampled, self._begun = map(ca.SX.sym, names)
        self._row = ca.vertcat(
            lookup.row, ca.vec(self._known), self._part, self._sampled, self._begun
        )

    def _change_time(self) -> None:
        """Make the model by the time of the kernel."""
        model, since = self._given, self._given.t - self._begin
        inputs = [_horner(ca.horzsplit(curve), since * self._pace) for curve in self._curves]
        known = ca.vertcat(model.u, model.t)
        moved = ca.vertcat(*inputs, self._time + since * self.speed)
        noise = model.process_noise
        if noise is not None:
            # A part of no length has no slope, either.
            root = ca.sqrt(ca.fmax(self.speed, np.finfo(float).tiny))
            columns = root * ca.substitute(noise.columns, known, moved)
            noise = replace(noise, columns=ca.sparsify(columns))
        rhs = self.speed * ca.substitute(model.rhs, known, moved)
        self.model = replace(model, rhs=rhs, process_noise=noise, delay=None)

    def signal(self, smooth: bool, uniform: bool, **options: Any) -> Signal:
        """The samples of a likelihood; arguments as of `Signal`, where nothing is delayed."""
        if self._lookup is not None:
            smooth, degree = False, self._lookup.degree
            # One more, so that the first sample has the interval before it.
            options["before"] = max(self._lookup.memory, options.get("before", 0))
            options |= {"parts": self.parts, "curves": degree if degree > 1 else None}
        model = self._given
        return Signal(model.u.numel(), model.measured, smooth, uniform, held=model.held, **options)

    def at_first(self, value: ca.SX, other: ca.SX) -> ca.SX:
        """A value at the begin of the first part of an interval, and another one at the others."""
        return value if self._lookup is None else ca.if_else(self._part == 0.0, value, other)

    def growth(self, power: int) -> ca.SX:
        """A power of a part's length in a particle's own time over that in the kernel's."""
        # Residuals of a part that hardly is one are rounding.
        return powered(ca.fmax(self.speed, SHORTEST), power)

    def at_sample(self, u: ca.SX) -> ca.SX:
        """Inputs at the sample that ends an interval, of those that were measured there, (n, 1)."""
        if self._lookup is None:
            return u
        values = ca.SX(u)
        for i, j in enumerate(self._lookup.delay.inputs):
            values[j] = self._ends[i]
        return values

    def join(self, program: LaneProgram, signal: Signal) -> LaneProgram:
        """The program of `model`, whose particles keep what they need of a part."""
        if self._lookup is None:
            return program
        shared, picked = program.shared, self._picked(self._lookup)
        assert shared is not None
        row = ca.vertcat(
            self._lookup.interval_graph(signal),
            self._lookup.known_graph(signal),
            signal.part,
            signal.t(1),
            signal.begin_time,
        )
        begun = program.state if program.interval is None else program.interval
        state = ca.vertcat(self._moving, self._ends)
        return replace(
            program,
            parts=self.parts,
            shared=replace(shared, interval=ca.vertcat(shared.interval, row)),
            state=ca.vertcat(program.state, state),
            start_row=ca.vertcat(program.start_row, self._row),
            start=ca.vertcat(ca.substitute(program.start, state, picked), picked),
            interval_row=ca.vertcat(program.interval_row, self._row),
            # The inputs at the sample before are those at the end of the part before.
            interval=ca.vertcat(
                ca.substitute(begun, self._moving, picked[: self._moving.numel()]), picked
            ),
            step=ca.vertcat(program.step, state),
        )

    def start(self, others: Array) -> Array | Callable[[Samples], Array]:
        """Numbers of the row of a start, behind others."""
        if self._lookup is None:
            return others
        return lambda samples: np.concatenate([others, self._start(samples)])

    def _start(self, samples: Samples) -> Array:
        """Numbers of the last part of the interval that ends with the first sample."""
        assert self._lookup is not None
        before, first = samples.columns(-1, 1)[:, 0]
        begun = first - (first - before) / self.parts
        known = np.zeros(self._known.numel())
        part = [self.parts - 1.0, before, begun]
        return np.concatenate([self._lookup.start(samples), known, part])

    def _picked(self, lookup: _Lookup) -> ca.SX:
        """Numbers that a particle keeps of a part."""
        numbers = range(len(lookup.spans))
        arrivals, places = zip(*map(lookup.arrivals, numbers), strict=True)
        cuts = lookup.cuts(arrivals)
        edges = [ca.SX(0.0), *cuts, ca.SX(1.0)]
        first, last = self._of_part(edges[:-1]), self._of_part(edges[1:])
        curves: dict[int, ca.SX] = {}
        ends: list[ca.SX] = []
        for i, j in zip(numbers, lookup.delay.inputs, strict=True):
            picked = lookup.picked(i, places[i])
            between = lookup.between(picked, arrivals[i])
            if len(cuts) == lookup.spans[i].cuts:
                curve, origin = self._of_part(between), self._of_part(arrivals[i][:-1])
            else:
                # By the middle, since a cut and the arrival that it is may be rounded differently.
                curve, origin = _latest(between, arrivals[i], 0.5 * (first + last))
            curves[j] = ca.vertcat(*_shifted(ca.horzsplit(curve), first - origin))
            ends.append(lookup.end(picked, between, arrivals[i]))
        for k, j in enumerate(lookup.undelayed):
            curves[j] = ca.vertcat(*_shifted(ca.horzsplit(self._known[k, :]), first))
        speed, length = self.parts * (last - first), lookup.length
        return ca.vertcat(
            self._begun, self._sampled + first * length, speed / length, speed,
            *(curves[j] for j in range(len(self._curves))), *ends,
        )  # fmt: skip

    def _of_part(self, values: Sequence[ca.SX]) -> ca.SX:
        """The value for the part, of those for all parts."""
        chosen = [(self._part == k) * value for k, value in enumerate(values)]
        return sum(chosen[1:], chosen[0])


class _Lookup:
    """Samples about an interval that a particle picks, by the dead times of its own."""

    def __init__(self, model: Model, grid: Grid) -> None:
        assert model.delay is not None
        self.spans, self.delay, self._theta = grid.delays, model.delay, model.theta
        self.uniform, self.degree = not grid.rescales, SMOOTH_DEGREE if grid.smooth else 1
        self.memory = 1 + max(span.most for span in self.spans)
        self._cut_of = dict(zip(self.delay.keys, self.spans, strict=True))
        self.parts = 1 + sum(span.cuts for span in self._cut_of.values())
        self.undelayed = [j for j in range(model.u.numel()) if j not in self.delay.inputs]
        size = self.degree + 1 if grid.smooth else 1
        self._samples = [
            ca.SX.sym(f"samples_{i}", len(span.lags), size) for i, span in enumerate(self.spans)
        ]
        self._times = [
            ca.SX.sym(f"times_{i}", 0 if self.uniform else len(span.lags))
            for i, span in enumerate(self.spans)
        ]
        self._linear, self.length = ca.SX.sym("linear"), ca.SX.sym("interval")
        self.row = ca.vertcat(*map(ca.vec, self._samples), *self._times, self._linear, self.length)

    def cuts(self, arrivals: Sequence[list[ca.SX]]) -> list[ca.SX]:
        """Times at which the interval is cut, ascending."""
        inner = dict(zip(self.delay.keys, (each[1:-1] for each in arrivals), strict=True))
        cuts = [cut for each in inner.values() for cut in each]
        cuts = ascending(cuts) if len(inner) > 1 else cuts
        return cuts if self.uniform else [ca.fmin(ca.fmax(cut, 0.0), 1.0) for cut in cuts]

    def arrivals(self, i: int) -> tuple[list[ca.SX], ca.SX]:
        """Times at which the samples about an interval arrive, and the place of the first of them.

        The first one is the last to arrive before the interval. Times count from the beginning of
        the interval, which is their unit.
        """
        span, seconds = self.spans[i], self.delay.seconds(self._theta)[i]
        if self.uniform:
            number = seconds / self.length
            whole = ca.fmin(ca.fmax(ca.floor(number), span.least - 1), span.most - 1)
            fraction = number - whole
            return [fraction + (k - 1) for k in range(3)], span.most - 1 - whole
        times = [(time + seconds) / self.length for time in ca.vertsplit(self._times[i])]
        later = times[1 : span.most - span.least + 1]
        place = sum((time <= 0.0 for time in later), ca.SX(0.0))
        return consecutive(times, place, span.cuts + 2, span.most - span.least), place

    def picked(self, i: int, place: ca.SX) -> list[list[ca.SX]]:
        """Samples of a delayed input about the interval, of every number that a sample has."""
        span = self.spans[i]
        return [
            consecutive(ca.vertsplit(column), place, span.cuts + 2, span.most - span.least)
            for column in ca.horzsplit(self._samples[i])
        ]

    def end(self, picked: list[list[ca.SX]], between: list[ca.SX], arrivals: list[ca.SX]) -> ca.SX:
        """A delayed input at the sample that ends the interval."""
        curve, origin = _latest(between, arrivals, ca.SX(1.0))
        end = _horner(ca.horzsplit(curve), 1.0 - origin)
        if self.degree > 1:
            return end
        # A held input has the value of the sample that arrives just then.
        held = picked[0][0]
        for value, arrival in zip(picked[0][1:], arrivals[1:], strict=True):
            held = ca.if_else(arrival < 1.0 + SIMULTANEOUS, value, held)
        return ca.if_else(self._linear, end, held)

    def between(self, picked: list[list[ca.SX]], arrivals: list[ca.SX]) -> list[ca.SX]:
        """Coefficients by the time since each arrival, up to the next one, (1, degree + 1) each."""
        made: list[ca.SX] = []
        for k, (begin, end) in enumerate(pairwise(arrivals)):
            length = ca.SX(1.0) if self.uniform else end - begin
            if self.degree == 1:
                here, there = picked[0][k : k + 2]
                made.append(ca.horzcat(here, self._linear * (there - here) / length))
                continue
            # The polynomial goes from -1 to 1, and stands with the sample at its end.
            coefficients = _shifted([column[k + 1] for column in picked], ca.SX(-1.0))
            scaled = [c * (2.0 / length) ** m for m, c in enumerate(coefficients)]
            made.append(ca.horzcat(*scaled))
        return made

    def interval_graph(self, signal: Signal) -> ca.SX:
        """`row` of an interval, of its samples and those before."""
        columns: list[ca.SX] = []
        for j, span in zip(self.delay.inputs, self.spans, strict=True):
            backs = [max(lag + 1, 0) for lag in span.lags]
            of_lag = [signal.curve(k, j) if signal.curves else signal.u(k)[j] for k in backs]
            columns += [ca.horzcat(*of_lag).T[:]]
        times = [
            signal.t(max(lag + 1, 0)) - signal.t(1) - min(lag + 1, 0) * signal.between_samples
            for span in self.spans
            for lag in ([] if self.uniform else span.lags)
        ]
        return ca.vertcat(*columns, *times, signal.linear, signal.between_samples)

    def known_graph(self, signal: Signal) -> ca.SX:
        """Coefficients of the undelayed inputs over an interval, which is their unit of time."""
        if signal.curves:
            half = [_shifted(ca.vertsplit(signal.curve(0, j)), ca.SX(-1.0)) for j in self.undelayed]
            known = [ca.horzcat(*[c * 2.0**m for m, c in enumerate(each)]) for each in half]
        else:
            known = [ca.horzcat(signal.begin[j], signal.rise[j]) for j in self.undelayed]
        return ca.vec(ca.vertcat(*known))

    def start(self, samples: Samples) -> Array:
        """`row` of the interval that ends with the first sample."""
        record, n = samples.template, 1 + samples.template.n_inputs
        self.delay.spans([record])
        columns = samples.columns(-self.memory, 1)
        kept: list[Array] = []
        curves = samples.curves(-self.memory, 1, self.degree) if self.degree > 1 else None
        for j, span in zip(self.delay.inputs, self.spans, strict=True):
            places = [-2 - max(lag, -1) for lag in span.lags]
            known = columns[:, 1:n] if curves is None else curves
            kept.append(known[places, ..., j].T.ravel())
        interval = columns[-1, 0] - columns[-2, 0]
        times = [
            columns[-2 - max(lag, -1), 0] - columns[-2, 0] - min(lag + 1, 0) * interval
            for span in self.spans
            for lag in ([] if self.uniform else span.lags)
        ]
        unit = record.interval if self.uniform else interval
        return np.concatenate([*kept, times, [float(record.hold == "foh"), unit]])


class DelayLine:
    """The inputs of one particle during a sampling interval, as graphs.

    Parameters
    ----------
    model : Model
        With a delay.
    grid : Grid
        Of the records: `Grid.delays` and how inputs go on between samples.
    places : int
        Points of a step at which the input is needed.

    Attributes
    ----------
    parts : int
        Into which an interval is cut.
    memory : int
        Samples before an interval that it may depend on.
    state : casadi.SX
        Where the interval is cut, as fractions of it; of each delayed input in each part its
        coefficients, a polynomial of the time since the part began in units of the interval; and
        its value at the sample that ends the interval.
    row : casadi.SX
        What an interval brings: of each delayed input its latest samples, or the polynomials
        between them, whether it is linear in between, the length of the interval and, where
        samples are not equally spaced, the times of the latest ones since it began.
    step_row : casadi.SX
        What a step brings: coefficients of the undelayed inputs over the interval, the time at
        which it begins, its length.
    gain_row : casadi.SX
        What recurs in every interval: which part a step is in, its points as fractions of it.
    share : casadi.SX
        Length of a step over that of its part.
    """

    def __init__(self, model: Model, grid: Grid, places: int) -> None:
        self.model, self.lookup = model, _Lookup(model, grid)
        self.spans, self.delay, self.degree = (
            self.lookup.spans,
            self.lookup.delay,
            self.lookup.degree,
        )
        self.memory, self.parts = self.lookup.memory, self.lookup.parts
        self.row, self.interval_graph = self.lookup.row, self.lookup.interval_graph
        self.start = self.lookup.start
        self._cuts = ca.SX.sym("cuts", self.parts - 1)
        self._curves = [
            ca.SX.sym(f"curve_{i}", self.parts, self.degree + 1) for i in range(len(self.spans))
        ]
        self._ends = ca.SX.sym("ends", len(self.spans))
        self.state = ca.vertcat(self._cuts, *map(ca.vec, self._curves), self._ends)
        self._part, self._points = ca.SX.sym("part", self.parts), ca.SX.sym("points", places)
        self._known = ca.SX.sym("known", len(self.undelayed), self.degree + 1)
        self._begin, self._length = ca.SX.sym("begin"), ca.SX.sym("length")
        self.step_row = ca.vertcat(ca.vec(self._known), self._begin, self._length)
        self.gain_row = ca.vertcat(self._part, self._points)
        self.share = ca.SX.sym("share")

    @classmethod
    def of(cls, model: Model, grid: Grid, places: int) -> DelayLine | None:
        """Make the symbols; None for a model without delay."""
        return None if model.delay is None else cls(model, grid, places)

    @cached_property
    def signal(self) -> Signal:
        """The samples of which `interval_graph` and `step_graph` are graphs."""
        model = self.model
        return Signal(
            model.u.numel(),
            model.measured,
            uniform=self.lookup.uniform,
            # One more, so that the first sample has the interval before it.
            before=self.memory,
            curves=self.degree if self.degree > 1 else None,
            held=model.held,
        )

    @property
    def undelayed(self) -> list[int]:
        """Numbers of the other inputs."""
        return self.lookup.undelayed

    @property
    def part(self) -> ca.SX:
        """Length of the part that a step is in, as a fraction of the interval."""
        return self.of_part(self.lengths)

    @property
    def lengths(self) -> list[ca.SX]:
        """Lengths of all parts, as fractions of the interval."""
        edges = [ca.SX(0.0), *ca.vertsplit(self._cuts), ca.SX(1.0)]
        # Nothing divides by a part without length, and the noise of its steps has a derivative.
        return [end - begin + SHORTEST_PART for begin, end in pairwise(edges)]

    @property
    def h(self) -> ca.SX:
        """Length of a step in seconds."""
        return self._length * self.part * self.share

    def of_part(self, values: Sequence[ca.SX]) -> ca.SX:
        """The value for the part that a step is in, of those for all parts."""
        return ca.dot(self._part, ca.vertcat(*values))

    def time(self, point: int | None) -> ca.SX:
        """Time at a point of a step, by its number; None is the beginning of the part."""
        return self._begin + self._length * (self._first + self._since(point))

    def input(self, point: int | None) -> ca.SX:
        """All inputs at a point as of `time`, (n, 1)."""
        return self.rates(point, 0)[0]

    def rates(self, point: int | None, order: int) -> list[ca.SX]:
        """All inputs and their time derivatives up to an order at a point, (n, 1) each."""
        since = self._since(point)
        found = [ca.SX.zeros(self.model.u.numel(), 1) for _ in range(order + 1)]
        curves = {j: (self._known[k, :], self._first + since) for k, j in enumerate(self.undelayed)}
        for curve, j in zip(self._curves, self.delay.inputs, strict=True):
            curves[j] = ca.mtimes(self._part.T, curve), since
        for j, (curve, place) in curves.items():
            coefficients = ca.horzsplit(curve)
            for k, values in enumerate(found[: self.degree + 1]):
                values[j] = _horner(coefficients, place) / self._length**k
                coefficients = [m * c for m, c in enumerate(coefficients)][1:]
        return found

    def at_sample(self, u: ca.SX) -> ca.SX:
        """Inputs at the sample that ends an interval, of those that were measured there, (n, 1)."""
        values = ca.SX(u)
        for i, j in enumerate(self.delay.inputs):
            values[j] = self._ends[i]
        return values

    def picked(self) -> ca.SX:
        """Samples of an interval that a particle keeps in its next `state`."""
        lookup = self.lookup
        arrivals, places = zip(*map(lookup.arrivals, range(len(self.spans))), strict=True)
        cuts = lookup.cuts(arrivals)
        kept = [self._pieces(i, arrivals[i], places[i], cuts) for i in range(len(places))]
        curves, ends = zip(*kept, strict=True)
        return ca.vertcat(*cuts, *map(ca.vec, curves), *ends)

    def _pieces(
        self, i: int, arrivals: list[ca.SX], place: ca.SX, cuts: list[ca.SX]
    ) -> tuple[ca.SX, ca.SX]:
        """Coefficients of a delayed input in all parts, (parts, degree + 1), and its end."""
        span, picked = self.spans[i], self.lookup.picked(i, place)
        between = self.lookup.between(picked, arrivals)
        rows: list[ca.SX] = []
        for part, (begin, end) in enumerate(pairwise([ca.SX(0.0), *cuts, ca.SX(1.0)])):
            # By the middle of the part, since a cut and the arrival that it is may be rounded
            # differently.
            curve, origin = _latest(between, arrivals, 0.5 * (begin + end))
            if len(cuts) == span.cuts:
                curve, origin = between[part], arrivals[part]
            rows.append(ca.horzcat(*_shifted(ca.horzsplit(curve), begin - origin)))
        end = self.lookup.end(picked, between, arrivals)
        return ca.vertcat(*rows), end

    def join(self, program: LaneProgram, signal: Signal) -> LaneProgram:
        """The program of a recursion whose steps are those of this line, and their rows its own."""
        begun = program.state if program.interval is None else program.interval
        shared = program.shared
        assert shared is not None
        return replace(
            program,
            shared=replace(
                shared, interval=ca.vertcat(shared.interval, self.interval_graph(signal))
            ),
            state=ca.vertcat(program.state, self.state),
            start_row=ca.vertcat(program.start_row, self.row),
            start=ca.vertcat(program.start, self.picked()),
            interval_row=ca.vertcat(program.interval_row, self.row),
            interval=ca.vertcat(begun, self.picked()),
            step=ca.vertcat(program.step, self.state),
        )

    def stateless(self, signal: Signal) -> ca.SX:
        """`state` in an interval and at the sample that ends it, by theta and samples alone."""
        return ca.substitute(self.picked(), self.row, self.interval_graph(signal))

    def step_graph(self, signal: Signal) -> ca.SX:
        """`step_row` of a step."""
        known = self.lookup.known_graph(signal)
        return ca.vertcat(known, signal.t(1), signal.spacing)

    def gains(self, number: int, points: Array) -> Array:
        """`gain_row` of the steps of an interval, (parts number, g).

        Parameters
        ----------
        number : int
            Steps of a part.
        points : ndarray, (number, places)
            Points of each as fractions of the part.
        """
        parts = np.repeat(np.eye(self.parts), number, axis=0)
        return np.column_stack([parts, np.tile(points, (self.parts, 1))])

    @property
    def _first(self) -> ca.SX:
        """Begin of the part of a step, as a fraction of the interval."""
        return self.of_part([ca.SX(0.0), *ca.vertsplit(self._cuts)])

    def _since(self, point: int | None) -> ca.SX:
        """Time since then, in the same unit."""
        return ca.SX(0.0) if point is None else self._points[point] * self.part


SIMULTANEOUS = 1e-9
"""Part of a sampling interval below which a sample arrives at the end of an interval."""
FEW = 12
"""Places that are compared one by one."""
SHORTEST = 1e-2
"""Speed of time below which residuals say as much as if it were that."""
SHORTEST_PART = 1e-14
"""Length of a part in which no time passes, as a fraction of its interval."""
SMOOTH_DEGREE = 8
"""Of the polynomials of an input that is smooth between samples, through nine points."""


def _horner(coefficients: Sequence[ca.SX], x: ca.SX) -> ca.SX:
    """Value of a polynomial, of its coefficients by powers."""
    value = ca.SX(0.0)
    for coefficient in reversed(coefficients):
        value = coefficient + value * x
    return value


def _shifted(coefficients: Sequence[ca.SX], by: ca.SX) -> list[ca.SX]:
    """Coefficients of the polynomial of x + ``by``, as a function of x."""
    shifted = list(coefficients)
    for k in range(len(shifted) - 1):
        for m in range(len(shifted) - 2, k - 1, -1):
            shifted[m] += by * shifted[m + 1]
    return shifted


def _latest(curves: Sequence[ca.SX], arrivals: Sequence[ca.SX], time: ca.SX) -> tuple[ca.SX, ca.SX]:
    """The curve that began last at a time, and when."""
    curve, origin = curves[0], arrivals[0]
    for other, begin in zip(curves[1:], arrivals[1:], strict=False):
        begun = begin <= time
        curve, origin = ca.if_else(begun, other, curve), ca.if_else(begun, begin, origin)
    return curve, origin


def consecutive(values: Sequence[ca.SX], begin: ca.SX, size: int, most: int) -> list[ca.SX]:
    """So many values from number ``begin`` on, which is 0, 1, ..., or ``most``.

    Where there are many places, first a block of values that has them, then those of the block.
    """
    places = range(most + 1)
    if most < FEW:
        weights = [begin == place for place in places]
        return [ca.dot(ca.vertcat(*weights), ca.vertcat(*values[k : k + most + 1]))
                for k in range(size)]  # fmt: skip
    block = 2 ** round(log2(most + 1) / 2)
    number = ca.floor(begin / block)
    known = [*values, *[ca.SX(0.0)] * block]
    weights = [(number == place // block, place) for place in places[::block]]
    within = [
        sum((weight * known[place + k] for weight, place in weights), ca.SX(0.0))
        for k in range(block + size - 1)
    ]
    return consecutive(within, begin - block * number, size, block - 1)
