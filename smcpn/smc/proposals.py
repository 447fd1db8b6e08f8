"""Proposals of independent Metropolis-Hastings, fitted to the weighted particles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]

SINGULAR = 1e-13
"""Least spread of a coordinate given the ones before it, relative to its own spread."""
TRUSTED_PER_DIMENSION = 10.0
"""Effective particles per dimension below which correlations are shrunk towards zero."""


class Proposal(Protocol):
    """A density that draws whole parameter vectors, whatever the particle they replace."""

    name: ClassVar[str]

    @classmethod
    def fit(cls, theta: Array, weights: Array) -> Self:
        """Fit to weighted particles, (N, d) and (N,); the weights sum to one."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""
        ...

    def log_density(self, theta: Array) -> Array:
        """Normalised log density at (n, d), shape (n,)."""
        ...


@dataclass(frozen=True)
class DefensiveGaussian:
    """A Gaussian with a share of Student's t around the same centre.

    A Gaussian alone is a safe proposal only where the target over the proposal is bounded; the
    tails of the t bound it at little cost.

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

    name: ClassVar[str] = "gaussian"

    mean: Array
    factor: Array
    t_share: float = 0.2
    degrees: float = 5.0

    @classmethod
    def fit(cls, theta: Array, weights: Array) -> Self:
        """Fit to weighted particles, (N, d) and (N,), by their moments (PN-SMC eq. 23)."""
        return cls(*weighted_moments(theta, weights))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""
        normal = rng.standard_normal((size, len(self.mean)))
        from_t = rng.random(size) < self.t_share
        radius = np.sqrt(self.degrees / rng.chisquare(self.degrees, size))
        return self.mean + (normal * np.where(from_t, radius, 1.0)[:, None]) @ self.factor.T

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,)."""
        d = len(self.mean)
        whitened = (theta - self.mean) @ np.linalg.inv(self.factor).T
        square = np.square(whitened).sum(axis=1)
        log_volume = np.log(np.diag(self.factor)).sum()
        gaussian = -0.5 * (square + d * np.log(2 * np.pi)) - log_volume
        student = student_log_density(square, d, self.degrees) - log_volume
        return np.logaddexp(np.log1p(-self.t_share) + gaussian, np.log(self.t_share) + student)


def weighted_moments(
    theta: Array, weights: Array, per_dimension: float = TRUSTED_PER_DIMENSION
) -> tuple[Array, Array]:
    """Mean (d,) and lower Cholesky factor (d, d) of the covariance of weighted particles.

    Where fewer than ``per_dimension`` effective particles per dimension carry the weight,
    correlations are shrunk towards zero. The factor comes from a QR decomposition of the
    particles, not from their covariance: a direction in which the posterior is 1e-6 of its width
    in others has lost half its digits there.
    """
    mean = weights @ theta
    scaled = np.sqrt(weights)[:, None] * (theta - mean)
    spread = np.sqrt(np.square(scaled).sum(axis=0))
    spread = np.maximum(spread, np.finfo(float).tiny ** 0.5)
    trusted = trusted_share(1.0 / np.square(weights).sum(), theta.shape[1], per_dimension)
    if trusted < 1.0:
        shrunk = np.sqrt(1.0 - trusted) * np.diag(spread)
        scaled = np.vstack([np.sqrt(trusted) * scaled, shrunk])
    upper = np.asarray(np.linalg.qr(scaled, mode="r"))
    upper *= np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]
    np.fill_diagonal(upper, np.maximum(np.diag(upper), SINGULAR * spread))
    return mean, upper.T


def trusted_share(
    ess: float, dimension: int, per_dimension: float = TRUSTED_PER_DIMENSION
) -> float:
    """Share of an estimated correlation to believe, given the particles that carry it."""
    return min(1.0, ess / (per_dimension * dimension))


def student_log_density(square: Array, dimension: int, degrees: float) -> Array:
    """Log density of a standard multivariate t at squared Mahalanobis distances."""
    return (
        gammaln((degrees + dimension) / 2)
        - gammaln(degrees / 2)
        - 0.5 * dimension * np.log(degrees * np.pi)
        - 0.5 * (degrees + dimension) * np.log1p(square / degrees)
    )
