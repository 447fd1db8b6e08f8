"""Posterior correlation of the parameters, and the pair with the largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RIDGE = 0.95
"""Absolute correlation above which two parameters are called a ridge."""


@dataclass(frozen=True)
class ParameterPair:
    """Two parameters and their posterior correlation, in the sampler's coordinates.

    Attributes
    ----------
    first, second : str
    correlation : float
        Of the unconstrained coordinates: a ridge beta gamma = const is straight in logarithms.
    """

    first: str
    second: str
    correlation: float

    @property
    def ridge(self) -> bool:
        """True if a combination of the two is known much better than each."""
        return abs(self.correlation) > RIDGE


def posterior_correlation(theta: Array, weights: Array) -> Array:
    """Correlation matrix (d, d) of weighted particles (N, d); nan where one does not vary."""
    centred = theta - weights @ theta
    covariance = (centred * weights[:, None]).T @ centred
    sd = np.sqrt(np.diag(covariance))
    with np.errstate(invalid="ignore", divide="ignore"):
        return covariance / np.outer(sd, sd)


def worst_pair(names: tuple[str, ...], theta: Array, weights: Array) -> ParameterPair | None:
    """Find the pair with the largest absolute correlation; None of one parameter or particle."""
    if len(names) < 2 or len(theta) < 2:
        return None
    upper = np.triu(np.nan_to_num(posterior_correlation(theta, weights)), k=1)
    i, j = np.unravel_index(int(np.argmax(np.abs(upper))), upper.shape)
    return ParameterPair(names[int(i)], names[int(j)], float(upper[i, j]))
