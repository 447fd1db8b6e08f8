"""Proposals of independent Metropolis-Hastings, fitted to the weighted particles.

A `Proposal` registers in `PROPOSALS` by being defined.

A proposal fitted to N particles has more density at these than elsewhere, the more parameters it
has: their target over proposal is too low, and moves away from them are accepted too readily. In
25 dimensions that shifts the log-evidence by several standard errors. So the particles are dealt
into folds, and each fold is moved by a proposal that was fitted to the other folds (`CrossFitted`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from smcpn.model.prior import by_blocks

Array = NDArray[np.float64]

SINGULAR = 1e-13
"""Least spread of a coordinate given the ones before it, relative to its own spread."""
NARROWEST = 1e-100
"""Least spread of a coordinate that is zero in all particles."""
TRUSTED_PER_DIMENSION = 10.0
"""Effective particles per dimension below which correlations are shrunk towards zero."""


PROPOSALS: dict[str, type[Proposal]] = {}
"""Every proposal by its name."""


class Proposal(ABC):
    """A density over parameters, in unconstrained coordinates, to draw from independently.

    Attributes
    ----------
    name : str
        Its name in records of rejuvenations and in checkpoints.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            PROPOSALS[cls.name] = cls

    @classmethod
    @abstractmethod
    def fit(cls, theta: Array, weights: Array) -> Self:
        """Fit to weighted particles, (N, d) and (N,); the weights sum to one."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""

    @abstractmethod
    def log_density(self, theta: Array) -> Array:
        """Normalised log density at (n, d), shape (n,)."""


@dataclass(frozen=True)
class DefensiveGaussian(Proposal):
    """A Gaussian with a share of Student's t around the same centre.

    A Gaussian alone is a safe proposal only where the target over the proposal is bounded; the
    tails of the t bound it at little cost.

    mean: (d,)
    factor: (d, d), lower Cholesky factor of the covariance.
    t_share: Share of draws from the t.
    degrees: Degrees of freedom of the t.
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
        whitened = (theta - self.mean) @ _inverse(self.factor).T
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
    # Rounding resolves no less, and the square of a distance in units of less overflows.
    spread = np.maximum(spread, np.maximum(np.finfo(float).eps * np.abs(mean), NARROWEST))
    trusted = trusted_share(1.0 / np.square(weights).sum(), theta.shape[1], per_dimension)
    if trusted < 1.0:
        shrunk = np.sqrt(1.0 - trusted) * np.diag(spread)
        scaled = np.vstack([np.sqrt(trusted) * scaled, shrunk])
    upper = np.asarray(np.linalg.qr(scaled, mode="r"))
    upper *= np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]
    np.fill_diagonal(upper, np.maximum(np.diag(upper), SINGULAR * spread))
    return mean, upper.T


def _inverse(factors: Array) -> Array:
    """Return the inverses of lower Cholesky factors, (..., d, d)."""
    try:
        return np.asarray(np.linalg.inv(factors), dtype=np.float64)
    except np.linalg.LinAlgError:
        # Pivots among rows of widths 1e-30 and 1 may cancel to zero; substitution has none.
        d = factors.shape[-1]
        each = [solve_triangular(one, np.eye(d), lower=True) for one in factors.reshape(-1, d, d)]
        return np.reshape(each, factors.shape)


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


COMPONENTS = 5
"""Most components; each needs ten effective particles per dimension."""
DEGREES = 5.0
DEFENCE = 0.1
"""Share of draws from one t that covers all particles, so that the target is bounded."""
ITERATIONS = 20
GAIN = 5e-3
"""EM ends when an iteration adds less than this to the mean log-density."""
LLOYD_ITERATIONS = 5
JITTER = 1e-8
"""Added to the diagonal of a component's scale matrix, relative to it."""
COPIES = 1e-12
"""Spread of a component of equal particles, relative to that of all together."""


@dataclass(frozen=True)
class StudentMixture(Proposal):
    """A mixture of multivariate t densities with 5 degrees of freedom.

    It fits posteriors with several modes or curved ridges. The last component is the defensive
    one: it has the moments of all particles.

    log_shares: (K + 1,)
    means: (K + 1, d)
    factors: (K + 1, d, d), lower Cholesky factors of the scale matrices.

    References
    ----------
    Peel, D., McLachlan, G. J. (2000). Robust mixture modelling using the t distribution.
    Statistics and Computing 10. Cappe, O. et al. (2008). Adaptive importance sampling in general
    mixture classes. Statistics and Computing 18 (the weighted EM).
    """

    name: ClassVar[str] = "mixture"

    log_shares: Array
    means: Array
    factors: Array

    @classmethod
    def fit(cls, theta: Array, weights: Array) -> Self:
        """Fit up to five components to weighted particles, (N, d) and (N,), by EM.

        EM works in coordinates in which all particles together have unit covariance, so that
        scales do not matter. It starts from weighted k-means++ with a seed of its own: a fit is
        a function of its arguments.
        """
        centre, whole = weighted_moments(theta, weights)
        whitened = (theta - centre) @ _inverse(whole).T
        shares, means, factors = _weighted_em(whitened, weights)
        return cls(
            log_shares=np.log(np.append((1.0 - DEFENCE) * shares, DEFENCE)),
            means=np.vstack([centre + means @ whole.T, centre]),
            factors=np.concatenate([whole @ factors, whole[None]]),
        )

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d)."""
        bounds = np.cumsum(np.exp(self.log_shares[:-1]))
        component = np.searchsorted(bounds, rng.random(size), side="right")
        normal = rng.standard_normal((size, self.means.shape[1]))
        normal *= np.sqrt(DEGREES / rng.chisquare(DEGREES, size))[:, None]
        drawn = self.means[component]
        for k, factor in enumerate(self.factors):
            own = component == k
            drawn[own] += normal[own] @ factor.T
        return drawn

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,)."""
        parts, _ = component_log_densities(theta, self.log_shares, self.means, self.factors)
        return np.logaddexp.reduce(parts, axis=0)


def component_log_densities(
    points: Array, log_shares: Array, means: Array, factors: Array
) -> tuple[Array, Array]:
    """Log share + log density of each t component, and squared distances: (K, n) each."""
    squares = squared_distances(points, means, factors)
    log_volumes = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    parts = student_log_density(squares, points.shape[1], DEGREES)
    return parts + (log_shares - log_volumes)[:, None], squares


def squared_distances(
    points: Array, means: Array, factors: Array, inverses: Array | None = None
) -> Array:
    """Squared distances of points (n, d) from means (K, d), in units of factors: (K, n).

    ``inverses`` are those of the factors, where they are known.
    """
    # One row per coordinate: long loops over the points, not short ones over the coordinates.
    centred = np.ascontiguousarray(points.T) - means[:, :, None]
    whitened = (_inverse(factors) if inverses is None else inverses) @ centred
    return np.einsum("kdn,kdn->kn", whitened, whitened)


def _weighted_em(points: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Shares (K,), means (K, d) and factors (K, d, d) of a t mixture."""
    d = points.shape[1]
    carries = weights > 0
    points, weights = points[carries], weights[carries]
    ess = 1.0 / np.square(weights).sum()
    count = min(max(int(ess / (TRUSTED_PER_DIMENSION * d)), 1), COMPONENTS)
    memberships = _initial_memberships(points, weights, count)
    scales = np.ones_like(memberships)
    shares, means, factors = _maximise(points, weights * memberships, scales, ess)
    before = -np.inf
    for _ in range(ITERATIONS):
        parts, squares = component_log_densities(points, np.log(shares), means, factors)
        top = parts.max(axis=0)
        memberships = np.exp(parts - top)
        total = memberships.sum(axis=0)
        level = float(weights @ (np.log(total) + top))
        if level - before < GAIN:
            break
        before = level
        memberships /= total
        scales = (DEGREES + d) / (DEGREES + squares)
        shares, means, factors = _maximise(points, weights * memberships, scales, ess)
    return shares, means, factors


def _maximise(
    points: Array, memberships: Array, scales: Array, ess: float
) -> tuple[Array, Array, Array]:
    """Maximisation step; components of too few particles are dropped."""
    shares = memberships.sum(axis=1)
    kept = shares * ess > points.shape[1] + 1
    if not kept.any():
        kept = shares == shares.max()
    shares, robust = shares[kept], (memberships * scales)[kept]
    means = robust @ points / robust.sum(axis=1)[:, None]
    centred = np.ascontiguousarray(points.T) - means[:, :, None]
    weighted = (robust / shares[:, None])[:, None, :] * centred
    covariances = weighted @ centred.transpose(0, 2, 1)
    diagonal = np.arange(points.shape[1])
    spread = np.maximum(covariances[:, diagonal, diagonal], COPIES**2)
    ratio = shares * ess / (TRUSTED_PER_DIMENSION * points.shape[1])
    covariances *= np.minimum(1.0, ratio)[:, None, None]
    # Relative, for components far narrower than all particles together.
    covariances[:, diagonal, diagonal] = spread * (1.0 + JITTER)
    return shares / shares.sum(), means, np.linalg.cholesky(covariances)


def _initial_memberships(points: Array, weights: Array, count: int) -> Array:
    """Weighted k-means++ and a few of Lloyd's iterations: 0 or 1, (K, n)."""
    rng = np.random.default_rng(0)
    centres = points[[rng.choice(len(points), p=weights)]]
    for _ in range(count - 1):
        nearest = _squared_distances(points, centres).min(axis=0) * weights
        if nearest.sum() == 0.0:
            break
        chosen = rng.choice(len(points), p=nearest / nearest.sum())
        centres = np.vstack([centres, points[chosen]])
    numbers = np.arange(len(centres))[:, None]
    for _ in range(LLOYD_ITERATIONS):
        members = (_squared_distances(points, centres).argmin(axis=0) == numbers) * weights
        mass = members.sum(axis=1)
        filled = mass > 0
        centres[filled] = (members @ points)[filled] / mass[filled, None]
    return (_squared_distances(points, centres).argmin(axis=0) == numbers).astype(float)


def _squared_distances(points: Array, centres: Array) -> Array:
    between = np.ascontiguousarray(points.T) - centres[:, :, None]
    return np.einsum("kdn,kdn->kn", between, between)


Fold = NDArray[np.int64]

MANY = 100
"""Particles per dimension from which two folds do: half of them fit a proposal as well."""


def folds(size: int, dimension: int) -> Fold:
    """Number of the fold of each of ``size`` particles, (size,): two or four runs of neighbours.

    Resampling keeps the order of the particles, so that copies of one are neighbours.
    """
    count = 2 if size >= MANY * dimension else 4
    return np.arange(size) * count // size


@dataclass(frozen=True)
class CrossFitted:
    """One density for each fold of a population, fitted to the other folds.

    densities: One for each fold.
    fold: (N,), the density that moves each particle. Of a multiple of N vectors, every N have these
        folds.
    """

    densities: Sequence[Proposal]
    fold: Fold

    @classmethod
    def fit(
        cls, kind: type[Proposal], theta: Array, weights: Array, fold: Fold, moved: Fold
    ) -> Self:
        """Fit to weighted particles, (N, d) and (N,).

        ``fold`` has the numbers of these particles, ascending, ``moved``, (M,), those of the
        particles to be moved.
        """
        densities = []
        for number in range(int(fold[-1]) + 1):
            others = np.where(fold == number, 0.0, weights)
            # All the weight may lie in one fold: then there is nothing else to fit to.
            kept = others > 0 if others.any() else weights > 0
            densities.append(kind.fit(theta[kept], weights[kept] / weights[kept].sum()))
        return cls(densities, moved)

    @property
    def name(self) -> str:
        """Name of the densities."""
        return self.densities[0].name

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` vectors, (size, d), a multiple of N."""
        fold = np.resize(self.fold, size)
        drawn = [
            density.sample(rng, int(np.count_nonzero(fold == number)))
            for number, density in enumerate(self.densities)
        ]
        # A stable sort puts the draws of each density in the places of its fold.
        theta = np.empty((size, drawn[0].shape[1]))
        theta[np.argsort(fold, kind="stable")] = np.concatenate(drawn)
        return theta

    def log_density(self, theta: Array) -> Array:
        """Log density at (n, d), shape (n,), a multiple of N: each by its own fold."""
        fold = np.resize(self.fold, len(theta))
        log_density = np.empty(len(theta))
        for number, density in enumerate(self.densities):
            own = fold == number
            log_density[own] = by_blocks(density.log_density, theta[own])
        return log_density
