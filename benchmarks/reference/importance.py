"""Importance sampling from a mixture of t about searched modes, adapted to the weights it finds.

The mixture begins at the modes and is refitted to its own weighted draws (Cappe et al. 2008,
*Adaptive importance sampling in general mixture classes*), with a share of the prior that stays,
so that what no search found still weighs. Draws of the last rounds alone count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from benchmarks.reference.answer import Answer
from benchmarks.reference.search import modes
from benchmarks.reference.target import Target, log_sum, standard_normal

Array = NDArray[np.float64]

FREEDOM = 5.0
PRIOR_SHARE = 0.1
LOOKED_AT = 4000
"""Draws of the prior, of which the highest and some others are climbed from."""
HIGHEST, OTHERS = 32, 32
ROUND, ROUNDS = 6000, 6
SPLIT = 6
"""Components in addition to the modes, at draws of the first round."""
LARGEST = 400_000


@dataclass(frozen=True)
class Mixture:
    """Components t with means (K, d), covariances (K, d, d), shares (K,); the rest is the prior."""

    means: Array
    covariances: Array
    shares: Array

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Points, (size, d)."""
        k, d = self.means.shape
        normal = rng.standard_normal((size, d))
        shares = np.append(self.shares, PRIOR_SHARE)
        which = rng.choice(k + 1, size, p=shares / shares.sum())
        heavy = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size))
        for one in range(k):
            mine = which == one
            factor = np.linalg.cholesky(self.covariances[one])
            normal[mine] = self.means[one] + heavy[mine, None] * (normal[mine] @ factor.T)
        return normal

    def parts(self, z: Array) -> tuple[Array, Array]:
        """Log of share times density of each component and the prior, (K + 1, N), and squares."""
        d = z.shape[1]
        squares, parts = np.empty((len(self.means), len(z))), []
        constant = (
            gammaln((FREEDOM + d) / 2) - gammaln(FREEDOM / 2) - d / 2 * np.log(np.pi * FREEDOM)
        )
        for one, mean in enumerate(self.means):
            factor = np.linalg.cholesky(self.covariances[one])
            white = np.linalg.solve(factor, (z - mean).T)
            squares[one] = np.square(white).sum(axis=0)
            tail = (FREEDOM + d) / 2 * np.log1p(squares[one] / FREEDOM)
            volume = np.log(np.diag(factor)).sum()
            with np.errstate(divide="ignore"):
                parts.append(np.log(self.shares[one]) + constant - volume - tail)
        parts.append(np.log(PRIOR_SHARE) + standard_normal(z))
        return np.array(parts), squares

    def refitted(self, z: Array, weights: Array) -> Mixture:
        """One step of expectation and maximisation over weighted points."""
        parts, squares = self.parts(z)
        belongs = np.exp(parts - log_sum(parts, axis=0))[:-1] * weights
        shares, d = belongs.sum(axis=1), z.shape[1]
        kept = shares > 5.0 * d * np.square(weights).sum() * shares.sum()
        kept |= shares == shares.max()
        pulls = belongs * (FREEDOM + d) / (FREEDOM + squares)
        means, covariances = self.means.copy(), self.covariances.copy()
        for one in np.flatnonzero(kept):
            means[one] = pulls[one] @ z / pulls[one].sum()
            away = z - means[one]
            covariance = (pulls[one] * away.T) @ away / shares[one]
            # A hundredth of the old one keeps a component of few points from collapsing.
            covariances[one] = 0.99 * covariance + 0.01 * self.covariances[one]
        shares = np.where(kept, shares, 0.02)
        shares *= (1.0 - PRIOR_SHARE) / shares.sum()
        return Mixture(means, covariances, shares)

    def split(self, rng: np.random.Generator, z: Array, weights: Array) -> Mixture:
        """Add components at drawn points, each as wide as the points that are nearest to it."""
        centre = weights @ z
        spread = np.cov(z.T, aweights=weights).reshape(len(centre), -1)
        spread = spread + 1e-12 * np.eye(len(centre))
        centres = z[rng.choice(len(z), SPLIT, p=weights)]
        wide = np.repeat(spread[None] / 2.0, SPLIT, axis=0)
        shares = np.append(self.shares, np.full(SPLIT, self.shares.sum() / SPLIT))
        shares *= (1.0 - PRIOR_SHARE) / shares.sum()
        return Mixture(
            np.vstack([self.means, centres]), np.vstack([self.covariances, wide]), shares
        )


def sample(
    target: Target,
    seed: int = 0,
    error: float = 0.01,
    starts: Sequence[Mapping[str, float]] = (),
    draws: int = LOOKED_AT,
) -> Answer:
    """Return the posterior by weighted draws, enough for an error of the log-evidence.

    error: Standard error at which it ends; at `LARGEST` draws it ends anyway.
    starts: Values to climb from besides draws of the prior, such as the truth.
    draws: Of the prior, of which some are climbed from.
    """
    rng = np.random.default_rng(seed)
    mixture = adapted(target, rng, _starts(target, rng, starts, draws))
    points, weights = _weighed(target, mixture, rng, 2 * ROUND)
    while (se := _relative_error(weights)) > error and len(weights) < LARGEST:
        more = len(weights) * ((se / error) ** 2 - 1.0)
        size = int(np.clip(more, ROUND, max(LARGEST - len(weights), ROUND)))
        z, log_weights = _weighed(target, mixture, rng, size)
        points, weights = np.vstack([points, z]), np.append(weights, log_weights)
    return Answer(
        target.natural(points),
        np.exp(weights - log_sum(weights)),
        float(log_sum(weights) - np.log(len(weights))),
        se,
        pareto_k(weights),
    )


def adapted(target: Target, rng: np.random.Generator, starts: Array) -> Mixture:
    """Fit the mixture, from the modes that searches find."""
    found = modes(target.log_density, starts)
    shares = np.full(len(found), (1.0 - PRIOR_SHARE) / len(found))
    mixture = Mixture(
        np.array([mode for mode, _ in found]), np.array([1.2 * cov for _, cov in found]), shares
    )
    for number in range(ROUNDS):
        z, log_weights = _weighed(target, mixture, rng, ROUND)
        weights = np.exp(log_weights - log_sum(log_weights))
        if number == 0:
            mixture = mixture.split(rng, z, weights)
        mixture = mixture.refitted(z, weights)
    return replace(mixture, covariances=1.1 * mixture.covariances)


def _starts(
    target: Target, rng: np.random.Generator, given: Sequence[Mapping[str, float]], draws: int
) -> Array:
    z = rng.standard_normal((draws, len(target.names)))
    order = np.argsort(-target.log_density(z))
    chosen = np.append(order[:HIGHEST], rng.choice(draws, OTHERS))
    return np.vstack([z[chosen], *(target.coordinates(one)[None] for one in given)])


def _relative_error(log_weights: Array) -> float:
    """Standard error of the logarithm of the mean weight."""
    share = np.exp(log_weights - log_sum(log_weights))
    return float(np.sqrt(max(np.square(share).sum() - 1.0 / len(share), 0.0)))


def _weighed(
    target: Target, mixture: Mixture, rng: np.random.Generator, size: int
) -> tuple[Array, Array]:
    z = mixture.draw(rng, size)
    return z, target.log_density(z) - log_sum(mixture.parts(z)[0], axis=0)


def pareto_k(log_weights: Array) -> float:
    """Shape of the upper tail of weights (Zhang and Stephens 2009; Vehtari et al. 2024)."""
    count = int(min(0.2 * len(log_weights), 3.0 * np.sqrt(len(log_weights))))
    ordered = np.sort(np.exp(log_weights - log_weights.max()))
    tail = ordered[-count:] - ordered[-count - 1]
    tail = tail[tail > 0]
    n = len(tail)
    if n < 5:
        return -np.inf
    m = 30 + int(np.sqrt(n))
    quartile = tail[int(n / 4 + 0.5) - 1]
    theta = 1 / tail[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)
    shape = np.log1p(-theta[:, None] * tail).mean(axis=1)
    profile = n * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(profile - log_sum(profile))
    mean = weight @ theta
    return float(np.log1p(-mean * tail).mean())
