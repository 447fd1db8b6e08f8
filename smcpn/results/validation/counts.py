"""Residuals of counts: randomised quantiles of their predictive distribution.

A count y of distribution function F has the residual Phi^-1(u), where u is uniform between F(y - 1)
and F(y): standard normal where the model is right, however few the counts (Dunn and Smyth 1996,
Journal of Computational and Graphical Statistics 5, 236-244). Residuals of the deviance are not.

Where an output is the natural parameter of an exponential family, the variance as a function of the
mean says which family it is (Morris 1982, Annals of Statistics 10, 65-80): m + b m^2 is that of
Poisson counts for b = 0, of binomial ones of n trials for b = -1/n (ones and zeros for n = 1), and
of negative binomial ones otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri_exp

Array = NDArray[np.float64]

NODES = 21
"""Points at which the distribution is averaged over the uncertainty of the output."""
EXACT = 1e-6
"""Relative deviation of a variance from that of counts."""
ROUNDING = 1e-9
RAREST = float(np.finfo(float).tiny)
"""Probability of a tail that stands for all smaller ones, 37.5 standard deviations off: a count
beyond must not pass for one that is missing."""


class CountResiduals(NamedTuple):
    """Of one output, (T,) each.

    mean, variance: Of the measured values.
    of_output: What the uncertainty of the output adds to their variance.
    normalised: Randomised quantile residuals, NaN where nothing was measured.
    """

    mean: Array
    variance: Array
    of_output: Array
    normalised: Array


def quantiles_between(lower: Array, upper: Array, rng: np.random.Generator) -> Array:
    """Return standard normal numbers, drawn between limits, NaN where there is none."""
    known = np.isfinite(lower) | np.isfinite(upper)
    below = np.where(np.isfinite(lower), lower, -np.inf)
    above = np.where(np.isfinite(upper), upper, np.where(known, np.inf, 0.0))
    # In the lower tail a probability has all its digits.
    mirrored = below + above > 0.0
    first, last = np.where(mirrored, -above, below), np.where(mirrored, -below, above)
    drawn = rng.random(lower.shape)
    with np.errstate(all="ignore"):
        ends = stats.norm.logcdf(first), stats.norm.logcdf(last)
        drawn = ndtri_exp(ends[1] + np.log(drawn + (1.0 - drawn) * np.exp(ends[0] - ends[1])))
    return np.where(known, np.where(mirrored, -drawn, drawn), np.nan)


def count_residuals(
    y: Array, means: Array, variances: Array, weights: Array, rng: np.random.Generator
) -> CountResiduals | None:
    """Return the residuals of measured values of one output; None where they are no counts.

    y: (T,)
    means, variances: (M, T), of a measured value at M points of the distribution of the output.
    weights: (M,), of these points.
    rng: Chooses within the jumps of the distribution function.
    """
    bend = _bend(means, variances)
    seen = y[np.isfinite(y)]
    if bend is None or (seen < 0.0).any() or (seen != np.floor(seen)).any():
        return None
    mean = weights @ means
    of_output = weights @ np.square(means - mean)
    family = _family(bend, means)
    below, at, above = (
        weights @ part for part in (family.cdf(y - 1.0), family.pmf(y), family.sf(y))
    )
    share = rng.random(len(y))
    low, high = below + share * at, above + (1.0 - share) * at
    # The smaller of both is known to more digits.
    normalised = np.where(
        low < high,
        stats.norm.ppf(np.maximum(low, RAREST)),
        stats.norm.isf(np.maximum(high, RAREST)),
    )
    return CountResiduals(mean, weights @ variances + of_output, of_output, normalised)


def points(outputs: Array, variances: Array) -> tuple[Array, Array]:
    """Return points of normal outputs (T, q), (M, T, q), and their weights (M,): Gauss-Hermite."""
    if not variances.any():
        return outputs[None], np.ones(1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return outputs + np.sqrt(variances) * nodes[:, None, None], weights / weights.sum()


def natural_moments(natural: ca.Function, outputs: Array) -> tuple[Array, Array]:
    """Return mean and variance of measured values at outputs (M, T, q), of the same shape."""
    flat = outputs.reshape(-1, outputs.shape[-1])
    means, slopes, _ = (np.array(one).T for one in natural(flat.T))
    return means.reshape(outputs.shape), slopes.reshape(outputs.shape)


def _bend(means: Array, variances: Array) -> float | None:
    """The b of variances m + b m^2; None where there is none, or no counts have it."""
    largest = np.unravel_index(means.argmax(), means.shape)
    m = float(means[largest])
    if not (means >= 0.0).all() or not np.isfinite(m) or m == 0.0:
        return None
    excess = float(variances[largest]) / m - 1.0
    bend = excess / m if abs(excess) > ROUNDING else 0.0
    if (np.abs(variances - means - bend * means**2) > EXACT * means).any():
        return None
    trials = -1.0 / bend if bend < 0.0 else 1.0
    return bend if abs(trials - round(trials)) <= EXACT * trials else None


def _family(bend: float, means: Array) -> Any:
    """Counts of these means."""
    if bend == 0.0:
        return stats.poisson(means)
    if bend > 0.0:
        return stats.nbinom(1.0 / bend, 1.0 / (1.0 + bend * means))
    trials = round(-1.0 / bend)
    return stats.binom(trials, np.minimum(means / trials, 1.0))
