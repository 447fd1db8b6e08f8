"""Square roots of covariances in compiled code: triangular factors by Householder reflections."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def triangularise(rows: Array, n_pivots: int, n_rows: int, n_columns: int):
    """Make ``rows`` lower triangular in its first ``n_pivots`` rows, leaving rows rows' as it is.

    Row k is reflected onto its k-th entry, which becomes the non-negative diagonal; what is right
    of it is left as scratch. A row that has nothing there, of a singular covariance, is skipped.
    """
    for k in range(min(n_pivots, n_columns)):
        beyond = 0.0
        for j in range(k + 1, n_columns):
            beyond += rows[k, j] * rows[k, j]
        head = rows[k, k]
        if beyond == 0.0:
            if head < 0.0:
                for r in range(k, n_rows):
                    rows[r, k] = -rows[r, k]
            continue
        norm = sqrt(head * head + beyond)
        # head - norm without cancellation
        first = head - norm if head <= 0.0 else -beyond / (head + norm)
        scale = 2.0 / (first * first + beyond)
        for r in range(k + 1, n_rows):
            dot = rows[r, k] * first
            for j in range(k + 1, n_columns):
                dot += rows[r, j] * rows[k, j]
            dot *= scale
            rows[r, k] -= dot * first
            for j in range(k + 1, n_columns):
                rows[r, j] -= dot * rows[k, j]
        rows[k, k] = norm


def clear(rows: Array, n_rows: int, n_columns: int):
    """Set the first rows and columns to zero."""
    for r in range(n_rows):
        for column in range(n_columns):
            rows[r, column] = 0.0


def copy(source: NDArray[Any], target: NDArray[Any]):
    """Copy a matrix."""
    for r in range(source.shape[0]):
        for column in range(source.shape[1]):
            target[r, column] = source[r, column]


def solve_lower(lower: Array, n: int, vector: Array):
    """Overwrite ``vector`` by the solution of L y = vector; a zero pivot gives zero."""
    for i in range(n):
        value = vector[i]
        for j in range(i):
            value -= lower[i, j] * vector[j]
        vector[i] = value / lower[i, i] if lower[i, i] > 0.0 else 0.0
