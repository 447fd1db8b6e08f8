"""Draw a long series by its smallest and largest values, so that no peak is lost."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BINS = 700
"""Bins across a figure: about one per pixel of a report's column."""


def envelope(t: Array, values: Array, bins: int = BINS) -> tuple[Array, Array]:
    """Replace a series by the extremes of each bin, in the order they occur.

    Parameters
    ----------
    t, values : ndarray, (T,)
        NaN marks what is not drawn.

    Returns
    -------
    t, values : ndarray, (T,) or (2 bins,)
        The series itself where it is no longer than twice the bins allow.
    """
    if len(values) <= 4 * bins:
        return t, values
    edges = np.linspace(0, len(values), bins + 1).astype(int)
    places: list[int] = []
    for a, b in pairwise(edges):
        part = values[a:b]
        if np.isnan(part).all():
            places += [a, a]
        else:
            places += sorted((a + int(np.nanargmin(part)), a + int(np.nanargmax(part))))
    return t[places], values[places]


def band_envelope(
    t: Array, lower: Array, upper: Array, bins: int = BINS
) -> tuple[Array, Array, Array]:
    """Replace a band by the smallest lower and largest upper end of each bin.

    Returns
    -------
    t, lower, upper : ndarray, (T,) or (bins,)
    """
    if len(t) <= 4 * bins:
        return t, lower, upper
    edges = np.linspace(0, len(t), bins + 1).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin without any number stays NaN
        low = np.array([np.nanmin(lower[a:b]) for a, b in pairwise(edges)])
        high = np.array([np.nanmax(upper[a:b]) for a, b in pairwise(edges)])
    # The ends stay where they are, so that the band reaches as far as the curve.
    centre = t[(edges[:-1] + edges[1:]) // 2].copy()
    centre[0], centre[-1] = t[0], t[-1]
    return centre, low, high
