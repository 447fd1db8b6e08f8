"""A posterior in coordinates in which its prior is a standard normal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr, ndtri

Array = NDArray[np.float64]
Values = Mapping[str, Array]
"""Natural values of every parameter by name, (N,) each."""


@dataclass(frozen=True)
class Target:
    """A prior and the log-likelihood of some data.

    In z = Phi^-1(F(x)) the prior is N(0, I), whatever it was, and the density is smooth up to a
    bound of the prior, which lies at infinity.

    log_likelihood: Of N values at once, (N,).
    """

    prior: Mapping[str, Any]
    log_likelihood: Callable[[Values], Array]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parameters."""
        return tuple(self.prior)

    def natural(self, z: Array) -> dict[str, Array]:
        """Values at coordinates (N, d)."""
        pairs = zip(self.prior, z.T, strict=True)
        return {name: _value(self.prior[name], column) for name, column in pairs}

    def coordinates(self, values: Mapping[str, float]) -> Array:
        """Coordinates of one value of each parameter, (d,)."""
        return np.array([_coordinate(self.prior[name], values[name]) for name in self.prior])

    def log_density(self, z: Array) -> Array:
        """Log of prior times likelihood at coordinates (N, d); -inf where that is no number."""
        with np.errstate(all="ignore"):
            found = self.log_likelihood(self.natural(z)) + standard_normal(z)
        return np.where(np.isfinite(found), found, -np.inf)


def standard_normal(z: Array) -> Array:
    """Log density of N(0, I) at (N, d)."""
    return -0.5 * (np.square(z).sum(axis=1) + z.shape[1] * np.log(2 * np.pi))


def log_sum(x: Array, axis: int | None = None) -> Any:
    """Log of the sum of exponentials."""
    return logsumexp(x, axis=axis)


def _value(distribution: Any, z: Array) -> Array:
    tail = ndtr(-np.abs(z))
    return np.where(z < 0, distribution.ppf(tail), distribution.isf(tail))


def _coordinate(distribution: Any, value: float) -> float:
    below, above = distribution.cdf(value), distribution.sf(value)
    return float(ndtri(below) if below < above else -ndtri(above))
