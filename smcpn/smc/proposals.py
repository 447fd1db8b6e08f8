"""Proposals of independent Metropolis-Hastings, fitted to the weighted particles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]

SINGULAR = 1e-13
"""Least spread of a coordinate given the ones before it, relative to its own spread."""


@dataclass(frozen=True)
class DefensiveGaussian:
    """A Gaussian with a share of Student's t around the same centre.

    A Gaussian alone is a safe proposal only where the target over the proposal is bounded; the
    tails of the t bound it at little cost (`smc.md` section 1.7).

    Attributes
    ----------
    mean : ndarray, (d,)
    factor : ndarray, (d, d)
        Lower Cholesky factor of the covariance.
    t_share : float
        Share of draws from the t.
    degrees : float
        Degrees of freedom of the t.
    """

    mean: Array
    factor: Array
    t_share: float = 0.2
    degrees: float = 5.0

    @classmethod
    def fit(cls, theta: Array, weights: Array) -> DefensiveGaussian:
        """Fit to weighted particles, (N, d) and (N,), by their moments (PN-SMC eq. 23).

        Where few particles carry the weight, correlations are shrunk towards zero. The factor
        comes from a QR decomposition of the particles, not from their covariance: a direction in
        which the posterior is 1e-6 of its width in others has lost half its digits there.
        """
        mean = weights @ theta
        scaled = np.sqrt(weights)[:, None] * (theta - mean)
        spread = np.sqrt(np.square(scaled).sum(axis=0))
        spread = np.maximum(spread, np.finfo(float).tiny ** 0.5)
        trusted = min(1.0, 1.0 / np.square(weights).sum() / (10.0 * theta.shape[1]))
        if trusted < 1.0:
            shrunk = np.sqrt(1.0 - trusted) * np.diag(spread)
            scaled = np.vstack([np.sqrt(trusted) * scaled, shrunk])
        upper = np.asarray(np.linalg.qr(scaled, mode="r"))
        upper *= np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]
        np.fill_diagonal(upper, np.maximum(np.diag(upper), SINGULAR * spread))
        return cls(mean, upper.T)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""
        normal = rng.standard_normal((size, len(self.mean)))
        from_t = rng.random(size) < self.t_share
        radius = np.sqrt(self.degrees / rng.chisquare(self.degrees, size))
        return self.mean + (normal * np.where(from_t, radius, 1.0)[:, None]) @ self.factor.T

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,)."""
        d, nu = len(self.mean), self.degrees
        whitened = (theta - self.mean) @ np.linalg.inv(self.factor).T
        square = np.square(whitened).sum(axis=1)
        log_volume = np.log(np.diag(self.factor)).sum()
        gaussian = -0.5 * (square + d * np.log(2 * np.pi)) - log_volume
        student = (
            gammaln((nu + d) / 2)
            - gammaln(nu / 2)
            - 0.5 * d * np.log(nu * np.pi)
            - log_volume
            - 0.5 * (nu + d) * np.log1p(square / nu)
        )
        return np.logaddexp(np.log1p(-self.t_share) + gaussian, np.log(self.t_share) + student)
