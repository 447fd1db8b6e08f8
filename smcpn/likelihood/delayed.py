"""Dead time of inputs: u(t - tau) along the steps of one particle, exact for the record's hold.

An input that is held or linear between samples jumps or bends where a sample arrives, for a dead
time tau = (m + r) dt at the fraction r of every sampling interval. The interval is cut there, and
each part takes the steps of a whole interval, of its own length: no step sees a jump, and the
order of convergence is kept. Lengths are functions of tau, so that derivatives by tau are those of
the steps; m, which is constant but for jumps where r is 0, has none. Several dead times cut the
interval at each of their fractions.

An interval brings, of every delayed input, the samples between its least and its greatest dead
time. A particle picks its own at the beginning of an interval and keeps them in its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import log2

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.lower import LaneProgram
from smcpn.model.dosing import ascending
from smcpn.model.problem import Model
from smcpn.model.signal import Samples, Signal

Array = NDArray[np.float64]
Ranges = tuple[tuple[int, int], ...]


class DelayLine:
    """The inputs of one particle during a sampling interval, as graphs.

    Parameters
    ----------
    model : Model
        With a delay.
    ranges : tuple of (int, int)
        Least and greatest number of whole sampling intervals in each dead time.
    places : int
        Points of a step at which the input is needed.

    Attributes
    ----------
    parts : int
        Into which an interval is cut.
    memory : int
        Samples before an interval that it may depend on.
    state : casadi.SX
        Where the interval is cut, as fractions of it, and of each delayed input its value at the
        beginning of each part and its slope there, for the interval as unit of time, and its value
        at the sample that ends the interval.
    row : casadi.SX
        What an interval brings: of each delayed input its latest samples, whether it is linear in
        between, and the length of the interval.
    step_row : casadi.SX
        What a step brings: undelayed inputs and their increment over the interval, the time at
        which it begins, its length.
    gain_row : casadi.SX
        What recurs in every interval: which part a step is in, its points as fractions of it.
    share : casadi.SX
        Length of a step over that of its part.
    """

    def __init__(self, model: Model, ranges: Ranges, places: int) -> None:
        assert model.delay is not None
        self.model, self.ranges, self.delay = model, ranges, model.delay
        self.memory = 2 + max(most for _, most in ranges)
        self._samples = [ca.SX.sym(f"samples_{i}", b - a + 3) for i, (a, b) in enumerate(ranges)]
        self._linear, self._interval = ca.SX.sym("linear"), ca.SX.sym("interval")
        self.row = ca.vertcat(*self._samples, self._linear, self._interval)
        self.parts = 1 + len(set(self.delay.keys))
        self._cuts = ca.SX.sym("cuts", self.parts - 1)
        shape = self.parts, len(ranges)
        self._values, self._slopes = ca.SX.sym("values", *shape), ca.SX.sym("slopes", *shape)
        self._ends = ca.SX.sym("ends", len(ranges))
        self.state = ca.vertcat(self._cuts, ca.vec(self._values), ca.vec(self._slopes), self._ends)
        self._part, self._points = ca.SX.sym("part", self.parts), ca.SX.sym("points", places)
        n = len(self.undelayed)
        self._u, self._rise = ca.SX.sym("u", n), ca.SX.sym("rise", n)
        self._begin, self._length = ca.SX.sym("begin"), ca.SX.sym("length")
        self.step_row = ca.vertcat(self._u, self._rise, self._begin, self._length)
        self.gain_row = ca.vertcat(self._part, self._points)
        self.share = ca.SX.sym("share")

    @classmethod
    def of(cls, model: Model, ranges: Ranges, places: int) -> DelayLine | None:
        """Make the symbols; None for a model without delay."""
        return None if model.delay is None else cls(model, ranges, places)

    @property
    def undelayed(self) -> list[int]:
        """Numbers of the other inputs."""
        return [j for j in range(self.model.u.numel()) if j not in self.delay.inputs]

    @property
    def part(self) -> ca.SX:
        """Length of the part that a step is in, as a fraction of the interval."""
        return self.of_part(self.lengths)

    @property
    def lengths(self) -> list[ca.SX]:
        """Lengths of all parts, as fractions of the interval."""
        edges = [ca.SX(0.0), *ca.vertsplit(self._cuts), ca.SX(1.0)]
        return [end - begin for begin, end in pairwise(edges)]

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
        since, values = self._since(point), ca.SX(self.model.u.numel(), 1)
        for k, j in enumerate(self.undelayed):
            values[j] = self._u[k] + self._rise[k] * (self._first + since)
        for i, j in enumerate(self.delay.inputs):
            value, slope = (ca.dot(self._part, of[:, i]) for of in (self._values, self._slopes))
            values[j] = value + slope * since
        return values

    def rate(self) -> ca.SX:
        """Time derivative of all inputs during a step, (n, 1)."""
        values = ca.SX(self.model.u.numel(), 1)
        for k, j in enumerate(self.undelayed):
            values[j] = self._rise[k]
        for i, j in enumerate(self.delay.inputs):
            values[j] = ca.dot(self._part, self._slopes[:, i])
        return values / self._length

    def at_sample(self, u: ca.SX) -> ca.SX:
        """Inputs at the sample that ends an interval, of those that were measured there, (n, 1)."""
        values = ca.SX(u)
        for i, j in enumerate(self.delay.inputs):
            values[j] = self._ends[i]
        return values

    def picked(self) -> ca.SX:
        """Samples of an interval that a particle keeps in its next `state`."""
        intervals = [seconds / self._interval for seconds in self.delay.seconds(self.model.theta)]
        whole = [
            ca.fmin(ca.fmax(ca.floor(number), least), most)
            for number, (least, most) in zip(intervals, self.ranges, strict=True)
        ]
        fractions = [number - m for number, m in zip(intervals, whole, strict=True)]
        each = dict(zip(self.delay.keys, fractions, strict=True))
        cuts = ascending(list(each.values()))
        kept = [self._pieces(i, whole[i], fractions[i], cuts) for i in range(len(whole))]
        values, slopes, ends = zip(*kept, strict=True)
        return ca.vertcat(*cuts, *values, *slopes, *ends)

    def _pieces(
        self, i: int, whole: ca.SX, fraction: ca.SX, cuts: list[ca.SX]
    ) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Values of a delayed input at the beginning of all parts, its slopes, and its end."""
        least, most = self.ranges[i]
        samples = ca.vertsplit(self._samples[i])
        before, now, after = _part_of(samples, most - whole, 3, most - least)
        values: list[ca.SX] = []
        slopes: list[ca.SX] = []
        for part, (begin, end) in enumerate(pairwise([ca.SX(0.0), *cuts, ca.SX(1.0)])):
            since = begin - fraction
            # Whether the sample that arrives in the interval is still to come: by the middle of the
            # part, since a cut and the fraction that it is may be rounded differently.
            earlier = ca.SX(part == 0) if len(cuts) == 1 else 0.5 * (begin + end) < fraction
            slope = self._linear * ca.if_else(earlier, now - before, after - now)
            values.append(ca.if_else(earlier, before, now) + slope * (since + earlier))
            slopes.append(slope)
        # A held input has the value of the sample that arrives just then.
        held = ca.if_else(fraction < SIMULTANEOUS, after, now)
        end = ca.if_else(self._linear, now + (after - now) * (1.0 - fraction), held)
        return ca.vertcat(*values), ca.vertcat(*slopes), end

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

    def interval_graph(self, signal: Signal) -> ca.SX:
        """`row` of an interval, of its samples and those before."""
        lagged = [signal.u(lag + 1)[j] for j, lag in self._lags]
        return ca.vertcat(*lagged, signal.linear, signal.interval)

    def step_graph(self, signal: Signal) -> ca.SX:
        """`step_row` of a step."""
        u = [signal.begin[j] for j in self.undelayed]
        rises = [signal.rise[j] for j in self.undelayed]
        return ca.vertcat(*u, *rises, signal.t(1), signal.interval)

    def start(self, samples: Samples) -> Array:
        """`row` of the interval that ends with the first sample."""
        record = samples.template
        self.delay.intervals([record])
        u = samples.columns(-self.memory, 1)[:, 1 : 1 + record.n_inputs]
        lagged = [u[-2 - lag, j] for j, lag in self._lags]
        return np.array([*lagged, float(record.hold == "foh"), record.interval])

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
    def _lags(self) -> list[tuple[int, int]]:
        """Delayed inputs, and the samples before an interval at which they may be needed."""
        return [
            (j, lag)
            for j, (least, most) in zip(self.delay.inputs, self.ranges, strict=True)
            for lag in range(most + 1, least - 2, -1)
        ]

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


def _part_of(values: Sequence[ca.SX], begin: ca.SX, size: int, most: int) -> list[ca.SX]:
    """Consecutive values from number ``begin`` on, which is 0, 1, ..., or ``most``.

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
    return _part_of(within, begin - block * number, size, block - 1)
