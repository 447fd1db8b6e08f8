"""Derivatives of densities that are known by their values alone, by central differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SPACINGS = (1e-2, 1e-4, 1e-6)
"""In spreads of the density; the next where one meets a bound."""
_FIRST = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
_CENTRE, _SECOND = -205 / 72, (8 / 5, -1 / 5, 8 / 315, -1 / 560)
"""Weights of central differences of eighth order, of the points one to four spacings away."""


def derivatives(
    log_density: Callable[[Array], Array], theta: Array, spread: Array
) -> tuple[Array, Array, Array]:
    """Independent log densities (n, d), with first and second derivative of each, (n, d).

    They are exact to about 1e-12 where the density is smooth, and NaN where they are not finite.

    Parameters
    ----------
    log_density : callable
        From (m, d) to (m, d): each column depends on its own alone.
    theta : ndarray, (n, d)
    spread : ndarray, (d,)
        Of the densities, such as their standard deviations.
    """
    n, d = theta.shape
    here, first, second = np.empty((n, d)), np.full((n, d), np.nan), np.full((n, d), np.nan)
    for share in _SPACINGS:
        spacing = share * spread
        points = theta + np.arange(-4, 5)[:, None, None] * spacing
        along = log_density(points.reshape(-1, d)).reshape(9, n, d)
        missing, here = np.isnan(first), along[4]
        pairs = list(zip(along[5:], along[3::-1], strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            slope = sum(w * (up - down) for w, (up, down) in zip(_FIRST, pairs, strict=True))
            bend = sum(w * (up + down) for w, (up, down) in zip(_SECOND, pairs, strict=True))
            bend += _CENTRE * here
        first = np.where(missing, finite(slope / spacing), first)
        second = np.where(missing, finite(bend / spacing**2), second)
        if np.isfinite(first).all():
            break
    return here, first, second


def finite(values: Array) -> Array:
    """The values, NaN where they are not finite."""
    return np.where(np.isfinite(values), values, np.nan)
