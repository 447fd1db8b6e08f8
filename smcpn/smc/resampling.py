"""Resampling: indices drawn in proportion to the weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def systematic(weights: Array, rng: np.random.Generator, size: int | None = None) -> NDArray:
    """Systematic resampling: one uniform, |n_i - size w_i| < 1, zero weights never chosen.

    Parameters
    ----------
    weights : ndarray, (N,)
        Normalised weights.
    size : int, optional
        Number of indices, by default N.

    Returns
    -------
    ndarray of int, (size,)
        Sorted indices.
    """
    size = len(weights) if size is None else size
    cumulative = np.cumsum(weights)
    # Rounding must neither leave a point beyond the last weight nor pick a zero weight at the end.
    cumulative /= cumulative[-1]
    points = (rng.random() + np.arange(size)) / size
    return np.searchsorted(cumulative, points, side="right").clip(
        max=int(np.flatnonzero(weights)[-1])
    )
