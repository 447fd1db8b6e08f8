"""The likelihood without numerical uncertainty: RK4 integrates, only the noise has a variance.

    log p(y | theta) = sum over samples n of log p(y_n | g(x_n)),    x_n = F(x_{n-1}, theta),

where F takes the steps of a sampling interval and p is the density of the noise, N(y; g, R) where
it is Gaussian and white; where it is coloured, its mean and variance given the samples before are
those of `coloured`. Any solver whose `Step` is defined here or elsewhere can take the place of RK4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.codegen.row_code import RowGraph
from smcpn.likelihood.coloured import NoiseFilter
from smcpn.likelihood.delayed import DelayLine
from smcpn.likelihood.lanes import Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.measurement import gaussian_log_density
from smcpn.likelihood.registry import ExpectedOutputs, Recursion
from smcpn.likelihood.rows import (
    Between,
    RowWriter,
    Window,
    WindowRows,
    numbers_of_steps,
    rows_by_number,
    sample_rows,
    start_row,
)
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.solver import RK4, Solver

Array = NDArray[np.float64]

POINTS = 3
"""Points of a step at which the input is known: its begin, middle and end."""


@dataclass(frozen=True)
class Step(ABC):
    """Graphs of a step of length h from time t, with the inputs at its begin, middle and end.

    ``class RungeKuttaStep(Step, solver=RK4)`` makes it the step of a solver.

    Attributes
    ----------
    error_order : int
        Power of h with which `local_error` falls.
    """

    error_order: ClassVar[int]

    model: Model
    h: ca.SX
    t: ca.SX
    inputs: tuple[ca.SX, ca.SX, ca.SX]

    def __init_subclass__(cls, solver: type[Solver] | None = None) -> None:
        if solver is not None:
            solver.step = cls

    @classmethod
    def of(cls, model: Model) -> Self:
        """Make fresh symbols of the model's sizes."""
        begin, middle, end = (ca.SX.sym(f"u_{k}", model.u.numel(), 1) for k in range(3))
        return cls(model, ca.SX.sym("h"), ca.SX.sym("t"), (begin, middle, end))

    @property
    @abstractmethod
    def following(self) -> ca.SX:
        """State at the end, of ``model.x`` at the beginning."""

    @abstractmethod
    def local_error(self) -> ca.SX:
        """Difference to the result of an embedded method of lower order."""

    def rate(self, x: ca.SX, u: ca.SX, t: ca.SX) -> ca.SX:
        """Right-hand side of the ODE."""
        model = self.model
        symbols = ca.vertcat(model.x, model.u, model.t)
        return ca.substitute(model.rhs, symbols, ca.vertcat(x, u, t))


class RungeKuttaStep(Step, solver=RK4):
    """The classical fourth-order Runge-Kutta method."""

    error_order = 4

    @property
    def following(self) -> ca.SX:
        """State at the end."""
        k1, k2, k3, k4 = self._rates
        return self.model.x + self.h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def local_error(self) -> ca.SX:
        """Difference to the embedded third-order result, in which f at the end replaces k4."""
        end = self.rate(self.following, self.inputs[2], self.t + self.h)
        return self.h / 6 * (end - self._rates[3])

    @property
    def _rates(self) -> tuple[ca.SX, ca.SX, ca.SX, ca.SX]:
        (begin, middle, end), x, t, h = self.inputs, self.model.x, self.t, self.h
        k1 = self.rate(x, begin, t)
        k2 = self.rate(x + h / 2 * k1, middle, t + h / 2)
        k3 = self.rate(x + h / 2 * k2, middle, t + h / 2)
        return k1, k2, k3, self.rate(x + h * k3, end, t + h)


class Classical(Recursion):
    """One step after the other from the initial state; the density of the noise at each sample."""

    name = "classical"
    divides = True
    any_density = True
    coloured_noise = True
    gaussian = True
    takes_delay = True
    _input: ca.SX | None = None
    """Inputs at a sample, where they are delayed."""

    def __init__(self, problem: Problem, solver: Solver, grid: Grid) -> None:
        self.model, self.sample = problem.model, SampleSymbols.of(problem.model)
        self.line = DelayLine.of(self.model, grid.delays, POINTS)
        self.step: Step = step_along(self.line, solver.step, self.model)
        self.local_order = self.step.error_order
        self.outputs = outputs_at(self.model, self.model.x, self.sample, self.line)
        self.noise = NoiseFilter.of(self.model)
        if self.line is not None:
            self._input = self.line.at_sample(self.sample.u)

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """Any solver that claims no error."""
        return not (solver.probabilistic or solver.adaptive)

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        return self.with_noise(
            runge_kutta_program(self.model, self.sample, emitted, self.step, self.line)
        )

    def with_noise(self, program: LaneProgram) -> LaneProgram:
        """Program that follows the noise, too, where that is coloured."""
        no_error = ca.SX.zeros(self.outputs.numel(), 1)
        residual = self.sample.y - self.outputs
        return self.noise.join(
            program, self.noise.following(residual, no_error, self.sample.present)
        )

    def log_density(self) -> ca.SX:
        """Log density of a sample; a missing value adds nothing."""
        sample, density = self.sample, self.model.density
        if density is None:
            innovation = sample.y - self.outputs - self.noise.mean
            return gaussian_log_density(innovation, ca.diag(self.noise.variance), sample.present)
        each = sample.of_density(density.log_density, self.outputs, self._input)
        # A missing sample may be where a density is not finite, as log-normal noise of nothing is.
        return ca.sum1(ca.if_else(sample.present, each, 0.0))

    def expected(self) -> ExpectedOutputs:
        """Outputs and states of the solver, without a covariance."""
        q = self.outputs.numel()
        noise, variance = self.noise, self.noise.variance
        if self.model.density is not None:
            variance = self.sample.noise_variance(self.outputs, self._input)
        return ExpectedOutputs(self.outputs, ca.SX(q, q), self.model.x, noise.mean, variance)

    @override
    def local_error(self) -> ca.SX:
        return self.step.local_error()

    @override
    def writer(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> RowWriter:
        own = classical_writer(self.line, self.model, record, steps, number, interval)
        return self.noise.writer(own, record)


def step_along(line: DelayLine | None, kind: type[Step], model: Model) -> Step:
    """Graphs of a step, over symbols of its own or those of a line of delayed inputs."""
    if line is None:
        return kind.of(model)
    begin, middle, end = (line.input(point) for point in range(POINTS))
    return kind(model, line.h, line.time(0), (begin, middle, end))


def outputs_at(
    model: Model, state: ca.SX, sample: SampleSymbols, line: DelayLine | None = None
) -> ca.SX:
    """Noise-free outputs at a sample, for a state."""
    u = sample.u if line is None else line.at_sample(sample.u)
    return ca.substitute(
        model.outputs, ca.vertcat(model.x, model.u, model.t), ca.vertcat(state, u, sample.t)
    )


def runge_kutta_program(
    model: Model,
    sample: SampleSymbols,
    emitted: ca.SX,
    step: Step | None = None,
    line: DelayLine | None = None,
) -> LaneProgram:
    """One step after the other, by default of RK4, that emit ``emitted`` at each sample."""
    step = step_along(line, RungeKuttaStep, model) if step is None else step
    start = StartSymbols.of(model, [])
    program = LaneProgram(
        theta=model.theta,
        constants=model.constants,
        constant_values=model.constant_values,
        state=model.x,
        start_row=start.row,
        step_row=ca.vertcat(*step.inputs, step.t) if line is None else line.step_row,
        gain_row=step.h if line is None else line.share,
        sample_row=sample.row,
        start=start.initial(model),
        step=step.following,
        emitted=emitted,
    )
    return program if line is None else line.join(program)


def line_of(model: Model, record: Record) -> DelayLine | None:
    """The line of delayed inputs of `runge_kutta_program` for a record."""
    return DelayLine.of(model, Grid.of([record], model.delay).delays, POINTS)


def runge_kutta_rows(record: Record, model: Model, steps: int, number: int = 0) -> Rows:
    """Rows of `runge_kutta_program` for a record, which starts from the ``number``-th state."""
    return classical_writer(line_of(model, record), model, record, steps, number).whole(record)


def classical_writer(
    line: DelayLine | None,
    model: Model,
    record: Record,
    steps: int,
    number: int = 0,
    interval: float | None = None,
) -> ClassicalRowWriter:
    """Writer of the rows of `runge_kutta_program`; arguments as of `ClassicalRowWriter`."""
    if line is None:
        return ClassicalRowWriter(model, record, steps, number, interval)
    return DelayedRowWriter(line, model, record, steps, number, interval)


class ClassicalRowWriter(RowWriter):
    """Rows of `runge_kutta_program`: inputs at the begin, middle and end of a step, and its time.

    Parameters
    ----------
    model : Model
    record : Record
        Tells whether the samples are equally spaced, and how far.
    steps : int
    number : int
        Which of the model's initial states it starts from.
    interval : float, optional
        As of `numbers_of_steps`.
    """

    def __init__(
        self,
        model: Model,
        record: Record,
        steps: int,
        number: int = 0,
        interval: float | None = None,
    ) -> None:
        self._wanted, self._interval = steps, interval
        steps = int(numbers_of_steps(np.diff(record.t), steps, self._interval).max(initial=1))
        self.steps, self.n_outputs = steps, model.measured
        self._number, self._n_initial = number, len(model.initial)
        self._record = record
        if record.uniform:
            self.gains = np.array([[record.interval / steps]])

    @override
    def start(self, head: Record) -> Array:
        return start_row(head, self._number, self._n_initial, 1)

    @override
    def rows(self, window: Window, memory: Array) -> tuple[WindowRows, Array]:
        counts = np.full(len(window.spacing), self.steps, dtype=np.int64)
        if self.gains is None:
            counts = numbers_of_steps(window.spacing, self._wanted, self._interval)
        inputs, varying = rows_by_number(counts, lambda number: self._inputs(window, number))
        lengths = self.gains
        if lengths is None:
            lengths = np.repeat(window.spacing / counts, counts)[:, None]
        return WindowRows(inputs, lengths, sample_rows(window), counts=varying), memory

    def graph(self) -> RowGraph | None:
        """Rows as a graph, where all intervals have as many steps."""
        varying = self.gains is None and self._interval is not None
        if varying or not Between.is_linear(self._record):
            return None
        between, parts = Between(self._record, self.n_outputs), ca.SX.sym("parts", 4)
        steps, nothing = ca.SX.sym("steps"), ca.SX(0, 1)
        halves = np.arange(2 * self.steps + 1) / (2 * self.steps)
        begins = np.arange(self.steps) / self.steps
        *places, begin = ca.vertsplit(parts)
        return RowGraph(
            number=ca.SX.sym("count"),
            before=between.before,
            after=between.after,
            memory=nothing,
            constants=steps,
            constant_values=np.array([self.steps], dtype=float),
            entries=parts,
            table=np.column_stack([halves[:-1:2], halves[1::2], halves[2::2], begins]),
            inputs=ca.vertcat(*map(between.inputs, places), between.time(begin)),
            gains=between.spacing / steps if self.gains is None else nothing,
            interval=nothing,
            sample=between.sample_row,
            following=nothing,
        )

    def _inputs(self, window: Window, steps: int) -> Array:
        """Inputs at the begin, middle and end of the steps of all intervals, and times."""
        n, points = window.u.shape[1], window.inputs(2 * steps)
        inputs = np.empty((len(points), steps, 3 * n + 1))
        inputs[:, :, :n] = points[:, :-1:2]
        inputs[:, :, n : 2 * n] = points[:, 1::2]
        inputs[:, :, 2 * n : 3 * n] = points[:, 2::2]
        inputs[:, :, 3 * n] = window.times(steps)[:, :-1]
        return inputs


class DelayedRowWriter(ClassicalRowWriter):
    """Rows of `DelayLine`, where inputs are delayed; every part takes as many steps."""

    def __init__(
        self,
        line: DelayLine,
        model: Model,
        record: Record,
        steps: int,
        number: int = 0,
        interval: float | None = None,
    ) -> None:
        super().__init__(model, record, steps, number, interval)
        self._line, self._each = line.rows(record), self.steps
        self._shares = np.array([[1.0 / self.steps]])
        self.memory, self.gains = self._line.memory, self._shares
        self.steps *= line.parts

    @override
    def start(self, head: Record) -> Array:
        return np.concatenate([super().start(head), self._line.start(head)])

    @override
    def rows(self, window: Window, memory: Array) -> tuple[WindowRows, Array]:
        halves = np.arange(2 * self._each + 1) / (2 * self._each)
        points = np.column_stack([halves[:-1:2], halves[1::2], halves[2::2]])
        inputs = self._line.steps(window, self._each, points)
        inputs = np.ascontiguousarray(inputs.reshape(-1, inputs.shape[-1]))
        intervals, memory = self._line.intervals(window, memory)
        return WindowRows(inputs, self._shares, sample_rows(window), intervals), memory

    def graph(self) -> RowGraph | None:
        """None: delayed inputs have no graph of their rows."""
        return None
