"""How far independent Metropolis-Hastings has got: the share of the target not yet renewed.

A particle at theta leaves with probability a(theta) = E min(1, w(theta') / w(theta)), where
w = target / proposal and theta' is a proposal: where w is large it stays for long. The mean
acceptance hides it: it is that of the many particles where w is small.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FAR = 600.0
"""Log-ratios further than this below the largest count as if they were so."""


def unmoved_share(log_ratio: Array, moves: int) -> float:
    """Share of the target that independent moves are expected to leave where it is.

    E_target (1 - a(theta))^moves, estimated from the proposals themselves, which see the target
    beyond the particles: both expectations become sums over them, weighted by w and equally.

    Parameters
    ----------
    log_ratio : ndarray, (n,)
        log target - log proposal density of n independent proposals; -inf where excluded.
    moves : int
        Moves of each particle.

    Returns
    -------
    float
        1 where every proposal is excluded.

    References
    ----------
    Liu, J. S. (1996). Metropolized independent sampling with comparisons to rejection sampling
    and importance sampling. Statistics and Computing 6 (eigenvalues of the kernel from sorted
    weights).
    """
    ordered = np.sort(log_ratio[log_ratio > -np.inf])
    if not len(ordered):
        return 1.0
    weights = np.exp(np.maximum(ordered - ordered[-1], -FAR))
    cumulative = np.cumsum(weights)
    above = np.arange(len(weights) - 1, -1, -1)
    leaves = np.minimum((cumulative / weights + above) / len(log_ratio), 1.0)
    return float(weights @ (1.0 - leaves) ** moves / cumulative[-1])
