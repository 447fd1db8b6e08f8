"""The posterior to which all are compared, found by two methods that are none of those compared.

Importance sampling from a Student t fitted to the posterior, 200 000 draws of which some 85 %
count; and random-walk Metropolis, 512 chains from those draws, to check it. Both evaluate the
numba likelihood, which agrees with this package's to rounding (a test says so).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from benchmarks.side_by_side.data import Array, Data

DEGREES = 5.0
ROUNDS, PILOT, CHAINS = 6, 10_000, 512


@dataclass(frozen=True)
class Reference:
    """Mean and covariance of the log-parameters.

    mean: (4,)
    covariance: (4, 4)
    draws: Independent draws that its error corresponds to.
    """

    mean: Array
    covariance: Array
    draws: float

    def whitened(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Errors of a mean and of standard deviations along the principal axes, (4,) each.

        In units of the reference's standard deviation along each: what a mean is off, and what
        a standard deviation is off.
        """
        scales, axes = np.linalg.eigh(self.covariance)
        error = axes.T @ (mean - self.mean) / np.sqrt(scales)
        spread = np.sqrt(np.diag(axes.T @ covariance @ axes) / scales)
        return error, spread - 1.0


def log_posterior(theta: Array, data: Data) -> Array:
    """Unnormalised, (N,), for log-parameters (N, 4)."""
    from benchmarks.side_by_side.numba_lanes import log_likelihood

    value = log_likelihood(np.ascontiguousarray(theta), np.zeros((len(theta), 2)), *data[:4])
    value = value - 0.5 * np.sum(((theta - data.loc) / data.scale) ** 2, axis=1)
    return np.where(np.isfinite(value), value, -np.inf)


def importance_reference(data: Data, draws: int, rng: np.random.Generator) -> Reference:
    """Importance sampling, the proposal fitted in rounds of its own."""
    options = {"xatol": 1e-5, "fatol": 1e-2, "maxiter": 4000}
    mean = minimize(
        lambda theta: -log_posterior(theta[None], data)[0],
        data.loc,
        method="Nelder-Mead",
        options=options,
    ).x
    fitted = Reference(mean, np.eye(4) * 1e-6, 0.0)
    for _ in range(ROUNDS):
        fitted = _reweighted(data, fitted, PILOT, rng)
    return _reweighted(data, fitted, draws, rng)


def _reweighted(data: Data, fitted: Reference, draws: int, rng: np.random.Generator) -> Reference:
    family: Any = stats.multivariate_t
    proposal = family(fitted.mean, fitted.covariance, df=DEGREES, seed=rng)
    theta = proposal.rvs(draws)
    log_weights = log_posterior(theta, data) - proposal.logpdf(theta)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    covariance = np.cov(theta.T, aweights=weights, ddof=0)
    return Reference(weights @ theta, covariance, 1.0 / float(weights @ weights))


def metropolis_check(
    data: Data, reference: Reference, steps: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Errors of the reference as random-walk Metropolis sees them, as `Reference.whitened`.

    Chains begin twice as wide as the reference and forget it in a fifth of the steps.
    """
    theta = rng.multivariate_normal(reference.mean, 4.0 * reference.covariance, CHAINS)
    value = log_posterior(theta, data)
    factor = 2.38 / 2.0 * np.linalg.cholesky(reference.covariance)
    kept = []
    for step in range(steps):
        proposed = theta + rng.normal(size=theta.shape) @ factor.T
        new = log_posterior(proposed, data)
        accepted = np.log(rng.uniform(size=CHAINS)) < new - value
        theta = np.where(accepted[:, None], proposed, theta)
        value = np.where(accepted, new, value)
        if step >= steps // 5:
            kept.append(theta)
    draws = np.concatenate(kept)
    return reference.whitened(draws.mean(axis=0), np.cov(draws.T))
