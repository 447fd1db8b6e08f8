"""Measures of mixing: the share of the target not yet renewed, effective draws of a move.

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
MUCH_UNMOVED = 0.2
"""Share of a target from which moves have left too much of it where it was."""
UNMOVED = 0.1
"""Share of the target that is left where it is, if there are moves enough."""


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


def efficiency_of_chains(correlations: Array) -> float:
    """Effective draws of a move, 1 where each is independent of the one before.

    Of a reversible move whose correlations fall geometrically that is (1 - r) / (1 + r); over
    several functions the mean of the inverse counts, so that means of all of them have together the
    variance that so many independent draws would give.

    Parameters
    ----------
    correlations : ndarray, (k,)
        Of k functions between begin and end of a move; negative ones count as none.
    """
    left = np.clip(correlations, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return float(1.0 / np.mean((1.0 + left) / (1.0 - left)))


def efficiency_of_independent(log_ratio: Array, most: int) -> float:
    """Particles that an evaluation of independent Metropolis-Hastings renews, 1 at best.

    Moves are made until a tenth is expected not to have moved, or to the most. Where `MUCH_UNMOVED`
    or more would be left even so it is 0: copies then multiply faster than moves part them.

    Parameters
    ----------
    log_ratio : ndarray, (n,)
        As of `unmoved_share`.
    most : int
        Moves of a particle at most.
    """
    for moves in range(1, most + 1):
        unmoved = unmoved_share(log_ratio, moves)
        if unmoved <= UNMOVED:
            return (1.0 - unmoved) / moves
    unmoved = unmoved_share(log_ratio, most)
    return (1.0 - unmoved) / most if unmoved < MUCH_UNMOVED else 0.0
