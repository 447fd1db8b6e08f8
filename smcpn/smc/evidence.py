"""Estimates of the evidence and of their variance, and trust in importance weights.

The importance weights give an estimate whose variance grows with every rejuvenation. That is
estimated from the ancestry: the share of pairs of particles with different ancestors (Lee and
Whiteley 2018). Independent proposals give a second one: they are draws from a known density q, so
that the mean of target / q is unbiased. Where q fits, its variance is far smaller, and the
ancestry starts anew.

Weights whose tail has the shape k, the Pareto shape of their largest values, have 1 / k moments. An
estimate from n draws converges at a useful rate below k = .7, and less is needed of few draws. A
mode that the proposal does not reach shows as a few draws that outweigh all others, and a k above
1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.base.stored import Stored, number
from smcpn.smc.particles import ess_and_log_mean

Array = NDArray[np.float64]

TRUSTED_ESS = 50.0
"""Effective draws below which an importance estimate cannot estimate its own variance."""
FINITE_VARIANCE = 0.5
"""Pareto shape of importance weights below which their variance exists (Vehtari et al. 2024)."""
DISAGREEMENT = 3.0
"""Distance in standard errors beyond which estimates show that their errors are stated too low."""


@dataclass(frozen=True)
class EvidenceEstimate(Stored):
    """An estimate of the evidence.

    log: Its logarithm.
    variance: Relative variance of the evidence, that is, variance of the logarithm.
    """

    log: Annotated[float, number(-np.inf, missing=True)] = float("nan")
    variance: Annotated[float, number(0.0, np.inf)] = float("inf")


class Density(Protocol):
    """A normalised density."""

    def log_density(self, theta: Array) -> Array:
        """Return its logarithm at (n, d), shape (n,)."""
        ...


@dataclass(frozen=True)
class Drawn:
    """Independent draws from one density.

    theta: (n, d)
    log_ratio: (n,), log target - log density; -inf where excluded.
    """

    density: Density
    theta: Array
    log_ratio: Array

    @classmethod
    def concatenate(cls, parts: Sequence[Drawn]) -> Drawn:
        """All draws of several parts, which are of one density, in order."""
        theta = np.concatenate([part.theta for part in parts])
        return cls(parts[0].density, theta, np.concatenate([part.log_ratio for part in parts]))


def mixture_log_ratio(drawn: Sequence[Drawn]) -> Array:
    """Log target - log density of all draws together, those of the mixture of their densities.

    Where one density leaves out a part of the target its draws there have large weights; by the
    mixture they have those of the density that covers it best (the balance heuristic).

    References
    ----------
    Veach, E., Guibas, L. (1995). Optimally combining sampling techniques for Monte Carlo
    rendering. SIGGRAPH. Owen, A., Zhou, Y. (2000). Safe and effective importance sampling. JASA 95.
    """
    if len(drawn) < 2:
        return drawn[0].log_ratio if drawn else np.empty(0)
    shares = np.log(np.array([len(one.theta) for one in drawn], dtype=float))
    shares -= np.log(sum(len(one.theta) for one in drawn))
    found = []
    for place, one in enumerate(drawn):
        parts = np.stack([other.density.log_density(one.theta) for other in drawn])
        mixture = np.logaddexp.reduce(parts + shares[:, None], axis=0)
        found.append(one.log_ratio + (parts[place] - mixture))
    return np.concatenate(found)


def importance_estimate(log_ratio: Array) -> EvidenceEstimate:
    """Estimate from independent draws, given log target - log density of each, (n,).

    None, that is one of infinite variance, where the draws are too few to tell their error, or
    where the tail of their weights is so heavy that a draw yet unseen may outweigh all. That is
    decided for each half of the draws by the other one: draws of which the largest happened to
    stay away look as if they had a light tail, and their mean is too low. For the same reason the
    error is told by the half that states the larger one.
    """
    halves = log_ratio[0::2], log_ratio[1::2]
    kept = [half for half, other in zip(halves, halves[::-1], strict=True) if tells_error(other)]
    if not kept:
        return EvidenceEstimate()
    draws = np.concatenate(kept)
    share = min(float(ess_and_log_mean(half)[0]) / len(half) for half in halves)
    if share == 0.0:
        return EvidenceEstimate()
    log_mean = float(ess_and_log_mean(draws)[1])
    return EvidenceEstimate(log_mean, max(0.0, (1.0 / share - 1.0) / len(draws)))


def tells_error(log_ratio: Array) -> bool:
    """True if half of the draws of an estimate can tell the error of the other half, (n,)."""
    if not len(log_ratio) or ess_and_log_mean(log_ratio)[0] < 0.5 * TRUSTED_ESS:
        return False
    return pareto_k(log_ratio) < FINITE_VARIANCE


def pooled(estimates: Sequence[EvidenceEstimate]) -> EvidenceEstimate:
    """Mean of independent estimates of the same evidence, weighted by their precision.

    Where they differ by more than their errors explain, these are raised until they do (the
    scale factor of the Particle Data Group).
    """
    usable = [e for e in estimates if np.isfinite(e.variance)]
    if not usable:
        return EvidenceEstimate()
    precision = 1.0 / np.maximum([e.variance for e in usable], np.finfo(float).tiny)
    logs = np.array([e.log for e in usable])
    top = logs.max()
    mean = precision @ np.exp(logs - top) / precision.sum()
    log, variance = float(np.log(mean) + top), float(1.0 / precision.sum())
    scale = float(precision @ np.square(logs - log)) / max(len(logs) - 1, 1)
    return EvidenceEstimate(log, variance * scale if scale > DISAGREEMENT**2 else variance)


def unrelated_share(weights: Array, lineage: NDArray[np.int64]) -> float:
    """Probability that two particles drawn by weight are of different lineages."""
    return 1.0 - float(np.square(np.bincount(lineage, weights=weights)).sum())


def log_pair_ratio(weights: Array, lineage: NDArray[np.int64], index: NDArray[np.int64]) -> float:
    """Log of the share of unrelated pairs before a resampling over the share after it.

    Resampling by chance merges lineages without telling anything about the variance. Lee and
    Whiteley undo it for multinomial resampling by its expectation, N / (N - 1); other schemes
    merge less, the less the better they keep a lineage's share. The ratio itself serves all.

    ``weights`` and ``lineage`` are those before resampling, (N,), the weights with a sum of one;
    ``index``, (M,), are the parents.
    """
    before = unrelated_share(weights, lineage)
    after = unrelated_share(np.full(len(index), 1.0 / len(index)), lineage[index])
    if before <= 0.0 or after <= 0.0:
        return 0.0
    return float(np.log(before) - np.log(after))


def ancestral_variance(
    weights: Array,
    lineage: NDArray[np.int64],
    unrelated_at_start: float,
    log_pair_ratios: Sequence[float],
) -> float:
    """Relative variance of an evidence estimate, by the ancestry of its particles.

    ``weights``, (N,), are those at the end, with a sum of one, and ``lineage`` the ancestor of each
    particle at the start of the estimate; ``unrelated_at_start`` is `unrelated_share` then, 1 - 1 /
    N for independent particles, and ``log_pair_ratios`` has `log_pair_ratio` of every resampling
    since.

    References
    ----------
    Lee, A., Whiteley, N. (2018). Variance estimation in the particle filter. Biometrika 105,
    eq. (6); the correction for the resampling scheme is described in `log_pair_ratio`.
    """
    correction = np.exp(np.sum(log_pair_ratios)) / max(unrelated_at_start, np.finfo(float).tiny)
    return max(0.0, 1.0 - float(correction) * unrelated_share(weights, lineage))


def stratified_variance(log_weights: Array, memberships: Array) -> float:
    """Relative variance of the mean weight of draws from a mixture, each component its share.

    The variance between components is none then. Within one it is estimated from all draws, by the
    probability that each is of it: that has the expectation of its own draws, and less noise.

    ``memberships``, (K, N), are the probabilities of every component given a draw; the columns sum
    to one.

    References
    ----------
    Hesterberg, T. (1995). Weighted average importance sampling and defensive mixture
    distributions. Technometrics 37 (stratified draws).
    """
    weights = np.exp(log_weights - log_weights.max())
    sizes = memberships.sum(axis=1)
    means = memberships @ weights / np.maximum(sizes, np.finfo(float).tiny)
    within = (memberships * np.square(weights - means[:, None])).sum()
    return float(within / weights.sum() ** 2)


def combined_log_evidence(log_evidences: Array) -> tuple[Array, Array]:
    """Log of the mean evidence of R populations (first axis), and its standard error.

    The mean of the evidences is unbiased, the mean of their logarithms is not. The error is that
    of the mean, by the delta method.
    """
    log_evidences = np.asarray(log_evidences, dtype=float)
    count = len(log_evidences)
    top = log_evidences.max(axis=0)
    relative = np.exp(log_evidences - top)
    mean = relative.mean(axis=0)
    error = relative.std(axis=0, ddof=1) / np.sqrt(count) / mean
    return np.log(mean) + top, error


def r_hat(means: Array, variances: Array, size: int) -> Array:
    """Potential scale reduction of R populations, from their means and variances, (R, d).

    Each population plays the part of a chain of ``size`` draws (Gelman and Rubin 1992).
    """
    within = variances.mean(axis=0)
    between = means.var(axis=0, ddof=1)
    return np.sqrt((size - 1) / size + between / np.maximum(within, np.finfo(float).tiny))


LIMIT = 0.7
"""Largest shape at which an importance sample of any size is of use (Vehtari et al. 2024)."""
LEAST_TAIL = 5
"""Fewest weights that a tail can be fitted to."""
PRIOR_SHAPE, PRIOR_WEIGHTS = 0.5, 10
"""The estimate is drawn towards this shape, as if that many weights had it."""


def pareto_k(log_weights: Array) -> float:
    """Return the shape of the tail of importance weights; the lighter the tail, the lower.

    The weights, (n,), are not normalised; -inf is one of zero. The shape is -inf where the largest
    weights are equal, inf where too few are positive to tell.

    References
    ----------
    Vehtari, A., Simpson, D., Gelman, A., Yao, Y., Gabry, J. (2024). Pareto smoothed importance
    sampling. JMLR 25.
    """
    tail = _tail_length(len(log_weights))
    largest = np.sort(log_weights)[-tail - 1 :]
    if tail < LEAST_TAIL or largest[0] == -np.inf:
        return float("inf")
    weights = np.exp(largest - largest[-1])
    exceedances = weights[1:] - weights[0]
    if exceedances[-1] == 0.0:
        return float("-inf")
    return _generalised_pareto_shape(exceedances)


def k_error(k: float, n: int) -> float:
    """Return the standard error of the shape ``k`` of ``n`` weights, as of its likelihood."""
    return (1.0 + k) / float(np.sqrt(_tail_length(n) + PRIOR_WEIGHTS))


def largest_k(n: int) -> float:
    """Return the shape up to which ``n`` weighted draws can be trusted, min(1 - 1 / log10 n, .7).

    Vehtari et al. (2024), section 3.2.4: the draws needed are about 10^(1 / (1 - k)).
    """
    return min(1.0 - 1.0 / np.log10(n), LIMIT) if n > 1 else 0.0


def _tail_length(n: int) -> int:
    """Number of the largest of ``n`` weights to which the shape is fitted."""
    return int(np.ceil(min(0.2 * n, 3.0 * np.sqrt(n))))


def _generalised_pareto_shape(exceedances: Array) -> float:
    """Posterior mean of the shape, of sorted exceedances (m,), by a profile over scales.

    Zhang, J., Stephens, M. A. (2009). A new and efficient estimation method for the generalized
    Pareto distribution. Technometrics 51, with the prior of Vehtari et al. (2024), appendix G.
    """
    m = len(exceedances)
    quartile = exceedances[int(m / 4 + 0.5) - 1]
    if quartile == 0.0:
        return float("inf")
    grid = np.arange(1, 31 + int(np.sqrt(m)))
    ratios = 1.0 / exceedances[-1] + (1.0 - np.sqrt(len(grid) / (grid - 0.5))) / (3.0 * quartile)
    shapes = np.log1p(-ratios[:, None] * exceedances).mean(axis=1)
    profile = m * (np.log(-ratios / shapes) - shapes - 1.0)
    weights = np.exp(profile - profile.max())
    ratio = float(weights @ ratios / weights.sum())
    shape = float(np.log1p(-ratio * exceedances).mean())
    return (m * shape + PRIOR_WEIGHTS * PRIOR_SHAPE) / (m + PRIOR_WEIGHTS)
