"""How much of the innovation variance is solver error, and how many steps that asks for."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.kernel import LaneKernel, Rows
from smcpn.errors import InputError
from smcpn.likelihood.build import Solver
from smcpn.likelihood.classical import outputs_at, runge_kutta_program, runge_kutta_rows
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.likelihood.marginal import (
    MarginalSymbols,
    marginal_rows,
    must_restart,
    require_first_order,
)
from smcpn.problem import Problem
from smcpn.solver import EKF0, MAX_STEPS, RK4

Array = NDArray[np.float64]

SOLVER_SHARE = 0.05
"""Largest mean share of the noise variance that ``steps="auto"`` leaves to the solver."""


def solver_share(problem: Problem, solver: Solver, values: Array) -> float:
    """Solver variance over noise variance of the outputs, mean over samples, worst output.

    For `EKF0` the variance is the one that the marginal likelihood counts; for `RK4`, which
    claims none, the squared change of the outputs when the steps are doubled.

    Parameters
    ----------
    values : ndarray, (d,)
        Parameter values.

    Returns
    -------
    float
        inf where the solution diverges.
    """
    theta = np.asarray(values, dtype=float)[:, None]
    if isinstance(solver, EKF0):
        per_sample = _shares_ekf0(problem, solver, theta)
    else:
        per_sample = _shares_rk4(problem, solver, theta)
    measured = np.concatenate([np.isfinite(r.y) for r in problem.records])
    with np.errstate(over="ignore", invalid="ignore"):
        means = [per_sample[measured[:, j], j].mean() for j in range(measured.shape[1])]
    worst = float(np.max(means))
    return worst if np.isfinite(worst) else np.inf


def sufficient_steps(
    problem: Problem, solver: Solver, values: Array, share: float = SOLVER_SHARE, least: int = 1
) -> Solver:
    """Double the steps per sample until the solver's share is small.

    Raises
    ------
    InputError
        If even the largest number of steps is not enough.
    """
    steps = least
    while steps <= MAX_STEPS:
        candidate = replace(solver, steps=steps)
        if solver_share(problem, candidate, values) <= share:
            return candidate
        steps *= 2
    raise InputError(
        f"steps 'auto' finds no number up to {MAX_STEPS} that brings the solver's variance below "
        f"{share:.0%} of the noise variance: check the model at the prior's median, or the noise"
    )


def _shares_ekf0(problem: Problem, solver: EKF0, theta: Array) -> Array:
    require_first_order(solver)
    model, restarts = problem.model, must_restart(problem.records)
    symbols = MarginalSymbols(model, solver.order, restarts)
    _, numerical = symbols.prediction()
    ratio = ca.diag(numerical) / model.noise_variance
    kernel = LaneKernel(symbols.program(ratio), threads=1)
    rows = [
        marginal_rows(record, model, solver, restarts, number)
        for number, record in enumerate(problem.records)
    ]
    return _emitted(kernel, theta, rows)


def _shares_rk4(problem: Problem, solver: RK4, theta: Array) -> Array:
    model = problem.model
    sample = SampleSymbols.of(model)
    scaled = outputs_at(model, model.x, sample) / ca.sqrt(model.noise_variance)
    kernel = LaneKernel(runge_kutta_program(model, sample, scaled), threads=1)
    coarse, fine = (
        _emitted(
            kernel,
            theta,
            [
                runge_kutta_rows(record, model, int(solver.steps) * factor, number)
                for number, record in enumerate(problem.records)
            ],
        )
        for factor in (1, 2)
    )
    return np.square(coarse - fine)


def _emitted(kernel: LaneKernel, theta: Array, records: list[Rows]) -> Array:
    """What each sample of every record emits for one particle, (T, e)."""
    return np.concatenate(
        [
            kernel.advance(theta, kernel.start(theta, rows), rows, 0, len(rows), True)[1][:, :, 0]
            for rows in records
        ]
    )
