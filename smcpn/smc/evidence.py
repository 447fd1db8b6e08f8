"""How well the evidence is known: from the ancestry of one population, or from several.

The log-evidence itself is a by-product of the weights; its error is not, because resampling made
the particles relatives of each other. Two particles of different ancestors at the start (eves)
are independent evidence; the share of such pairs tells the variance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def log_pair_ratio(weights: Array, index: NDArray[np.int64]) -> float:
    """Log of the unrelated pairs that weights promise over those that a resampling left.

    Lee and Whiteley correct for multinomial resampling by N / (N - 1) at each resampling: the
    expectation of (1 - sum W^2) / (1 - sum (n_i / N)^2), the share of pairs with different
    parents. That ratio itself serves any scheme, however few copies it makes.

    Parameters
    ----------
    weights : ndarray, (N,)
        Before resampling; they sum to one.
    index : ndarray, (M,)
        Parents.
    """
    copies = np.bincount(index, minlength=len(weights)) / len(index)
    related = float(np.square(copies).sum())
    if related >= 1.0:
        return 0.0
    return float(np.log1p(-np.square(weights).sum()) - np.log1p(-related))


def evidence_variance(
    weights: Array, eve: NDArray[np.int64], log_pair_ratios: Sequence[float]
) -> float:
    """Relative variance of the evidence estimate, that is, variance of its logarithm.

    Parameters
    ----------
    weights : ndarray, (N,)
        At the end; they sum to one.
    eve : ndarray, (N,)
        Ancestor of each particle at the start.
    log_pair_ratios : sequence of float
        `log_pair_ratio` of every resampling.

    References
    ----------
    Lee, A., Whiteley, N. (2018). Variance estimation in the particle filter. Biometrika 105,
    eq. (6); the correction for the resampling scheme is described in `log_pair_ratio`.
    """
    n = len(weights)
    families = np.bincount(eve, weights=weights)
    unrelated = 1.0 - float(np.square(families).sum())
    correction = n / (n - 1) * np.exp(np.sum(log_pair_ratios))
    return max(0.0, 1.0 - float(correction) * unrelated)


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
