"""Derivatives of a log prior density by the unconstrained coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.model.prior import Prior, total_log_density

Array = NDArray[np.float64]

_STENCILS = (1e-2, 1e-4, 1e-6)
"""Spacings of differences, in prior standard deviations; the next where one meets a bound."""
_FIRST = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
_CENTRE, _SECOND = -205 / 72, (8 / 5, -1 / 5, 8 / 315, -1 / 560)
"""Weights of central differences of eighth order, of the points one to four spacings away."""


@dataclass(frozen=True)
class PriorExpansion:
    """A log prior density with its first and second derivatives.

    Attributes
    ----------
    value : ndarray, (n,)
    gradient : ndarray, (n, d)
    diagonal : ndarray, (n, d)
        Second derivative along each coordinate.
    mixed : ndarray, (n, k)
        Derivative by the k-th pair of a scaled coordinate and that of its scale.
    pairs : ndarray of int, (2, k)
    """

    value: Array
    gradient: Array
    diagonal: Array
    mixed: Array
    pairs: NDArray[np.int64]

    def add_mixed(self, hessian: Array) -> None:
        """Add the mixed derivatives to a Hessian, (n, d, d), in place."""
        j, k = self.pairs
        hessian[:, j, k] += self.mixed
        hessian[:, k, j] += self.mixed


def prior_expansion(prior: Prior, theta: Array, scale: Array) -> PriorExpansion:
    """`Prior.log_density` of coordinates (n, d), with its derivatives.

    A prior is any object with a ``logpdf``, of one number; these are differences of eighth order,
    exact to about 1e-12 where it is smooth. Where a coordinate x has a scale s, they are taken by
    y = x / s, on which the density p(y) / s depends alone, and the chain rule does the rest.

    Parameters
    ----------
    scale : ndarray, (d,)
        Spread of the prior in these coordinates.
    """
    if not prior.scales:
        here, first, second = along_coordinates(prior, theta, scale)
        nothing = np.empty((len(theta), 0)), np.empty((2, 0), dtype=np.int64)
        return PriorExpansion(total_log_density(here), first, second, *nothing)
    scaling, values = prior.scaling, prior.natural(theta)
    columns, spread = scaling.columns, scale.copy()
    spread[columns] = prior.unscaled_spread
    y = prior.standardised(theta)
    here, first, second = along_coordinates(prior, y, spread)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scales = scaling.of(values)
        here[:, columns] -= np.log(scales)
        by_y, by_yy, y = first[:, columns], second[:, columns], y[:, columns]
        first[:, columns], second[:, columns] = by_y / scales, by_yy / scales**2
        learned = np.flatnonzero(scaling.by >= 0)
        pairs = np.stack([columns[learned], scaling.by[learned]])
        slopes, bends = (each[:, pairs[1]] for each in prior.slopes(theta))
        scales, by_y, by_yy, y = (each[:, learned] for each in (scales, by_y, by_yy, y))
        # Derivatives of log s by its coordinate.
        a = slopes / scales
        b = bends / scales - a**2
        np.add.at(first.T, pairs[1], (-a * (1.0 + y * by_y)).T)
        np.add.at(second.T, pairs[1], (by_yy * (y * a) ** 2 + by_y * y * (a**2 - b) - b).T)
        mixed = -a / scales * (by_y + y * by_yy)
    return PriorExpansion(total_log_density(here), _finite(first), _finite(second), mixed, pairs)


def along_coordinates(prior: Prior, theta: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Independent log densities (n, d), with first and second derivative of each, (n, d)."""
    n, d = theta.shape
    here, first, second = np.empty((n, d)), np.full((n, d), np.nan), np.full((n, d), np.nan)
    for share in _STENCILS:
        spacing = share * scale
        points = theta + np.arange(-4, 5)[:, None, None] * spacing
        along = prior.unscaled_log_densities(points.reshape(-1, d)).reshape(9, n, d)
        missing, here, pairs = (
            np.isnan(first),
            along[4],
            list(zip(along[5:], along[3::-1], strict=True)),
        )
        with np.errstate(over="ignore", invalid="ignore"):
            slope = sum(w * (up - down) for w, (up, down) in zip(_FIRST, pairs, strict=True))
            bend = sum(w * (up + down) for w, (up, down) in zip(_SECOND, pairs, strict=True))
            bend += _CENTRE * here
        first = np.where(missing, _finite(slope / spacing), first)
        second = np.where(missing, _finite(bend / spacing**2), second)
        if np.isfinite(first).all():
            break
    return here, first, second


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.nan)
