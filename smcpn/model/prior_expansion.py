"""Derivatives of a log prior density by the unconstrained coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smcpn.model.prior import Prior, total_log_density
from smcpn.model.stencil import finite

Array = NDArray[np.float64]


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

    Where a coordinate has no normal density the derivatives are differences (`stencil`): a prior is
    any object with a ``logpdf``, of one number.
    Where a coordinate x has a scale s, they are taken by y = x / s, on which the density p(y) / s
    depends alone, and the chain rule does the rest.

    Parameters
    ----------
    scale : ndarray, (d,)
        Spread of the prior in these coordinates.
    """
    if not prior.scales:
        here, first, second = prior.unscaled_derivatives(theta, scale)
        nothing = np.empty((len(theta), 0)), np.empty((2, 0), dtype=np.int64)
        return PriorExpansion(total_log_density(here), first, second, *nothing)
    scaling, values = prior.scaling, prior.natural(theta)
    columns, spread = scaling.columns, scale.copy()
    spread[columns] = prior.unscaled_spread
    y = prior.standardised(theta)
    here, first, second = prior.unscaled_derivatives(y, spread)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scales = scaling.of(values)
        here[:, columns] -= np.log(scales)
        slopes, bends = prior.slopes(theta)
        by_y, by_yy = first[:, columns], second[:, columns]
        first, y = scaling.gradient(first, y, values, slopes), y[:, columns]
        second[:, columns] = by_yy / scales**2
        learned = np.flatnonzero(scaling.by >= 0)
        pairs = np.stack([columns[learned], scaling.by[learned]])
        slopes, bends = slopes[:, pairs[1]], bends[:, pairs[1]]
        scales, by_y, by_yy, y = (each[:, learned] for each in (scales, by_y, by_yy, y))
        # Derivatives of log s by its coordinate.
        a = slopes / scales
        b = bends / scales - a**2
        np.add.at(second.T, pairs[1], (by_yy * (y * a) ** 2 + by_y * y * (a**2 - b) - b).T)
        mixed = -a / scales * (by_y + y * by_yy)
    return PriorExpansion(total_log_density(here), finite(first), finite(second), mixed, pairs)
