"""Trust in importance weights: the Pareto shape k of their largest values.

Weights whose tail has the shape k have 1 / k moments. An estimate from n draws converges at a
useful rate below k = .7, and less is needed of few draws. A mode that the proposal does not reach
shows as a few draws that outweigh all others, and a k above 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LIMIT = 0.7
"""Largest shape at which an importance sample of any size is of use (Vehtari et al. 2024)."""
LEAST_TAIL = 5
"""Fewest weights that a tail can be fitted to."""
PRIOR_SHAPE, PRIOR_WEIGHTS = 0.5, 10
"""The estimate is drawn towards this shape, as if that many weights had it."""


def pareto_k(log_weights: Array) -> float:
    """Return the shape of the tail of importance weights; the lighter the tail, the lower.

    Parameters
    ----------
    log_weights : ndarray, (n,)
        Not normalised; -inf for a weight of zero.

    Returns
    -------
    float
        -inf where the largest weights are equal, inf where too few are positive to tell.

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
