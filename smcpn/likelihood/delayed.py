"""Dead time of inputs: u(t - tau) along the steps of one particle, exact for the record's hold.

An input that is held or linear between samples jumps or bends where a sample arrives, for a dead
time tau = (m + r) dt at the fraction r of every sampling interval. The interval is cut there, and
each part takes the steps of a whole interval, of its own length: no step sees a jump, and the
order of convergence is kept. Lengths are functions of tau, so that derivatives by tau are those of
the steps; m, which is constant but for jumps where r is 0, has none. Several dead times cut the
interval at each of their fractions.

The rows hold, of every delayed input, the samples between its least and its greatest dead time. A
particle picks its own at the beginning of an interval and keeps them in its state.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.lower import LaneProgram
from smcpn.likelihood.rows import Window
from smcpn.model.delay import Delay, inputs_before
from smcpn.model.problem import Model
from smcpn.model.record import Record

Array = NDArray[np.float64]
Ranges = tuple[tuple[int, int], ...]

KEPT = 5
"""Numbers of a delayed input that a particle keeps."""


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
        Of each delayed input two samples, the increments to them and after them, and r.
    row : casadi.SX
        What an interval brings: of each delayed input its latest samples, whether it is linear in
        between, and the length of the interval.
    step_row : casadi.SX
        What a step brings: which part it is in, its points as fractions of the part, undelayed
        inputs and their increment over the interval, the time at which it begins, its length.
    share : casadi.SX
        Length of a step over that of its part.
    """

    def __init__(self, model: Model, ranges: Ranges, places: int) -> None:
        assert model.delay is not None
        self.model, self.ranges, self.places, self.delay = model, ranges, places, model.delay
        count = len(ranges)
        self.memory = 2 + max(most for _, most in ranges)
        self._seconds = self.delay.seconds(model.theta)
        self._kept = [ca.SX.sym(f"delayed_{i}", KEPT) for i in range(count)]
        self.state = ca.vertcat(*self._kept)
        self._samples = [ca.SX.sym(f"samples_{i}", b - a + 3) for i, (a, b) in enumerate(ranges)]
        self._linear, self._interval = ca.SX.sym("linear"), ca.SX.sym("interval")
        self.row = ca.vertcat(*self._samples, self._linear, self._interval)
        first = {source: i for i, source in reversed(list(enumerate(self.delay.sources)))}
        self._fractions = [self._kept[i][-1] for i in sorted(first.values())]
        self.parts = len(self._fractions) + 1
        self._cuts = [ca.SX(0.0), *_sorted(self._fractions), ca.SX(1.0)]
        self._part, self._points = ca.SX.sym("part", self.parts), ca.SX.sym("points", places)
        n = len(self.undelayed)
        self._u, self._rise = ca.SX.sym("u", n), ca.SX.sym("rise", n)
        self._begin, self._length = ca.SX.sym("begin"), ca.SX.sym("length")
        self.step_row = ca.vertcat(
            self._part, self._points, self._u, self._rise, self._begin, self._length
        )
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
        return ca.dot(self._part, ca.vertcat(*self.lengths))

    @property
    def lengths(self) -> list[ca.SX]:
        """Lengths of all parts, as fractions of the interval, of the state."""
        pairs = zip(self._cuts[:-1], self._cuts[1:], strict=True)
        return [end - begin for begin, end in pairs]

    @property
    def h(self) -> ca.SX:
        """Length of a step in seconds."""
        return self._length * self.part * self.share

    def time(self, point: int | None) -> ca.SX:
        """Time at a point of a step, by its number; None is the beginning of the part."""
        return self._begin + self._length * self._fraction(point)

    def input(self, point: int | None) -> ca.SX:
        """All inputs at a point as of `time`, (n, 1)."""
        at, values = self._fraction(point), ca.SX(self.model.u.numel(), 1)
        for k, j in enumerate(self.undelayed):
            values[j] = self._u[k] + self._rise[k] * at
        for i, j in enumerate(self.delay.inputs):
            before, now, to, after, r = ca.vertsplit(self._kept[i])
            earlier = self._earlier(i)
            values[j] = earlier * (before + to * (at - r + 1.0)) + (1.0 - earlier) * (
                now + after * (at - r)
            )
        return values

    def rate(self) -> ca.SX:
        """Time derivative of all inputs during a step, (n, 1)."""
        values = ca.SX(self.model.u.numel(), 1)
        for k, j in enumerate(self.undelayed):
            values[j] = self._rise[k] / self._length
        for i, j in enumerate(self.delay.inputs):
            _, _, to, after, _ = ca.vertsplit(self._kept[i])
            earlier = self._earlier(i)
            values[j] = (earlier * to + (1.0 - earlier) * after) / self._length
        return values

    def at_sample(self, u: ca.SX) -> ca.SX:
        """Inputs at the sample that ends an interval, of those that were measured there, (n, 1)."""
        values = ca.SX(u)
        for i, j in enumerate(self.delay.inputs):
            _, now, _, after, r = ca.vertsplit(self._kept[i])
            values[j] = now + after * (1.0 - r)
        return values

    def picked(self) -> ca.SX:
        """What a particle keeps of the samples of an interval: its next `state`."""
        kept: list[ca.SX] = []
        for samples, seconds, (least, most) in zip(
            self._samples, self._seconds, self.ranges, strict=True
        ):
            intervals = seconds / self._interval
            whole = ca.fmin(ca.fmax(ca.floor(intervals), least), most)
            before, now, after = (
                sum(
                    ((whole == m) * samples[most - m + shift] for m in range(least, most + 1)),
                    ca.SX(0.0),
                )
                for shift in range(3)
            )
            increments = self._linear * (now - before), self._linear * (after - now)
            kept += [before, now, *increments, intervals - whole]
        return ca.vertcat(*kept)

    def join(self, program: LaneProgram) -> LaneProgram:
        """The program of a recursion whose steps are those of this line, and their rows its own."""
        begun = program.state if program.interval is None else program.interval
        return replace(
            program,
            state=ca.vertcat(program.state, self.state),
            start_row=ca.vertcat(program.start_row, self.row),
            start=ca.vertcat(program.start, self.picked()),
            interval_row=ca.vertcat(program.interval_row, self.row),
            interval=ca.vertcat(begun, self.picked()),
            step=ca.vertcat(program.step, self.state),
        )

    def rows(self, record: Record) -> DelayRows:
        """Writer of the numbers of a record."""
        return DelayRows(self.delay, self.ranges, self.parts, self.memory, record)

    def _fraction(self, point: int | None) -> ca.SX:
        """A point as a fraction of the interval."""
        begin = ca.dot(self._part, ca.vertcat(*self._cuts[:-1]))
        return begin if point is None else begin + self._points[point] * self.part

    def _earlier(self, i: int) -> ca.SX:
        """Whether the sample of a delayed input that arrives in the interval is still to come."""
        if self.parts == 2:
            return self._part[0]
        r = self._kept[i][-1]
        return ca.dot(self._part, ca.vertcat(*[cut < r for cut in self._cuts[:-1]]))


class DelayRows:
    """Numbers of the rows of a `DelayLine` over one record."""

    def __init__(
        self, delay: Delay, ranges: Ranges, parts: int, memory: int, record: Record
    ) -> None:
        delay.intervals([record])
        self._inputs, self._ranges, self.parts = delay.inputs, ranges, parts
        self._number, self._n = memory, record.n_inputs
        self._linear, self._interval = float(record.hold == "foh"), record.interval
        self.memory = np.zeros(memory * self._n)

    def before(self, window: Window, memory: Array) -> Array:
        """Inputs before a window by what is remembered, (memory, n); the record's at its begin."""
        if window.begin == 0:
            return window.inputs_before(self._number)
        return memory.reshape(self._number, self._n)

    def start(self, head: Record) -> Array:
        """Row of the interval that ends with the first sample."""
        u = np.concatenate([inputs_before(head, self._number), head.u[:1]])
        return self._row(u[:-2], u[-2:])[0]

    def intervals(self, window: Window, memory: Array) -> tuple[Array, Array]:
        """Rows of a window's intervals, and what is remembered at its last sample."""
        before = self.before(window, memory)
        u = np.concatenate([before, window.u])
        return self._row(before, window.u), u[len(u) - 1 - self._number : -1].ravel()

    def _row(self, before: Array, u: Array) -> Array:
        """Rows of the intervals between samples, (m - 1, row), by as many as needed before."""
        known, m = np.concatenate([before, u]), len(u) - 1
        first = len(before)
        columns = [
            known[first - lag : first - lag + m, j]
            for j, (least, most) in zip(self._inputs, self._ranges, strict=True)
            for lag in range(most + 1, least - 2, -1)
        ]
        rest = np.broadcast_to([self._linear, self._interval], (m, 2))
        return np.ascontiguousarray(np.column_stack([*columns, rest]))

    def steps(self, window: Window, number: int, points: Array) -> Array:
        """Rows of the steps, (m - 1, parts number, step_row).

        Parameters
        ----------
        number : int
            Steps of a part.
        points : ndarray, (number, places)
            Points of each as fractions of the part.
        """
        undelayed = [j for j in range(self._n) if j not in self._inputs]
        own = np.column_stack([np.repeat(np.eye(self.parts), number, axis=0),
                               np.tile(points, (self.parts, 1))])  # fmt: skip
        u = window.u[:, undelayed]
        common = np.column_stack([
            u[:-1], self._linear * np.diff(u, axis=0), window.t[:-1],
            np.full(len(u) - 1, self._interval),
        ])  # fmt: skip
        shape = (len(common), len(own))
        return np.concatenate([
            np.broadcast_to(own, (*shape, own.shape[1])),
            np.broadcast_to(common[:, None], (*shape, common.shape[1])),
        ], axis=2)  # fmt: skip


def _sorted(values: list[ca.SX]) -> list[ca.SX]:
    """The values in ascending order."""
    values = list(values)
    for last in range(len(values) - 1, 0, -1):
        for k in range(last):
            low, high = ca.fmin(*values[k : k + 2]), ca.fmax(*values[k : k + 2])
            values[k : k + 2] = [low, high]
    return values
