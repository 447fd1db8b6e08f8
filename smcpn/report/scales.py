"""Linear and logarithmic axes of densities: where each is drawn, and on which of both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from smcpn.results.draws import weighted_quantile

Array = NDArray[np.float64]

WIDE = 30.0
"""Ratio of the ends of the central 95 % from which values are drawn over their logarithm."""
SKEWED = 1.6
"""Ratio of the upper and the lower half of these logarithms from which they are not."""
BINS = 40


@dataclass(frozen=True)
class Scale:
    """An axis on which a density is drawn: over the values, or over their logarithms."""

    logarithmic: bool = False

    @classmethod
    def of(cls, values: Array, weights: Array | None = None) -> Scale:
        """Return that of weighted values: logarithmic of positive ones over decades, evenly."""
        if weights is None:
            weights = np.full(len(values), 1.0 / len(values))
        low, middle, high = weighted_quantile(values, weights, [0.025, 0.5, 0.975])
        if not (values > 0.0).all() or high < WIDE * low:
            return cls()
        upper, lower = np.log(high / middle), np.log(middle / low)
        return cls(bool(max(upper, lower) < SKEWED * min(upper, lower)))

    def forward(self, x: Array) -> Array:
        """Coordinates on the axis."""
        return np.log(x) if self.logarithmic else x

    def backward(self, x: Array) -> Array:
        """Values at coordinates."""
        return np.exp(x) if self.logarithmic else x

    def range(self, values: Array, weights: Array) -> tuple[float, float]:
        """Return the ends of the central 99.8 % of weighted values, a little widened."""
        low, high = weighted_quantile(self.forward(values), weights, [0.001, 0.999])
        margin = 0.08 * (high - low) or 1e-3 * abs(high) or 1.0
        begin, end = self.backward(np.array([low - margin, high + margin]))
        return float(begin), float(end)

    def grid(self, low: float, high: float, number: int) -> Array:
        """Return values at equal distances on the axis."""
        begin, end = self.forward(np.array([low, high])).tolist()
        return self.backward(np.linspace(begin, end, number))

    def slope(self, x: Array) -> Array:
        """Derivative of a value by its coordinate: a density over values, times it, is one here."""
        return x if self.logarithmic else np.ones_like(x)

    def histogram(self, values: Array, weights: Array) -> tuple[Array, Array]:
        """Return the density of weighted values over the coordinate, and the edges of its bins."""
        begin, end = self.forward(np.array(self.range(values, weights))).tolist()
        counts, edges = np.histogram(self.forward(values), BINS, (begin, end), weights=weights)
        return counts / np.diff(edges), self.backward(edges)

    def mark(self, axis: Axis, low: float, high: float, ticks: int) -> None:
        """Set the scale and the ends of an axis, and about so many ticks."""
        axes: Axes = axis.axes
        horizontal = axis is axes.xaxis
        if not self.logarithmic:
            axis.set_major_locator(MaxNLocator(ticks))
        elif horizontal:
            axes.set_xscale("log")
        else:
            axes.set_yscale("log")
        (axes.set_xlim if horizontal else axes.set_ylim)(low, high)
        if self.logarithmic:
            axis.set_major_locator(LogLocator(numticks=ticks + 1))
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
