"""What a likelihood expects of every sample, for one parameter vector: mean and covariance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel
from smcpn.likelihood.build import Solver
from smcpn.likelihood.classical import outputs_at, runge_kutta_program, runge_kutta_rows
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.likelihood.marginal import MarginalSymbols, marginal_rows, require_first_order
from smcpn.problem import Problem
from smcpn.record import Record
from smcpn.solver import EKF0

Array = NDArray[np.float64]


def predictive_moments(
    problem: Problem, solver: Solver, values: Array, records: Iterable[tuple[int, Record]]
) -> list[tuple[Array, Array]]:
    """Run the likelihood's own recursion and return the mean and the solver's covariance.

    Parameters
    ----------
    solver : EKF0 or RK4
        With a number of steps, counted per sampling interval of the problem's first record.
    values : ndarray, (d,)
        Parameter values.
    records : iterable of (int, Record)
        Each with the number of the initial state it starts from.

    Returns
    -------
    list of (mean (T, q), covariance (T, q, q))
        Outputs without noise, and J Sigma J' of `EKF0` (PN-SMC eq. 20); zero for `RK4`, which
        claims no error.
    """
    theta = np.asarray(values, dtype=float)[:, None]
    emit = _marginal if isinstance(solver, EKF0) else _classical
    return [
        emit(problem, _same_step_length(problem, solver, record), theta, number, record)
        for number, record in records
    ]


def _same_step_length(problem: Problem, solver: Solver, record: Record) -> Solver:
    """Scale the steps per sample, so that a record sampled more coarsely has no longer steps."""
    learned, here = (float(np.diff(r.t).mean()) for r in (problem.records[0], record))
    return replace(solver, steps=max(1, int(np.ceil(int(solver.steps) * here / learned - 1e-6))))


def _marginal(
    problem: Problem, solver: Solver, theta: Array, number: int, record: Record
) -> tuple[Array, Array]:
    assert isinstance(solver, EKF0)
    require_first_order(solver)
    model = problem.model
    symbols = MarginalSymbols(model, solver.order, record.uniform)
    mean, covariance = symbols.prediction()
    kernel = LaneKernel(symbols.program(ca.vertcat(mean, ca.vec(covariance))), threads=1)
    rows = marginal_rows(record, model, solver, record.uniform, number)
    _, emitted, _ = kernel.advance(theta, kernel.start(theta, rows), rows, 0, len(rows), True)
    q = model.outputs.numel()
    return emitted[:, :q, 0], emitted[:, q:, 0].reshape(-1, q, q)


def _classical(
    problem: Problem, solver: Solver, theta: Array, number: int, record: Record
) -> tuple[Array, Array]:
    model = problem.model
    sample = SampleSymbols.of(model)
    outputs = outputs_at(model, model.x, sample)
    kernel = LaneKernel(runge_kutta_program(model, sample, outputs), threads=1)
    rows = runge_kutta_rows(record, model, int(solver.steps), number)
    _, emitted, _ = kernel.advance(theta, kernel.start(theta, rows), rows, 0, len(rows), True)
    q = model.outputs.numel()
    return emitted[:, :, 0], np.zeros((len(rows), q, q))
