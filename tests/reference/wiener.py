"""The integrated Wiener process of order q in plain derivatives (x, x', ..., x^(q)).

Entries are computed in the arithmetic of the step h: floats, or numbers of any precision.
"""

from __future__ import annotations

from functools import lru_cache
from math import factorial
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

Array = NDArray[np.float64]


def transition(order: int, h: Any) -> Any:
    """A(h)_ij = h^(j-i) / (j-i)!, (order + 1, order + 1)."""
    size = range(order + 1)
    return np.array(
        [[h ** (j - i) / factorial(j - i) if j >= i else 0 * h for j in size] for i in size]
    )


def process_noise(order: int, h: Any) -> Any:
    """Q(h)_ij = h^(2q+1-i-j) / ((2q+1-i-j) (q-i)! (q-j)!), (order + 1, order + 1)."""

    def entry(i: int, j: int) -> Any:
        power = 2 * order + 1 - i - j
        return h**power / (power * factorial(order - i) * factorial(order - j))

    return np.array([[entry(i, j) for j in range(order + 1)] for i in range(order + 1)])


def process_noise_root(order: int, h: float) -> Array:
    """Lower Cholesky factor of Q(h), (order + 1, order + 1)."""
    return h ** (order + 0.5 - np.arange(order + 1))[:, None] * _unit_root(order)


@lru_cache
def _unit_root(order: int) -> Array:
    """Factor for h = 1, of fifty digits: Q is as ill-conditioned as a Hilbert matrix."""
    with mp.workdps(50):
        root = mp.cholesky(mp.matrix(process_noise(order, mpf(1)).tolist()))
        return np.array(root.tolist(), dtype=float)
