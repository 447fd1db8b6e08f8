"""The data-free marginal likelihood of PN-SMC: EKF0 integrates, the data only weigh.

y_n ~ N(g(mu_n), J Sigma_n J' + R), where mu_n and Sigma_n are the filter's mean and covariance
of the state given the ODE alone (PN-SMC eq. 20), J = dg/dx at mu_n, and Sigma_n is scaled by the
running quasi-MLE of a diagonal diffusion, Gamma_ii = mean of z_i^2 / s over all steps so far
(PN-SMC eq. 19, made causal so that a stream and a browse agree).

An observed derivative is g = f at the state. The filter's own entry for it is conditioned on
exactly and would claim an acceleration without solver error.
"""

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
from smcpn.pn.gains import shared_gains
from smcpn.pn.taylor import taylor_derivatives
from smcpn.problem import Model, Problem
from smcpn.record import Record
from smcpn.solver import EKF0

Array = NDArray[np.float64]


def marginal(problem: Problem, solver: EKF0, threads: int | None = None) -> LaneLikelihood:
    """Build the likelihood of a problem.

    Raises
    ------
    InputError
        If the solver is not an `EKF0` in first-order form with a number of steps.
    """
    require_first_order(solver)
    symbols = MarginalSymbols(problem.model, solver.order, problem.uniform)
    kernel = LaneKernel(symbols.program(symbols.log_density()), threads)
    rows = [
        marginal_rows(record, problem.model, solver, problem.uniform, number)
        for number, record in enumerate(problem.records)
    ]
    return LaneLikelihood(kernel, rows, solver)


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
    if solver.steps == "auto":
        raise InputError("steps 'auto' is still to be chosen: use smcpn.ibis, or give a number")


class MarginalSymbols:
    """The graphs of the EKF0 recursion of one particle.

    The state of a lane holds the Nordsieck coordinates m_ij = h^j x_i^(j) / j! of every state and
    the running sum of z_i^2 / s. The shared rows hold inputs and gains.
    """

    def __init__(self, model: Model, order: int, uniform: bool) -> None:
        self.model, self.order, self.uniform = model, order, uniform
        n, size = model.x.numel(), order + 1
        self.m = [[ca.SX.sym(f"m_{i}_{j}") for j in range(size)] for i in range(n)]
        self.residual_sum = ca.SX.sym("residual_sum", n, 1)
        self.sample = SampleSymbols.of(model)
        self.variance = ca.SX.sym("variance")
        self.per_step = ca.SX.sym("per_step")
        self.h = ca.SX.sym("h")

    def program(self, emitted: ca.SX) -> LaneProgram:
        """Assemble the kernel that emits ``emitted`` at each sample."""
        gain_row, step = self._step()
        start_symbols, start = self._start()
        return LaneProgram(
            theta=self.model.theta,
            state=ca.vertcat(*[v for row in self.m for v in row], self.residual_sum),
            start_row=ca.vertcat(start_symbols.row, self.h),
            step_row=ca.vertcat(self.model.u, self.model.t),
            gain_row=gain_row,
            sample_row=ca.vertcat(self.sample.row, self.variance, self.per_step),
            start=start,
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
        at = [ca.vertcat(*[row[0] for row in self.m]), self.sample.u, self.sample.t]
        outputs, numerical = ca.substitute(
            [model.outputs, numerical], [model.x, model.u, model.t], at
        )
        return outputs, numerical

    def _step(self) -> tuple[ca.SX, ca.SX]:
        """Predict, evaluate f, update, accumulate z^2 / s (PN-SMC eqs. 16-19)."""
        gain = [ca.SX.sym(f"gain_{j}") for j in range(self.order + 1)]
        precision, ratio = ca.SX.sym("precision"), ca.SX.sym("ratio")
        m = [list(row) for row in self.m]
        for row in m:
            if not self.uniform:
                row[:] = [value * ratio**j for j, value in enumerate(row)]
            for i in range(self.order):
                for j in range(self.order - 1, i - 1, -1):
                    row[j] += row[j + 1]
        predicted = ca.vertcat(*[row[0] for row in m])
        rates = self.h * ca.substitute(self.model.rhs, self.model.x, predicted)
        residual_sum = []
        for i, row in enumerate(m):
            z = rates[i] - row[1]
            row[:] = [value + g * z for value, g in zip(row, gain, strict=True)]
            # Without noise on the residual its gain is one: the rate is conditioned on exactly.
            row[1] = rates[i]
            residual_sum.append(self.residual_sum[i] + z * z * precision)
        gain_row = [*gain, self.h, precision] + ([] if self.uniform else [ratio])
        return ca.vertcat(*gain_row), ca.vertcat(*[v for row in m for v in row], *residual_sum)

    def _start(self) -> tuple[StartSymbols, ca.SX]:
        model = self.model
        derivatives, input_derivatives = taylor_derivatives(
            model.x, model.u, model.t, model.rhs, self.order
        )
        symbols = StartSymbols.of(model, input_derivatives)
        scaled, factor = [], ca.SX(1)
        for j, derivative in enumerate(derivatives):
            factor = factor * self.h / j if j else factor
            scaled.append(derivative * factor)
        values = ca.vertcat(*[scaled[j][i] for i in range(len(self.m)) for j in range(len(scaled))])
        values = ca.substitute(values, model.x, symbols.initial(model))
        return symbols, ca.vertcat(values, ca.SX.zeros(len(self.m), 1))


def marginal_rows(
    record: Record, model: Model, solver: EKF0, uniform: bool, number: int = 0
) -> Rows:
    """Build the shared rows of `MarginalSymbols.program` for a record, the ``number``-th."""
    steps = int(solver.steps)
    n_steps = steps * (len(record) - 1)
    lengths = np.repeat(np.diff(record.t) / steps, steps)
    if uniform:
        lengths = np.full(n_steps, (record.t[-1] - record.t[0]) / n_steps)
    shared = shared_gains(solver.order, lengths, uniform)
    rows = len(shared.gain)
    gains = [shared.gain, lengths[:rows], 1.0 / shared.innovation]
    if not uniform:
        gains.append(np.concatenate([[1.0], lengths[1:] / lengths[:-1]]))
    inputs = np.empty((len(record) - 1, steps, record.n_inputs + 1))
    inputs[..., :-1] = substep_inputs(record, steps)[:, 1:]
    inputs[..., -1] = substep_times(record, steps)[:, 1:]
    done = steps * np.arange(len(record))
    variance = np.concatenate([[0.0], shared.variance[steps - 1 :: steps]])
    samples = sample_rows(record, model.outputs.numel())
    start = start_row(record, number, len(model.initial), solver.order)
    return Rows(
        start=np.append(start, lengths[0]),
        inputs=inputs.reshape(n_steps, -1),
        gains=np.column_stack(gains),
        samples=np.column_stack([samples, variance, 1.0 / np.maximum(done, 1)]),
        steps=steps,
    )
