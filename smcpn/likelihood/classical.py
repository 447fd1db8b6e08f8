"""The likelihood without numerical uncertainty: RK4 integrates, only the noise has a variance."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.codegen.program import LaneProgram
from smcpn.errors import InputError
from smcpn.hold import substep_inputs, substep_times
from smcpn.likelihood.gaussian import gaussian_log_density
from smcpn.likelihood.lanes import (
    LaneLikelihood,
    SampleSymbols,
    StartSymbols,
    sample_rows,
    start_row,
)
from smcpn.problem import Model, Problem
from smcpn.record import Record
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
    rows = [
        runge_kutta_rows(record, problem.model, int(solver.steps), number)
        for number, record in enumerate(problem.records)
    ]
    return LaneLikelihood(kernel, rows, solver)


def classical_kernel(problem: Problem, solver: RK4, threads: int | None = None) -> LaneKernel:
    """Compile the recursion of a problem.

    Raises
    ------
    InputError
        As `classical`.
    """
    if not isinstance(solver, RK4):
        raise InputError(f"the classical likelihood needs solver=RK4(...), not {solver!r}")
    if solver.steps == "auto":
        raise InputError("steps 'auto' is still to be chosen: use smcpn.ibis, or give a number")
    model = problem.model
    sample = SampleSymbols.of(model)
    outputs = outputs_at(model, model.x, sample)
    density = measured_log_density(model, outputs, sample)
    return LaneKernel(runge_kutta_program(model, sample, density), threads)


def classical_moments(
    problem: Problem, solver: RK4, theta: Array, number: int, record: Record
) -> tuple[Array, Array]:
    """Mean (T, q) of the outputs at parameters (d, 1); no covariance."""
    model = problem.model
    sample = SampleSymbols.of(model)
    outputs = outputs_at(model, model.x, sample)
    kernel = LaneKernel(runge_kutta_program(model, sample, outputs), threads=1)
    rows = runge_kutta_rows(record, model, int(solver.steps), number)
    _, emitted, _ = kernel.advance(theta, kernel.start(theta, rows), rows, 0, len(rows), True)
    q = model.outputs.numel()
    return emitted[:, :, 0], np.zeros((len(rows), q, q))


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


def runge_kutta_program(model: Model, sample: SampleSymbols, emitted: ca.SX) -> LaneProgram:
    """One step of the classical fourth-order method; a step's row holds its three inputs."""
    h, t = ca.SX.sym("h"), ca.SX.sym("t")
    begin, middle, end = (ca.SX.sym(f"u_{k}", model.u.numel(), 1) for k in range(3))

    def rate(state: ca.SX, u: ca.SX, time: ca.SX) -> ca.SX:
        return ca.substitute(
            model.rhs, ca.vertcat(model.x, model.u, model.t), ca.vertcat(state, u, time)
        )

    k1 = rate(model.x, begin, t)
    k2 = rate(model.x + h / 2 * k1, middle, t + h / 2)
    k3 = rate(model.x + h / 2 * k2, middle, t + h / 2)
    k4 = rate(model.x + h * k3, end, t + h)
    start = StartSymbols.of(model, [])
    return LaneProgram(
        theta=model.theta,
        constants=model.constants,
        constant_values=model.constant_values,
        state=model.x,
        start_row=start.row,
        step_row=ca.vertcat(begin, middle, end, t),
        gain_row=h,
        sample_row=sample.row,
        start=start.initial(model),
        step=model.x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4),
        emitted=emitted,
    )


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
