"""The data-free marginal likelihood of PN-SMC: EKF0 integrates, the data only weigh.

y_n ~ N(g(mu_n), J Sigma_n J' + R), where mu_n and Sigma_n are the filter's mean and covariance
of the state given the ODE alone (PN-SMC eq. 20), J = dg/dx at mu_n, and Sigma_n is scaled by the
running quasi-MLE of a diagonal diffusion, Gamma_ii = mean of z_i^2 / s over all steps so far
(PN-SMC eq. 19, made causal so that a stream and a browse agree).

Where the input jumps or bends at the samples (hold zoh, foh), and where these are not equally
spaced, the derivatives of the state restart at every sample from their exact values: the smooth
process prior would otherwise carry them across the jump, with an error that it does not know of.

An observed derivative is g = f at the state. The filter's own entry for it is conditioned on
exactly and would claim an acceleration without solver error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import factorial

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
from smcpn.model.hold import interval_derivatives, substep_inputs, substep_times
from smcpn.model.problem import Model, Problem
from smcpn.model.record import Record
from smcpn.pn.gains import shared_gains
from smcpn.pn.taylor import taylor_derivatives
from smcpn.solver import EKF0

Array = NDArray[np.float64]

MAX_ORDER = 6


def marginal(problem: Problem, solver: EKF0, threads: int | None = None) -> LaneLikelihood:
    """Build the likelihood of a problem.

    Raises
    ------
    InputError
        If the solver is not an `EKF0` in first-order form with a number of steps.
    """
    restarts = must_restart(problem.records)
    kernel = marginal_kernel(problem, solver, restarts, threads)

    def write(record: Record, number: int) -> Rows:
        return marginal_rows(record, problem.model, solver, restarts, number)

    return LaneLikelihood(kernel, problem.records, solver, write)


def marginal_kernel(
    problem: Problem, solver: EKF0, restarts: bool, threads: int | None = None
) -> LaneKernel:
    """Compile the recursion of a problem; ``restarts`` as of `MarginalSymbols`.

    Raises
    ------
    InputError
        As `marginal`.
    """
    require_first_order(solver)
    symbols = MarginalSymbols(problem.model, solver.order, restarts)
    return LaneKernel(symbols.program(symbols.log_density()), threads)


def marginal_prediction(problem: Problem, solver: EKF0, number: int, record: Record) -> Prediction:
    """Mean and solver covariance of the outputs of the ``number``-th record, or one like it."""
    require_first_order(replace(solver, steps=1))
    model, restarts = problem.model, must_restart([record])
    symbols = MarginalSymbols(model, solver.order, restarts)
    emitted = Expected(*symbols.prediction(), states=symbols.values)

    def rows(record: Record, steps: int) -> Rows:
        return marginal_rows(record, model, replace(solver, steps=steps), restarts, number)

    return Prediction.of(symbols.program, emitted, symbols.local_error(), solver.order + 1, rows)


def require_first_order(solver: EKF0) -> None:
    """Refuse what the data-free marginal cannot use.

    Raises
    ------
    InputError
        For another solver, the chain form, or steps still to be chosen.
    """
    if not isinstance(solver, EKF0):
        raise InputError(f"the marginal likelihood needs solver=EKF0(...), not {solver!r}")
    if solver.form != "first":
        raise InputError(
            "form 'chain' cannot be used with the marginal likelihood: without data its variance "
            "of the displacement grows without bound, EKF0 knows no restoring force; "
            "use form='first'"
        )
    if solver.diffusion != "fixed-diagonal":
        raise InputError(
            f"diffusion {solver.diffusion!r} cannot be used with the marginal likelihood, which "
            "calibrates by the running quasi-MLE: use diffusion='fixed-diagonal'"
        )
    if solver.order > MAX_ORDER:
        raise InputError(
            f"order is {solver.order}: the marginal likelihood takes orders up to {MAX_ORDER}, "
            "beyond which its explicit steps would have to be tiny"
        )
    if solver.steps == "auto":
        raise InputError("steps 'auto' is still to be chosen: use smcpn.identify, or give a number")


def must_restart(records: Sequence[Record]) -> bool:
    """Whether the state's derivatives restart at every sample, see the head of this module."""
    return not all(record.smooth and record.uniform for record in records)


class MarginalSymbols:
    """The graphs of the EKF0 recursion of one particle.

    The state of a lane holds the Nordsieck coordinates m_ij = h^j x_i^(j) / j! of every state and
    the running sum of z_i^2 / s. The shared rows hold inputs and gains.

    Parameters
    ----------
    model : Model
    order : int
    restarts : bool
        Whether the derivatives restart at every sample.
    """

    def __init__(self, model: Model, order: int, restarts: bool) -> None:
        self.model, self.order, self.restarts = model, order, restarts
        n, size = model.x.numel(), order + 1
        self.m = [[ca.SX.sym(f"m_{i}_{j}") for j in range(size)] for i in range(n)]
        self.residual_sum = ca.SX.sym("residual_sum", n, 1)
        self.sample = SampleSymbols.of(model)
        self.variance = ca.SX.sym("variance")
        self.per_step = ca.SX.sym("per_step")
        self.h = ca.SX.sym("h")

    def program(self, emitted: ca.SX) -> LaneProgram:
        """Assemble the kernel that emits ``emitted`` at each sample."""
        model = self.model
        step_row, gain_row, step = self._step()
        derivatives, rates = taylor_derivatives(model.x, model.u, model.t, model.rhs, self.order)
        coordinates = self._coordinates(derivatives)
        start = StartSymbols.of(model, rates)
        initial = ca.substitute(coordinates, model.x, start.initial(model))
        restart = ca.substitute(coordinates, model.x, self.values)
        return LaneProgram(
            theta=model.theta,
            constants=model.constants,
            constant_values=model.constant_values,
            state=ca.vertcat(*[v for row in self.m for v in row], self.residual_sum),
            start_row=ca.vertcat(start.row, self.h),
            interval_row=ca.vertcat(model.u, model.t, *rates, self.h),
            step_row=step_row,
            gain_row=gain_row,
            sample_row=ca.vertcat(self.sample.row, self.variance, self.per_step),
            start=ca.vertcat(initial, ca.SX.zeros(len(self.m), 1)),
            interval=ca.vertcat(restart, self.residual_sum) if self.restarts else None,
            step=step,
            emitted=emitted,
        )

    def log_density(self) -> ca.SX:
        """Log N(y; g, J Sigma J' + R), (1, 1)."""
        outputs, numerical = self.prediction()
        noise = ca.diag(self.model.noise_variance)
        return gaussian_log_density(self.sample.y - outputs, numerical + noise, self.sample.present)

    def prediction(self) -> tuple[ca.SX, ca.SX]:
        """Mean (q, 1) and solver covariance J Sigma J' (q, q) of the outputs at a sample."""
        model = self.model
        jacobian = ca.jacobian(model.outputs, model.x)
        scaled = self.residual_sum * (self.per_step * self.variance)
        numerical = jacobian @ ca.diag(scaled) @ jacobian.T
        at = [self.values, self.sample.u, self.sample.t]
        outputs, numerical = ca.substitute(
            [model.outputs, numerical], [model.x, model.u, model.t], at
        )
        return outputs, numerical

    def local_error(self) -> ca.SX:
        """Of a step, see `prediction`: h times the residual, (n, 1)."""
        m, rates = self._predicted()
        return rates - ca.vertcat(*[row[1] for row in m])

    @property
    def values(self) -> ca.SX:
        """States of the model, (n, 1)."""
        return ca.vertcat(*[row[0] for row in self.m])

    def _step(self) -> tuple[ca.SX, ca.SX, ca.SX]:
        """Predict, evaluate f, update, accumulate z^2 / s (PN-SMC eqs. 16-19)."""
        gain = [ca.SX.sym(f"gain_{j}") for j in range(self.order + 1)]
        precision, scale = ca.SX.sym("precision"), ca.SX.sym("scale")
        m, rates = self._predicted()
        residual_sum = []
        for i, row in enumerate(m):
            z = rates[i] - row[1]
            row[:] = [value + g * z for value, g in zip(row, gain, strict=True)]
            # Without noise on the residual its gain is one: the rate is conditioned on exactly.
            row[1] = rates[i]
            residual_sum.append(self.residual_sum[i] + z * z * (precision * scale))
        step_row = ca.vertcat(self.model.u, self.model.t, self.h, scale)
        state = ca.vertcat(*[v for row in m for v in row], *residual_sum)
        return step_row, ca.vertcat(*gain, precision), state

    def _predicted(self) -> tuple[list[list[ca.SX]], ca.SX]:
        """Coordinates after a step of the prior, and the coordinate of f there."""
        m = [list(row) for row in self.m]
        for row in m:
            for i in range(self.order):
                for j in range(self.order - 1, i - 1, -1):
                    row[j] += row[j + 1]
        predicted = ca.vertcat(*[row[0] for row in m])
        return m, self.h * ca.substitute(self.model.rhs, self.model.x, predicted)

    def _coordinates(self, derivatives: list[ca.SX]) -> ca.SX:
        """Nordsieck coordinates h^j x^(j) / j!, state by state."""
        factors = [self.h**j / factorial(j) for j in range(self.order + 1)]
        return ca.vertcat(
            *[
                factors[j] * derivatives[j][i]
                for i in range(len(self.m))
                for j in range(self.order + 1)
            ]
        )


def marginal_rows(
    record: Record, model: Model, solver: EKF0, restarts: bool, number: int = 0
) -> Rows:
    """Build the shared rows of `MarginalSymbols.program` for a record, the ``number``-th.

    Diffusion has the unit that it takes with the mean step as unit of time; a step of another
    length h scales variances by (h / mean)^(2 order + 1). Where the record tells its sampling
    interval nothing depends on its end.
    """
    steps, n = int(solver.steps), record.n_inputs
    n_steps, count = steps * (len(record) - 1), np.arange(len(record))
    mean_length = record.interval / steps
    lengths = np.diff(record.t) / steps if restarts else np.full(len(record) - 1, mean_length)
    growth = (lengths / mean_length) ** (2 * solver.order + 1)
    shared = shared_gains(solver.order, steps if restarts else n_steps)
    if restarts:
        variance = np.concatenate([[0.0], np.cumsum(growth * shared.variance[-1])])
    else:
        variance = np.concatenate([[0.0], shared.variance[steps - 1 :: steps]])
    inputs = np.empty((len(record) - 1, steps, n + 3))
    inputs[..., :n] = substep_inputs(record, steps)[:, 1:]
    inputs[..., n] = substep_times(record, steps)[:, 1:]
    inputs[..., n + 1] = lengths[:, None]
    inputs[..., n + 2] = 1.0 / growth[:, None]
    per_step = 1.0 / np.maximum(steps * count, 1)
    start = start_row(record, number, len(model.initial), solver.order)
    return Rows(
        start=np.append(start, lengths[0]),
        inputs=inputs.reshape(n_steps, n + 3),
        gains=np.column_stack([shared.gain, 1.0 / shared.innovation]),
        samples=np.column_stack([sample_rows(record, model.outputs.numel()), variance, per_step]),
        steps=steps,
        cycle=steps if restarts else n_steps,
        intervals=_interval_rows(record, solver.order, lengths) if restarts else np.empty((0, 0)),
    )


def _interval_rows(record: Record, order: int, lengths: Array) -> Array:
    """Input, time, derivatives of the input and step length after each sample."""
    rates = interval_derivatives(record, order - 1).reshape(len(record) - 1, -1)
    return np.column_stack([record.u[:-1], record.t[:-1], rates, lengths])
