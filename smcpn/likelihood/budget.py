"""How much of the innovation variance is solver error, and how many steps that asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.build import Solver
from smcpn.likelihood.measurement import LEAST_INFORMATION
from smcpn.likelihood.predictive import RecordPrediction, predictions
from smcpn.problem import Model, Problem
from smcpn.solver import MAX_STEPS

Array = NDArray[np.float64]

SOLVER_SHARE = 0.05
"""Largest mean share of the noise variance that ``steps="auto"`` leaves to the solver."""
MOST_STEPS = 4_000_000
"""Solver steps over all records beyond which ``steps="auto"`` gives up."""


@dataclass(frozen=True)
class ErrorBudget:
    """Solver error in units of the noise variance, mean over samples, of the worst output.

    Attributes
    ----------
    claimed : float
        Variance that the likelihood counts; 0 for a solver that claims no error.
    change : float
        Squared change of the outputs when the steps are doubled (halved, where the limit is
        near): about the error there is. inf where the solution diverges.
    """

    claimed: float
    change: float

    @property
    def share(self) -> float:
        """The larger of the two."""
        return max(self.claimed, self.change)

    @property
    def concerns(self) -> tuple[str, ...]:
        """What deserves a second look."""
        if self.share <= SOLVER_SHARE:
            return ()
        return (
            f"the solver's error is {self.share:.2g} of the noise variance at the posterior mean: "
            "raise steps (or steps='auto'), parameters may be biased",
        )


def error_budget(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> ErrorBudget:
    """Measure the solver's error at parameter values (d,), in two ways.

    A variance alone may be told wrong: what the solver does not see, it does not claim. Of a
    likelihood that sees the data both are errors of predictions one sample ahead.
    """
    found = predictions(problem, solver, enumerate(problem.records), likelihood)
    return _budget(problem, found, values, int(solver.steps))


def _budget(
    problem: Problem, found: list[RecordPrediction], values: Array, steps: int
) -> ErrorBudget:
    compared = 2 * steps if 2 * steps <= MAX_STEPS else steps // 2
    own, other = ([one.moments(values, n) for one in found] for n in (steps, compared))
    noise = _noise(problem, np.asarray(values, dtype=float), np.concatenate([m for m, _ in own]))
    measured = np.concatenate([np.isfinite(record.y) for record in problem.records])
    with np.errstate(over="ignore", invalid="ignore"):
        variance = np.concatenate([np.diagonal(c, axis1=1, axis2=2) for _, c in own])
        change = np.concatenate(
            [np.square(a - b) for (a, _), (b, _) in zip(own, other, strict=True)]
        )
        return ErrorBudget(_worst(variance / noise, measured), _worst(change / noise, measured))


def affordable(problem: Problem, steps: int) -> bool:
    """Whether ``steps="auto"`` still tries this number of steps per sample."""
    return steps <= MAX_STEPS and steps * problem.n_samples <= MOST_STEPS


def _noise(problem: Problem, values: Array, outputs: Array) -> Array:
    """Variance of the noise, (T, q); where it is not Gaussian, what a value would tell exactly.

    That is the inverse of its information about the output, at the outputs (T, q).
    """
    model = problem.model.with_numbers()
    if model.density is None:
        return np.broadcast_to(model.noise_variances(values[None, :])[:, 0], outputs.shape)
    y = np.concatenate([record.y for record in problem.records])
    return effective_variance(model, np.nan_to_num(y, nan=1.0).T, outputs.T, values).T


def effective_variance(model: Model, y: Array, outputs: Array, theta: Array) -> Array:
    """Inverse information of values (q, K) about outputs (q, K); theta is (d,) or (d, K)."""
    density = model.density
    assert density is not None
    symbols = [density.y, density.output, model.theta]
    function = ca.Function("information", symbols, [density.information()])
    return 1.0 / np.maximum(function(y, outputs, theta).full(), LEAST_INFORMATION)


def _worst(shares: Array, measured: NDArray[np.bool_]) -> float:
    means = [shares[seen, j].mean() for j, seen in enumerate(measured.T) if seen.any()]
    worst = float(np.max(means))
    return worst if np.isfinite(worst) else np.inf


def sufficient_steps(
    problem: Problem,
    solver: Solver,
    values: Array,
    likelihood: str | None = None,
    share: float = SOLVER_SHARE,
    least: int = 1,
) -> Solver:
    """Double the steps per sample until the solver's share is small.

    Raises
    ------
    InputError
        If even the largest number of steps is not enough.
    """
    found = predictions(problem, solver, enumerate(problem.records), likelihood)
    steps = least
    while affordable(problem, steps):
        if _budget(problem, found, values, steps).share <= share:
            return replace(solver, steps=steps)
        steps *= 2
    raise InputError(
        f"steps 'auto' finds no number up to {steps // 2} that brings the solver's error below "
        f"{share:.0%} of the noise variance: check the model, its priors and the noise, or give "
        "a number of steps"
    )
