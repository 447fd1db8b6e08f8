"""The metric of gradient moves: a covariance fitted to particles and to gradients at them.

For a Gaussian target of precision P, gradients at particles are g = -P (x - mean), so that their
covariance is P X P where that of the particles is X: the solution C of C G C = X is then exactly
P^-1 from d + 1 particles on, where X alone would need many for each parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError

Array = NDArray[np.float64]

ENOUGH = 1.5
"""Particles per dimension from which correlations are believed."""
RIDGE = 1e-10
"""Added to the diagonal of a covariance of unit scale."""


@dataclass(frozen=True)
class Metric:
    """Coordinates z in which a target is about isotropic: theta = centre + factor z.

    Attributes
    ----------
    centre : ndarray, (d,)
    factor : ndarray, (d, d)
        A root of the covariance.

    References
    ----------
    Seyboldt, A., Carlson, E. L., Carpenter, B. (2026). Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence (what the covariance minimises). Ledoit, O., Wolf, M. (2004). A
    well-conditioned estimator for large-dimensional covariance matrices. Journal of Multivariate
    Analysis 88 (shrinking).
    """

    centre: Array
    factor: Array

    @classmethod
    def fit(cls, theta: Array, gradient: Array, weights: Array) -> Self:
        """Fit to weighted particles (n, d) and (n,), and the gradients at them, (n, d).

        Particles at which the gradient is not finite are left out. Where there are fewer than
        `ENOUGH` for each dimension, both covariances are shrunk towards their diagonals.

        Raises
        ------
        InputError
            If fewer than two are left.
        """
        known = np.isfinite(gradient).all(axis=1) & (weights > 0)
        if np.count_nonzero(known) < 2:
            raise InputError(
                f"the gradient of the log-likelihood is finite at {np.count_nonzero(known)} of "
                f"{len(theta)} particles: choose moves='independent', or write the equation "
                "without functions of infinite slope, such as sqrt at 0",
                argument="moves",
            )
        theta, gradient, weights = theta[known], gradient[known], weights[known]
        weights = weights / weights.sum()
        d = theta.shape[1]
        centre, root = weights @ theta, np.sqrt(weights)[:, None]
        points, slopes = root * (theta - centre), root * (gradient - weights @ gradient)
        spread, steepness = _lengths(points), _lengths(slopes)
        scale = np.sqrt(spread / steepness)
        share = min(1.0, len(theta) / (ENOUGH * d)) ** 2
        lower = np.linalg.cholesky(_covariance(points / scale, share))
        values, vectors = np.linalg.eigh(lower.T @ _covariance(slopes * scale, share) @ lower)
        values = np.maximum(values, RIDGE * values[-1])
        return cls(centre, scale[:, None] * (lower @ vectors) * values**-0.25)

    def coordinates(self, theta: Array) -> Array:
        """Coordinates z of parameters, (n, d) both."""
        z = np.linalg.solve(self.factor, (theta - self.centre).T).T
        return np.asarray(z, dtype=np.float64)


def _lengths(columns: Array) -> Array:
    """Lengths of the columns, none zero."""
    return np.maximum(np.sqrt(np.square(columns).sum(axis=0)), np.finfo(float).tiny ** 0.25)


def _covariance(points: Array, share: float) -> Array:
    """Covariance of centred points, of whose correlations a share is believed."""
    covariance = points.T @ points
    diagonal = np.diag(covariance).copy()
    covariance *= share
    np.fill_diagonal(covariance, diagonal * (1.0 + RIDGE))
    return covariance
