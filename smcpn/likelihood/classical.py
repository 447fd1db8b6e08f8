"""The likelihood without numerical uncertainty: RK4 integrates, only the noise has a variance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.program import LaneProgram
from smcpn.errors import InputError
from smcpn.likelihood.expected import Expected, Prediction
from smcpn.likelihood.lanes import (
    LaneLikelihood,
    SampleSymbols,
    StartSymbols,
    sample_rows,
    start_row,
)
from smcpn.likelihood.measurement import gaussian_log_density
from smcpn.model.hold import substep_inputs, substep_times
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.solver import RK4

Array = NDArray[np.float64]


def classical(problem: Problem, solver: RK4, threads: int | None = None) -> LaneLikelihood:
    """Build the likelihood of a problem.

    Raises
    ------
    InputError
        If the solver is not `RK4` with a number of steps.
    """
    kernel = classical_kernel(problem, solver, threads)

    def write(record: Record, number: int) -> Rows:
        return runge_kutta_rows(record, problem.model, int(solver.steps), number)

    return LaneLikelihood(kernel, problem.records, solver, write)


def classical_kernel(problem: Problem, solver: RK4, threads: int | None = None) -> LaneKernel:
    """Compile the recursion of a problem.

    Raises
    ------
    InputError
        As `classical`.
    """
    if type(solver) not in STEPS:
        raise InputError(f"the classical likelihood needs solver=RK4(...), not {solver!r}")
    if solver.steps == "auto":
        raise InputError("steps 'auto' is still to be chosen: use smcpn.identify, or give a number")
    model = problem.model
    sample = SampleSymbols.of(model)
    outputs = outputs_at(model, model.x, sample)
    density = measured_log_density(model, outputs, sample)
    step = STEPS[type(solver)].of(model)
    return LaneKernel(runge_kutta_program(model, sample, density, step), threads)


def classical_prediction(problem: Problem, solver: RK4, number: int, record: Record) -> Prediction:
    """Mean of the outputs of the ``number``-th record, or one like it; no covariance."""
    del record
    model = problem.model
    sample, q = SampleSymbols.of(model), model.outputs.numel()
    emitted = Expected(outputs_at(model, model.x, sample), ca.SX(q, q), states=model.x)
    step = STEPS[type(solver)].of(model)

    def program(emitted: ca.SX) -> LaneProgram:
        return runge_kutta_program(model, sample, emitted, step)

    def rows(record: Record, steps: int) -> Rows:
        return runge_kutta_rows(record, model, steps, number)

    return Prediction.of(program, emitted, step.local_error(), step.error_order, rows)


def measured_log_density(model: Model, outputs: ca.SX, sample: SampleSymbols) -> ca.SX:
    """Log density of the measured values about known outputs; a missing one adds nothing."""
    density = model.density
    if density is None:
        variance = ca.diag(model.noise_variance)
        return gaussian_log_density(sample.y - outputs, variance, sample.present)
    # In place of a missing value one that every density has.
    y = ca.if_else(sample.present, sample.y, 1.0)
    each = ca.substitute(
        density.log_density, ca.vertcat(density.y, density.output), ca.vertcat(y, outputs)
    )
    return ca.dot(sample.present, each)


def outputs_at(model: Model, state: ca.SX, sample: SampleSymbols) -> ca.SX:
    """Noise-free outputs at a sample, for a state."""
    return ca.substitute(
        model.outputs, ca.vertcat(model.x, model.u, model.t), ca.vertcat(state, sample.u, sample.t)
    )


def runge_kutta_program(
    model: Model, sample: SampleSymbols, emitted: ca.SX, step: StepSymbols | None = None
) -> LaneProgram:
    """One step after the other, by default `ClassicalStep`; its row holds three inputs."""
    step = ClassicalStep.of(model) if step is None else step
    start = StartSymbols.of(model, [])
    return LaneProgram(
        theta=model.theta,
        constants=model.constants,
        constant_values=model.constant_values,
        state=model.x,
        start_row=start.row,
        step_row=ca.vertcat(*step.inputs, step.t),
        gain_row=step.h,
        sample_row=sample.row,
        start=start.initial(model),
        step=step.following,
        emitted=emitted,
    )


@dataclass(frozen=True)
class StepSymbols(ABC):
    """A step of length h from time t, with the inputs at its begin, middle and end.

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


class ClassicalStep(StepSymbols):
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


STEPS: dict[type, type[StepSymbols]] = {RK4: ClassicalStep}
"""The step of each solver that claims no error."""


def runge_kutta_rows(record: Record, model: Model, steps: int, number: int = 0) -> Rows:
    """Build the shared rows of `runge_kutta_program` for a record, the ``number``-th."""
    points = substep_inputs(record, 2 * steps)
    n = record.n_inputs
    inputs = np.empty((len(record) - 1, steps, 3 * n + 1))
    inputs[..., :n] = points[:, :-1:2]
    inputs[..., n : 2 * n] = points[:, 1::2]
    inputs[..., 2 * n : 3 * n] = points[:, 2::2]
    inputs[..., 3 * n] = substep_times(record, steps)[:, :-1]
    if record.uniform:
        lengths = np.array([record.interval / steps])
    else:
        lengths = np.repeat(np.diff(record.t) / steps, steps)
    return Rows(
        start=start_row(record, number, len(model.initial), 1),
        inputs=inputs.reshape(-1, 3 * n + 1),
        gains=np.ascontiguousarray(lengths[:, None]),
        samples=sample_rows(record, model.outputs.numel()),
        steps=steps,
    )
