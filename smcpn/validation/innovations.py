"""Normalised innovations: what the likelihood did not expect, in units of what it expected.

The data-free marginal likelihood (PN-SMC eq. 20) and the classical one compare every sample with
a free simulation, so v_n = y_n - g(mu_n) is the error of a simulation, not of a one-step
prediction, and S_n = J Sigma_n J' + R its variance. Both likelihoods take the v_n as independent:
where model, noise and solver are right, v / sqrt(S) is white with mean 0 and variance 1. A wrong
noise variance shows in the variance, a wrong model in the correlations, and an error of the solver
that is not small against the noise in both. The likelihoods that see the data (filtering, dalton,
fenrir) compare it with a prediction from the samples before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError
from smcpn.likelihood.build import Solver
from smcpn.likelihood.predictive import predictive_moments
from smcpn.problem import Problem
from smcpn.record import Record

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Innovations:
    """Normalised innovations of one record at one parameter vector.

    Attributes
    ----------
    record : Record
    mean : ndarray, (T, q)
        Expected outputs, in their units.
    variance : ndarray, (T, q)
        Diagonal of S: solver and noise.
    solver_variance : ndarray, (T, q)
        Diagonal of J Sigma J', the solver's part of it.
    normalised : ndarray, (T, q)
        L^-1 v with S = L L' over the outputs present: for one output v / sqrt(S). NaN where
        nothing was measured.
    """

    record: Record
    mean: Array
    variance: Array
    solver_variance: Array
    normalised: Array

    @property
    def solver_share(self) -> Array:
        """Share of the innovation variance that is solver error, (T, q), 0 to 1."""
        return self.solver_variance / self.variance


def innovations(
    problem: Problem,
    solver: Solver,
    values: Array,
    record: Record | None = None,
    likelihood: str | None = None,
) -> tuple[Innovations, ...]:
    """Normalised innovations of a record, or of every record of the problem.

    Parameters
    ----------
    solver : EKF0 or RK4
        As it ran, its steps a number.
    values : ndarray, (d,)
        Parameter values.
    record : Record, optional
        Measured as the problem observes. It starts from the initial state of the problem's first
        record, unless it is one of the others.
    likelihood : str, optional
        As of `smcpn.likelihood.build.build_likelihood`.

    Raises
    ------
    InputError
        If the measurements are not Gaussian, so that no innovation is normal.
    """
    if problem.model.density is not None:
        raise InputError(
            "innovations need Gaussian noise, a standard deviation per output: the problem's noise "
            "has a density of its own"
        )
    chosen = list(enumerate(problem.records))
    if record is not None:
        own = [(number, one) for number, one in chosen if one is record]
        chosen = own or [(0, record)]
    noise = problem.model.noise_variances(np.asarray(values, dtype=float)[None, :])[:, 0]
    moments = predictive_moments(problem, solver, values, chosen, likelihood)
    return tuple(
        _normalised(one, mean, numerical, noise)
        for (_, one), (mean, numerical) in zip(chosen, moments, strict=True)
    )


def _normalised(record: Record, mean: Array, numerical: Array, noise: Array) -> Innovations:
    total = numerical + np.diag(noise)
    present = np.isfinite(record.y)
    # A missing output becomes a unit variance independent of the rest, so that it whitens nothing.
    both = present[:, :, None] & present[:, None, :]
    masked = np.where(both, total, 0.0)
    masked += np.where(present, 0.0, 1.0)[:, :, None] * np.eye(len(noise))
    error = np.where(present, record.y - mean, 0.0)
    whitened = np.linalg.solve(np.linalg.cholesky(masked), error[:, :, None])[:, :, 0]
    return Innovations(
        record=record,
        mean=mean,
        variance=np.diagonal(total, axis1=1, axis2=2).copy(),
        solver_variance=np.diagonal(numerical, axis1=1, axis2=2).copy(),
        normalised=np.where(present, whitened, np.nan),
    )
