"""A first guess of the steps: from the local error over a pilot set of parameters.

The error budget looks at one parameter vector, and at the error that has built up there. The local
error needs neither a reference nor a solution that is accurate already, so that a whole set drawn
from the prior can be asked, and those of it that diverge left out.
"""

from __future__ import annotations

from math import log2

import numpy as np
from numpy.typing import NDArray

from smcpn.likelihood.budget import SOLVER_SHARE, affordable, effective_variance
from smcpn.likelihood.build import Solver
from smcpn.likelihood.prediction import Averages
from smcpn.likelihood.predictive import RecordPrediction, predictions
from smcpn.problem import Problem

Array = NDArray[np.float64]

FLAT = 1e-6
"""Spread of a state, relative to its size, below which it counts as constant."""


def pilot_steps(
    problem: Problem, solver: Solver, values: Array, likelihood: str | None = None
) -> int | None:
    """Steps per sample, a power of two, that bring the local error of most parameters into bounds.

    The local error e of each state is allowed what the noise is to the outputs: in root mean
    square over the record, e is at most ``sqrt(SOLVER_SHARE) r`` times the standard deviation of
    the state, where r is that of the noise over that of the measured output. The solution runs
    without data.

    Parameters
    ----------
    solver : EKF0, EKF1 or RK4
    values : ndarray, (N, d)
        Parameter values. The median of their errors counts; those of solutions that diverge do
        not, unless they are the most.
    likelihood : str, optional
        As of `build_likelihood`.

    Returns
    -------
    int or None
        None if no number of steps is enough.
    """
    hidden = [record.unmeasured(len(problem.observe)) for record in problem.records]
    found = predictions(problem, solver, enumerate(hidden), likelihood)
    order, steps = found[0].prediction.local_order, 1
    while affordable(problem, steps):
        error = _median(local_errors(problem, found, values, steps))
        if error <= 1.0:
            return steps
        # The error falls with this power of the number of steps.
        doublings = int(log2(error) / order) if np.isfinite(error) else 0
        steps *= 2 ** max(1, doublings)
    return None


def local_errors(
    problem: Problem, found: list[RecordPrediction], values: Array, steps: int
) -> Array:
    """Local error in units of what is allowed, of the worst state, (N,); inf where it diverges."""
    with np.errstate(all="ignore"):
        averages = _averages(found, values, steps)
        spread = _spread(averages.states, averages.state_squares)
        allowed = np.sqrt(SOLVER_SHARE) * _relative_noise(problem, averages, values) * spread
        error = np.sqrt(averages.error_squares)
        worst = np.where(error > 0.0, error / allowed, error).max(axis=0)
    return np.where(np.isfinite(worst), worst, np.inf)


def _median(errors: Array) -> float:
    finite = np.isfinite(errors)
    return float(np.median(errors[finite])) if 2 * finite.sum() > len(errors) else np.inf


def _averages(found: list[RecordPrediction], values: Array, steps: int) -> Averages:
    """Averages over the samples of all records."""
    theta = np.ascontiguousarray(values.T)
    weights = np.array([len(one.record) for one in found], dtype=float)
    each = [one.prediction.averages(theta, one.record, one.steps(steps)) for one in found]
    together = (np.average(parts, axis=0, weights=weights) for parts in zip(*each, strict=True))
    return Averages(*together)


def _relative_noise(problem: Problem, averages: Averages, values: Array) -> Array:
    """Standard deviation of the noise over that of the output, of the clearest output, (N,)."""
    model = problem.model.with_numbers()
    y = np.concatenate([record.y for record in problem.records])
    if model.density is None:
        noise, spread = model.noise_variances(values), np.nanstd(y, axis=0)[:, None]
    else:
        n = values.shape[0]
        means = np.repeat(np.nanmean(y, axis=0)[:, None], n, axis=1)
        noise = effective_variance(model, means, averages.outputs, values.T)
        spread = _spread(averages.outputs, averages.output_squares)
    return np.nanmin(np.sqrt(noise) / spread, axis=0)


def _spread(mean: Array, square: Array) -> Array:
    """Standard deviation, not less than a rounding of the size makes it."""
    return np.sqrt(np.maximum(square - mean**2, FLAT**2 * square))
