"""The likelihood without numerical uncertainty: RK4 integrates, only the noise has a variance.

log p(y | theta) = sum over samples n of log p(y_n | g(x_n)),    x_n = F(x_{n-1}, theta),

where F takes the steps of a sampling interval and p is the density of the noise, N(y; g, R) where
it is Gaussian and white; where it is coloured, its mean and variance given the samples before are
those of `coloured`. Any solver whose `Step` is defined here or elsewhere can take the place of RK4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.kernel import Rows
from smcpn.codegen.lower import LaneProgram
from smcpn.likelihood.accumulating import SetBack
from smcpn.likelihood.coloured import NoiseFilter
from smcpn.likelihood.delayed import DeadTimes
from smcpn.likelihood.inputs import KernelInputs
from smcpn.likelihood.lanes import Grid, SampleSymbols, StartSymbols
from smcpn.likelihood.measurement import gaussian_log_density, where_present
from smcpn.likelihood.registry import ExpectedOutputs, Recursion
from smcpn.model.parts import PARTS, check_parts
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.model.signal import Signal
from smcpn.model.solver import RK4, Solver

Array = NDArray[np.float64]

PLACES = (0.0, 0.5, 1.0)
"""Points of a step at which the input is known, as fractions of it: begin, middle and end."""
POINTS = len(PLACES)


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

    def __post_init__(self) -> None:
        steps = "what goes by steps of one length (predictions from states, a controller)"
        takes = frozenset({"delay", "doses", "accumulators"})
        check_parts(self.model.parts, steps, takes, dict.fromkeys(PARTS, "use smcpn.simulate"))

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

    @property
    def row(self) -> ca.SX:
        """Its symbols, of which `step_graph` has the values."""
        return ca.vertcat(*self.inputs, self.t, self.h)

    def rate(self, x: ca.SX, u: ca.SX, t: ca.SX) -> ca.SX:
        """Right-hand side of the ODE."""
        model = self.model
        symbols = ca.vertcat(model.x, model.u, model.t)
        return ca.substitute(model.rhs, symbols, ca.vertcat(x, u, t))


S = TypeVar("S", bound=Step)


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
    takes_parts = Recursion.takes_parts | {"delay", "accumulators", "events"}

    def __init__(self, problem: Problem, solver: Solver, grid: Grid) -> None:
        self.dead_times = DeadTimes(problem.model, grid)
        self.model = self.dead_times.model
        self.sample = SampleSymbols.of(self.model, self.dead_times.at_sample)
        self.signal = step_signal(self.dead_times, grid)
        self.step: Step = solver.step.of(self.model)
        self.local_order = self.step.error_order
        self.outputs = outputs_at(self.model, self.model.x, self.sample)
        self.noise = NoiseFilter.of(self.model)

    @classmethod
    def goes_with(cls, solver: type[Solver] | Solver) -> bool:
        """Any solver that claims no error."""
        return not (solver.probabilistic or solver.adaptive)

    @override
    def program(self, emitted: ca.SX) -> LaneProgram:
        signal, sample = self.signal, self.sample
        plain = runge_kutta_program(self.model, signal, sample, emitted, self.step)
        return self.with_noise(self.dead_times.join(plain, signal))

    def with_noise(self, program: LaneProgram) -> LaneProgram:
        """Program that follows the noise, too, where that is coloured."""
        return self.noise.join(program, self.signal, self.expected(), self.sample)

    def log_density(self) -> ca.SX:
        """Log density of a sample; a missing value adds nothing."""
        sample, density = self.sample, self.model.density
        if density is None:
            innovation = sample.y - self.outputs - self.noise.mean
            return gaussian_log_density(innovation, ca.diag(self.noise.variance), sample.present)
        each = sample.of_density(density.log_density, self.outputs)
        # A missing sample may be where a density is not finite, as log-normal noise of nothing is.
        return ca.sum1(where_present(each, sample.present))

    def expected(self) -> ExpectedOutputs:
        """Outputs and states of the solver, without a covariance."""
        q = self.outputs.numel()
        return self.noise.expected(self.sample, self.outputs, ca.SX(q, q), self.model.x)

    @override
    def local_error(self) -> ca.SX:
        return self.step.local_error()

    @override
    def inputs(
        self, record: Record, steps: int, number: int = 0, interval: float | None = None
    ) -> KernelInputs:
        return step_inputs(self.signal, self.dead_times, record, steps, number, interval)


def outputs_at(model: Model, state: ca.SX, sample: SampleSymbols) -> ca.SX:
    """Noise-free outputs at a sample, for a state."""
    known = ca.vertcat(state, sample.input, sample.t)
    return ca.substitute(model.outputs, ca.vertcat(model.x, model.u, model.t), known)


def step_signal(dead_times: DeadTimes, grid: Grid, looped: bool = True) -> Signal:
    """Input at the begin, middle and end of a step, as `runge_kutta_program` takes it."""
    return dead_times.signal(grid.smooth, not grid.rescales, looped, places=PLACES)


def step_graph(signal: Signal) -> ca.SX:
    """Inputs at the begin, middle and end of a step, its time, and its length."""
    return ca.vertcat(*map(signal.input, PLACES), signal.time(0.0), signal.h)


def runge_kutta_program(
    model: Model,
    signal: Signal,
    sample: SampleSymbols,
    emitted: ca.SX,
    step: Step | None = None,
) -> LaneProgram:
    """One step after the other, by default of RK4, that emit ``emitted`` at each sample."""
    step = RungeKuttaStep.of(model) if step is None else step
    start = StartSymbols.of(model, [])
    program = LaneProgram(
        theta=model.theta,
        constants=model.constants,
        constant_values=model.constant_values,
        state=model.x,
        start_row=start.row,
        step_row=step.row,
        sample_row=sample.row,
        start=start.initial(model),
        step=step.following,
        emitted=emitted,
        shared=signal.graphs(
            step=step_graph(signal),
            sample=signal.sample(),
        ),
    )
    set_back = SetBack.of(model)
    return set_back.join(program, signal, model.x, set_back.share)


def step_inputs(
    signal: Signal,
    dead_times: DeadTimes,
    record: Record,
    steps: int,
    number: int = 0,
    interval: float | None = None,
) -> KernelInputs:
    """Inputs of `runge_kutta_program` for a record, which starts from the ``number``-th state.

    ``interval`` is that of `numbers_of_steps`. With dead times every part has as many steps.
    """
    plain = KernelInputs(
        signal,
        record,
        steps,
        start_more=dead_times.start(np.empty(0)),
        number=number,
        n_initial=len(dead_times.model.initial),
        interval=interval,
    )
    return plain.in_parts()


def signal_of(model: Model, record: Record) -> tuple[Signal, DeadTimes]:
    """Signal of `runge_kutta_program` for one record, and the dead times in its graphs."""
    grid = Grid.of([record], model.delay)
    dead_times = DeadTimes(model, grid)
    return step_signal(dead_times, grid), dead_times


def runge_kutta_rows(record: Record, model: Model, steps: int, number: int = 0) -> Rows:
    """Rows of the whole of a record for `runge_kutta_program`, by `signal_of`."""
    signal, dead_times = signal_of(model, record)
    return step_inputs(signal, dead_times, record, steps, number).whole(record)
