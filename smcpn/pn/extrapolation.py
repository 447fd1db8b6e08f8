"""Prediction and change of step of the integrated Wiener process, in compiled code.

In the coordinates of `smcpn.pn.iwp`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


def extrapolate(mean: Array):
    """Multiply the coordinates of all processes, (order + 1, d), by the Pascal matrix in place."""
    size = mean.shape[0]
    for i in range(size - 1):
        for j in range(size - 2, i - 1, -1):
            for p in range(mean.shape[1]):
                mean[j, p] += mean[j + 1, p]


def extrapolate_rows(rows: Array, row: Indices, p: int, n_columns: int):
    """Multiply the rows of process ``p`` by the Pascal matrix; entry j is in row ``row[j, p]``."""
    size = row.shape[0]
    for i in range(size - 1):
        for j in range(size - 2, i - 1, -1):
            lower, added = rows[row[j, p]], rows[row[j + 1, p]]
            for column in range(n_columns):
                lower[column] += added[column]


def rescale(mean: Array, ratio: float, result: Array):
    """Turn coordinates (order + 1, d) of a step h into those of ``ratio`` h."""
    power = 1.0
    for j in range(mean.shape[0]):
        for p in range(mean.shape[1]):
            result[j, p] = power * mean[j, p]
        power *= ratio
