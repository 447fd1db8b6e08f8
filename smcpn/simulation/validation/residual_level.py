"""Variance of the residuals of a record as a function of the amplitude of the output there.

The error of a model is not the same everywhere: most are right where the output is small and fail
as it grows. The mean square of the residuals is regressed on the amplitude, as a function that does
not fall (isotonic regression, Barlow et al. 1972), and is taken for that of another record at the
same amplitude. Beyond the largest amplitude it stays what it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from smcpn.simulation.validation.long_run import inflation

Array = NDArray[np.float64]

GROUP = 100
"""Uncorrelated samples of about one amplitude whose residuals are averaged."""


@dataclass(frozen=True)
class ResidualLevel:
    """Mean square residual of one output by its amplitude.

    Attributes
    ----------
    centre : float
        Mean of the output, from which amplitudes count.
    width : int
        Samples over which the residuals are correlated; an amplitude is a root mean square over
        so many, up to the sample.
    amplitudes, variances : ndarray, (G,)
        Increasing, and not decreasing.
    """

    centre: float
    width: int
    amplitudes: Array
    variances: Array

    def at(self, outputs: Array) -> Array:
        """Variance of the residuals of a run with these noise-free outputs, (T,) both."""
        amplitude = _amplitude(outputs - self.centre, self.width)
        return np.interp(amplitude, self.amplitudes, self.variances)


def residual_level(outputs: Sequence[Array], residuals: Sequence[Array]) -> ResidualLevel:
    """Regress the squared residuals of records on the amplitude of their noise-free outputs.

    Parameters
    ----------
    outputs, residuals : sequence of ndarray, (T_i,)
        Residuals are NaN where nothing was measured.
    """
    width = max(1, round(inflation([np.nan_to_num(one) for one in residuals])))
    centre = float(np.mean(np.concatenate(list(outputs))))
    amplitude = np.concatenate([_amplitude(one - centre, width) for one in outputs])
    squares = np.square(np.concatenate(list(residuals)))
    seen = np.isfinite(squares)
    order = np.argsort(amplitude[seen], kind="stable")
    count = max(1, seen.sum() // (GROUP * width))
    groups = np.array_split(order, count)
    means = np.array([squares[seen][group].mean() for group in groups])
    return ResidualLevel(
        centre=centre,
        width=width,
        amplitudes=np.array([amplitude[seen][group].mean() for group in groups]),
        variances=np.asarray(isotonic_regression(means).x, dtype=np.float64),
    )


def _amplitude(deviation: Array, width: int) -> Array:
    """Root mean square over ``width`` samples up to each; over those there are at the start."""
    sums = np.cumsum(np.concatenate([np.zeros(width), np.square(deviation)]))
    count = np.minimum(np.arange(1, len(deviation) + 1), width)
    return np.sqrt(np.maximum(sums[width:] - sums[:-width], 0.0) / count)
