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

so that each part begins and is stepped through as any interval between two samples.

An interval brings, of every delayed input, the samples between its least and its greatest dead
time. A particle picks its own and keeps in its state what it needs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log2
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.lower import LaneProgram
from smcpn.likelihood.diffusion import powered
from smcpn.likelihood.lanes import Grid
from smcpn.model.delay import BEGIN, END
from smcpn.model.dosing import CURVES, SMOOTH_DEGREE, ascending
from smcpn.model.problem import Model
from smcpn.model.signal import Samples, Signal

Array = NDArray[np.float64]


class DeadTimes:
    """Dead times in the graphs of a likelihood; without any, all stays as it is.

    grid: Of the records: `Grid.delays` and how inputs go on between samples.
    model: By the time of the kernel; its inputs are polynomials of a part of an interval.
    parts: Of an interval, see `smcpn.codegen.lower.LaneProgram.parts`.
    speed: Of time in a part.
    state, moving, row: What a particle keeps of a part, of which steps read ``moving``; and what
        samples tell.
    """

    def __init__(self, model: Model, grid: Grid) -> None:
        self._given, self.model, self.parts, self.speed = model, model, 1, ca.SX(1.0)
        self.moving = self.state = self.row = ca.SX(0, 1)
        self._lookup = None if model.delay is None else _Lookup(model, grid)
        if self._lookup is not None:
            self.parts = self._lookup.parts
            self._lay_out(self._lookup)
            self._change_time()

    def _lay_out(self, lookup: _Lookup) -> None:
        """Make the symbols of what a particle keeps of a part, and of what samples tell of it."""
        size, self._delayed = lookup.degree + 1, lookup.delay.inputs
        self._time, self.speed = ca.SX.sym("part_time"), ca.SX.sym("speed")
        self._curves = [ca.SX.sym(f"curve_{j}", 1, size) for j in range(self._given.u.numel())]
        self._ends = ca.SX.sym("ends", len(lookup.spans))
        self._known = ca.SX.sym("known", len(lookup.undelayed), size)
        self._part, self._sampled = ca.SX.sym("part"), ca.SX.sym("sampled")
        self.row = ca.vertcat(lookup.row, ca.vec(self._known), self._part, self._sampled)

    def _change_time(self) -> None:
        """Make the model by the time of the kernel."""
        # The time of the kernel is that since the part began.
        model, since = self._given, self._given.t
        inputs = [_horner(ca.horzsplit(curve), since) for curve in self._curves]
        known = ca.vertcat(model.u, model.t)
        moved = ca.vertcat(*inputs, self._time + since * self.speed)
        noise = model.process_noise
        if noise is not None:
            # A part of no length has no slope, either.
            root = ca.sqrt(ca.fmax(self.speed, np.finfo(float).tiny))
            columns = root * ca.substitute(noise.columns, known, moved)
            noise = replace(noise, columns=ca.sparsify(columns))
        rhs = model.at_speed(self.speed, ca.substitute(model.rhs, known, moved))
        graphs, events = [rhs], model.events
        if noise is not None:
            graphs.append(ca.vec(ca.densify(noise.columns)))
        if events is not None:
            events = replace(events, column=ca.substitute(events.column, known, moved))
            graphs.append(events.column)
        self.model = replace(model, rhs=rhs, process_noise=noise, events=events, delay=None)
        self._keep(graphs)

    def _keep(self, graphs: list[ca.SX]) -> None:
        """Have a particle keep what these graphs, or the outputs, depend on."""
        model = self._given
        moving = ca.vertcat(self._time, self.speed, *map(ca.vec, self._curves))
        moves = np.array(ca.which_depends(ca.vertcat(*graphs), moving, 1), dtype=bool)
        observed = ca.which_depends(ca.densify(self._at_samples), model.u, 1)
        seen = [model.density is not None or observed[j] for j in self._delayed]
        self._kept = np.flatnonzero([*moves, *seen]).tolist()
        self.moving = moving[np.flatnonzero(moves).tolist()]
        self.state = ca.vertcat(moving, self._ends)[self._kept]

    @property
    def _at_samples(self) -> ca.SX:
        """Graphs of the model as given that take the inputs at a sample, or at the first one."""
        model = self._given
        events = [] if model.events is None else [model.events.column]
        return ca.vertcat(model.outputs, model.rhs[list(model.algebraic)], *events)

    def signal(self, smooth: bool, uniform: bool, looped: bool = True, **options: Any) -> Signal:
        """The samples of a likelihood; arguments as of `Signal`, where nothing is delayed."""
        if self._lookup is not None:
            smooth, degree = False, self._lookup.degree
            # One more, so that the first sample has the interval before it.
            options["before"] = max(self._lookup.memory, options.get("before", 0))
            options |= {
                "parts": self.parts,
                "looped": looped,
                "curves": degree if degree > 1 else None,
            }
        model = self._given
        return Signal(model.u.numel(), model.measured, smooth, uniform, held=model.held, **options)

    def begin_time(self, t: ca.SX) -> ca.SX:
        """Time of the kernel at the beginning of an interval or part, of that at the sample."""
        return t if self._lookup is None else ca.SX(0.0)

    def at_first(self, value: ca.SX, other: ca.SX) -> ca.SX:
        """A value at the begin of the first part of an interval, and another one at the others."""
        return value if self._lookup is None else ca.if_else(self._part == 0.0, value, other)

    def while_lasting(self, value: ca.SX, other: ca.SX) -> ca.SX:
        """A value in a part of an interval that has a length, and another one in one of none."""
        lasts = self.speed > SIMULTANEOUS
        return value if self._lookup is None else ca.if_else(lasts, value, other)

    def growth(self, power: int) -> ca.SX:
        """A power of a part's length in a particle's own time over that in the kernel's."""
        if self._lookup is None:
            return self.speed
        # Residuals of a part that hardly is one are rounding.
        return powered(ca.fmax(self.speed, SHORTEST), power)

    def at_sample(self, u: ca.SX) -> ca.SX:
        """Inputs at the sample that ends an interval, of those that were measured there, (n, 1)."""
        # They are those at the end of a part, and a sample follows the last one.
        if self._lookup is None:
            return u
        values = ca.SX(u)
        for i, j in enumerate(self._delayed):
            values[j] = self._ends[i]
        return values

    def join(self, program: LaneProgram, signal: Signal) -> LaneProgram:
        """The program of `model`, whose particles keep what they need of a part."""
        if self._lookup is None:
            return program
        picked = self._picked(self._lookup)
        moved = replace(
            program,
            parts=self.parts,
            start_row=ca.vertcat(program.start_row, self.row),
            start=ca.substitute(program.start, self.state, picked),
            # The inputs at the sample before are those at the end of the part before.
            interval=ca.substitute(program.begun, self.moving, picked[: self.moving.numel(), :]),
        )
        reading = moved.reading(self.row, self._graph(self._lookup, signal))
        return reading.with_state(self.state, picked, picked)

    @property
    def memory(self) -> int:
        """Samples up to the begin of an interval whose inputs may arrive in it."""
        return 1 if self._lookup is None else self._lookup.memory

    def of_inputs(self, graph: ca.SX, inputs: ca.SX) -> ca.SX:
        """A graph of `row` where held inputs are a particle's own, and not those of samples.

        inputs: (n, memory), at the sample that begins an interval, and at those before it.
        """
        lookup = self._lookup
        if lookup is None:
            return graph
        values = [
            inputs[j, max(lag, 0)]
            for j, span in zip(lookup.delay.inputs, lookup.spans, strict=True)
            for lag in span.lags
        ]
        known, own = ca.SX(self._known), [j for j in lookup.undelayed if j < inputs.size1()]
        known[: len(own), 1:] = 0.0
        known[: len(own), 0] = inputs[own, 0]
        symbols = ca.vertcat(*map(ca.vec, lookup.samples), ca.vec(self._known))
        return ca.substitute(graph, symbols, ca.vertcat(*values, ca.vec(known)))

    def stateless(self, signal: Signal) -> ca.SX:
        """`state` in a part of an interval, or at the sample that ends it, by theta and samples."""
        if self._lookup is None:
            return self.state
        return ca.substitute(
            self._picked(self._lookup), self.row, self._graph(self._lookup, signal)
        )

    def _graph(self, lookup: _Lookup, signal: Signal) -> ca.SX:
        """`row` of a part, by the samples."""
        of_interval = lookup.interval_graph(signal), lookup.known_graph(signal)
        return ca.vertcat(*of_interval, signal.part, signal.t(1))

    def start(self, others: Array) -> Array | Callable[[Samples], Array]:
        """Numbers of the row of a start, behind others."""
        if self._lookup is None:
            return others
        return lambda samples: np.concatenate([others, self._start(samples)])

    def _start(self, samples: Samples) -> Array:
        """Numbers of the last part of the interval that ends with the first sample."""
        assert self._lookup is not None
        before, first = samples.columns(-1, 1)
        known, held = np.zeros(self._known.shape), self._given.held
        known[len(known) - held :, 0] = first[1 + self._given.u.numel() - held :][:held]
        known = known.ravel(order="F")
        return np.concatenate([self._lookup.start(samples), known, [self.parts - 1.0, before[0]]])

    def _picked(self, lookup: _Lookup) -> ca.SX:
        """Numbers that a particle keeps of a part."""
        numbers, edges = range(len(lookup.spans)), self._edges(lookup)
        arrivals, places = zip(*(lookup.arrivals(i, edges[0]) for i in numbers), strict=True)
        cuts = lookup.cuts(arrivals, edges)
        first, last = consecutive([edges[0], *cuts, edges[1]], self._part, 2, len(cuts))
        curves: dict[int, list[ca.SX]] = {}
        ends: list[ca.SX] = []
        for i, j in zip(numbers, lookup.delay.inputs, strict=True):
            number, middle = self._part, 0.5 * (first + last)
            if len(cuts) > lookup.spans[i].cuts or not lookup.uniform:
                # By the middle, since a cut and the arrival that it is may be rounded differently,
                # and what arrives after the interval cuts off a part of no length.
                number = sum((one <= middle for one in arrivals[i][1:-1]), ca.SX(0.0))
            about = consecutive(arrivals[i], number, 2, lookup.spans[i].cuts)
            piece = lookup.piece(i, about, places[i] + number)
            curves[j] = _shifted(piece.curve, first - about[0])
            ends.append(piece.end)
        pace = self.parts * (last - first) / lookup.length
        by_time = {j: [c * pace**m for m, c in enumerate(curve)] for j, curve in curves.items()}
        if lookup.lagged:
            # Of an interval in which no time passes all parts are at its begin.
            length = edges[1] - edges[0]
            share = ca.if_else(length > 0.0, 1.0 / ca.if_else(length > 0.0, length, 1.0), 0.0)
            first, last = share * (first - edges[0]), share * (last - edges[0])
        speed = self.parts * (last - first)
        pace = speed / lookup.length
        for k, j in enumerate(lookup.undelayed):
            known = _shifted(ca.horzsplit(self._known[k, :]), first)
            by_time[j] = [c * pace**m for m, c in enumerate(known)]
        each = [number for _, curve in sorted(by_time.items()) for number in curve]
        kept = ca.vertcat(self._sampled + first * lookup.length, speed, *each, *ends)
        return kept[self._kept]

    def _edges(self, lookup: _Lookup) -> tuple[ca.SX, ca.SX]:
        """Begin and end of an interval in a particle's own time, see `_Lookup.arrivals`."""
        model = self._given
        if not lookup.lagged:
            return ca.SX(0.0), ca.SX(1.0)
        assert model.dosing is not None
        held = self._known[self._known.size1() - model.held :, 0]
        edges = ca.substitute(model.dosing.edges(model), model.u[-model.held :], held)
        first, last = ca.vertsplit((edges - self._sampled) / lookup.length)
        return first, last


class Piece(NamedTuple):
    """A delayed input from one arrival of a sample to the next, and its value at the next sample.

    curve: Coefficients by powers of the time since the first arrival.
    """

    curve: list[ca.SX]
    end: ca.SX


class _Lookup:
    """Samples about an interval that a particle picks, by the dead times of its own."""

    def __init__(self, model: Model, grid: Grid) -> None:
        assert model.delay is not None
        self.spans, self.delay, self._theta = grid.delays, model.delay, model.theta
        self.lagged = self.delay.lagged
        self.uniform = not (grid.rescales or self.lagged)
        self.degree = SMOOTH_DEGREE if grid.smooth else 1
        self.memory = 1 + max(span.most for span in self.spans)
        self._cut_of = dict(zip(self.delay.keys, self.spans, strict=True))
        self.parts = 1 + sum(span.cuts for span in self._cut_of.values())
        self.undelayed = [j for j in range(model.u.numel()) if j not in self.delay.inputs]
        size = self.degree + 1 if grid.smooth else 1
        self.samples = [
            ca.SX.sym(f"samples_{i}", len(span.lags), size) for i, span in enumerate(self.spans)
        ]
        self._times = [
            ca.SX.sym(f"times_{i}", 0 if self.uniform else len(span.lags))
            for i, span in enumerate(self.spans)
        ]
        self._linear, self.length = ca.SX.sym("linear"), ca.SX.sym("interval")
        self.row = ca.vertcat(*map(ca.vec, self.samples), *self._times, self._linear, self.length)

    def cuts(self, arrivals: Sequence[list[ca.SX]], edges: tuple[ca.SX, ca.SX]) -> list[ca.SX]:
        """Times at which the interval between two others is cut, ascending."""
        inner = dict(zip(self.delay.keys, (each[1:-1] for each in arrivals), strict=True))
        cuts = [cut for each in inner.values() for cut in each]
        cuts = ascending(cuts) if len(inner) > 1 else cuts
        return cuts if self.uniform else [ca.fmin(ca.fmax(cut, edges[0]), edges[1]) for cut in cuts]

    def arrivals(self, i: int, begin: ca.SX) -> tuple[list[ca.SX], ca.SX]:
        """Times at which the samples about an interval arrive, and the place of the first of them.

        The first one is the last to arrive before the interval. Times count from the sample that
        begins the interval, which is their unit, and ``begin`` is that of a particle's own.
        """
        span, seconds = self.spans[i], self.delay.seconds(self._theta)[i]
        if self.uniform:
            number = seconds / self.length
            whole = ca.fmin(ca.fmax(ca.floor(number), span.least - 1), span.most - 1)
            fraction = number - whole
            return [fraction + (k - 1) for k in range(3)], span.most - 1 - whole
        times = [(time + seconds) / self.length for time in ca.vertsplit(self._times[i])]
        later = times[1 : span.most - span.least + 1]
        place = sum((time <= begin for time in later), ca.SX(0.0))
        return consecutive(times, place, span.cuts + 2, span.most - span.least), place

    def piece(self, i: int, arrivals: list[ca.SX], place: ca.SX) -> Piece:
        """A delayed input between two arrivals, of which the first has a place among the samples.

        arrivals: Of these two.
        """
        begin, end = arrivals
        length = ca.SX(1.0) if self.uniform else end - begin
        span = self.spans[i]
        most = span.most - span.least + span.cuts
        columns = [ca.vertsplit(column) for column in ca.horzsplit(self.samples[i])]
        if self.degree > 1:
            # The polynomial stands with the sample at its end.
            picked = [consecutive(column[1:], place, 1, most)[0] for column in columns]
            curve = [c * (1.0 / length) ** m for m, c in enumerate(picked)]
            return Piece(curve, _horner(curve, 1.0 - begin))
        here, there = consecutive(columns[0], place, 2, most)
        curve = [here, self._linear * (there - here) / length]
        # A held input has the value of the sample that arrives just then.
        held = ca.if_else(end < 1.0 + SIMULTANEOUS, there, here)
        return Piece(curve, ca.if_else(self._linear, _horner(curve, 1.0 - begin), held))

    def interval_graph(self, signal: Signal) -> ca.SX:
        """`row` of an interval, of its samples and those before."""
        columns: list[ca.SX] = []
        end = signal.of_interval[END] if self.lagged else signal.t()
        for j, span in zip(self.delay.inputs, self.spans, strict=True):
            of_lag = [
                self._until(signal, j, end) if lag < 0 and self.lagged
                else signal.curve(max(lag + 1, 0), j) if signal.curves
                else signal.u(max(lag + 1, 0))[j]
                for lag in span.lags
            ]  # fmt: skip
            columns += [ca.horzcat(*of_lag).T[:]]
        times = [
            (end if lag < 0 else signal.t(lag + 1))
            - signal.t(1)
            - min(lag + 1, 0) * signal.between_samples
            for span in self.spans
            for lag in ([] if self.uniform else span.lags)
        ]
        return ca.vertcat(*columns, *times, signal.linear, signal.between_samples)

    def _until(self, signal: Signal, j: int, end: ca.SX) -> ca.SX:
        """Stand-in for an input with the sample that ends an interval, prolonged to a time.

        A particle's own time may be after that sample, where it was put in for an arrival.
        """
        begin, length = signal.t(1), end - signal.t(1)
        if not signal.curves:
            ahead = length / signal.between_samples - 1.0
            return signal.u()[j] + signal.linear * ahead * (signal.u() - signal.u(1))[j]
        known = signal.of_interval
        curve = known[CURVES + j :: signal.n_inputs - signal.held][: self.degree + 1]
        moved = _shifted(ca.vertsplit(curve), begin - known[BEGIN])
        return ca.vertcat(*(c * length**m for m, c in enumerate(moved)))

    def known_graph(self, signal: Signal) -> ca.SX:
        """Coefficients of the undelayed inputs over an interval, which is their unit of time."""
        if signal.curves:
            known = [signal.curve(0, j).T for j in self.undelayed]
        else:
            known = [ca.horzcat(signal.begin[j], signal.rise[j]) for j in self.undelayed]
        return ca.vec(ca.vertcat(*known))

    def start(self, samples: Samples) -> Array:
        """`row` of the interval that ends with the first sample."""
        record, n = samples.template, 1 + samples.template.n_inputs
        self.delay.spans([record])
        columns = samples.columns(-self.memory, 1)
        kept: list[Array] = []
        curves = samples.curves(-self.memory, 1, self.degree, 0.0) if self.degree > 1 else None
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


SIMULTANEOUS = 1e-9
"""Part of a sampling interval below which a sample arrives at the end of an interval."""
FEW = 12
"""Places that are compared one by one."""
SHORTEST = 1e-2
"""Speed of time below which residuals say as much as if it were that."""


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
