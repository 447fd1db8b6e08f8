"""Nordsieck coordinates m_j = h^j x^(j) / j! of several processes, (order + 1, d), compiled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.library import compiled

Array = NDArray[np.float64]


@compiled
def rescale(mean: Array, ratio: float, result: Array):
    """Turn coordinates of a step h into those of ``ratio`` h."""
    power = 1.0
    for j in range(mean.shape[0]):
        for p in range(mean.shape[1]):
            result[j, p] = power * mean[j, p]
        power *= ratio


@compiled
def extrapolate(mean: Array):
    """Go on by one step (10a): Pascal's matrix, by additions in place."""
    size = mean.shape[0]
    for i in range(size - 1):
        for j in range(size - 2, i - 1, -1):
            for p in range(mean.shape[1]):
                mean[j, p] += mean[j + 1, p]
