"""Residuals over records: their autocorrelation, and their variance by the amplitude of the output.

The error of a model is not the same everywhere: most are right where the output is small and fail
as it grows. The mean square of the residuals is regressed on the amplitude, as a function that does
not fall (isotonic regression, Barlow et al. 1972), and is taken for that of another record at the
same amplitude. Beyond the largest amplitude it stays what it is there.

References
----------
Bartlett, M. S. (1946). On the theoretical specification and sampling properties of autocorrelated
time-series. Journal of the Royal Statistical Society, Supplement 8.
Politis, D. N., White, H. (2004). Automatic block-length selection for the dependent bootstrap.
Econometric Reviews 23.
Sokal, A. D. (1997). Monte Carlo methods in statistical mechanics: foundations and new algorithms.
In Functional Integration, Springer (the window of `correlation_length`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.optimize import isotonic_regression

Array = NDArray[np.float64]

LONGEST = 0.1
"""Lag at most at which residuals are looked at, as a share of the samples."""
QUIET = 5
"""Lags in a row without a significant autocorrelation that end the search for the last one."""
WINDOW = 5.0
"""Lengths of correlation up to which autocorrelations are summed to one."""


def correlation_length(series: Sequence[Array]) -> float:
    """Length of correlation 1 + 2 (r_1 + r_2 + ...) of a series, in samples, at least one.

    Autocorrelations r are summed up to the first lag of five times the sum (Sokal 1997).

    series: (T_i,), one per record, about the mean of all; zero where nothing was measured.
    """
    most = max(map(len, series)) - 1
    covariance = _autocovariances(series, most)
    if most < 1 or covariance[0] <= 0.0:
        return 1.0
    lengths = 1.0 + 2.0 * np.cumsum(covariance[1:] / covariance[0])
    enough = np.arange(1, most + 1) >= WINDOW * lengths
    return float(max(1.0, lengths[np.argmax(enough) if enough.any() else -1]))


def inflation(series: Sequence[Array]) -> float:
    """Variance of a sum of residuals times as coloured a sensitivity, over that of white ones.

    It is 1 + 2 (r_1^2 + r_2^2 + ...) of the significant autocorrelations r (Bartlett 1946), and 1
    for white residuals whatever the sensitivity.

    series: (T_i,), residuals about zero, one per record, zero where nothing was measured.
    """
    samples = sum(len(part) for part in series)
    covariance = _autocovariances(series, max(1, int(LONGEST * samples)))
    if covariance[0] <= 0.0:
        return 1.0
    correlation = covariance / covariance[0]
    last = _last_significant(correlation, samples)
    return float(1.0 + 2.0 * np.square(correlation[1 : last + 1]).sum())


def _last_significant(correlation: Array, samples: int) -> int:
    """Lag after which five in a row, and so all, are within what white noise has."""
    run = max(QUIET, int(np.sqrt(np.log10(samples))))
    small = np.abs(correlation[1:]) < 2.0 * np.sqrt(np.log10(samples) / samples)
    quiet = np.convolve(small, np.ones(run), "valid") == run
    return int(np.argmax(quiet)) if quiet.any() else len(small) // 2


def _autocovariances(series: Sequence[Array], most: int) -> Array:
    """Mean of x_t x_{t-j} at lags j from 0 to ``most``, over records (T_i,)."""
    total = np.zeros(most + 1)
    for part in series:
        size = next_fast_len(len(part) + most, real=True)
        power = np.square(np.abs(np.fft.rfft(part, size)))
        found = np.fft.irfft(power, size)[: min(most + 1, len(part))]
        total[: len(found)] += found
    return total / sum(len(part) for part in series)


GROUP = 100
"""Uncorrelated samples of about one amplitude whose residuals are averaged."""


@dataclass(frozen=True)
class ResidualLevel:
    """Mean square residual of one output by its amplitude.

    centre: Mean of the output, from which amplitudes count.
    width: Samples over which the residuals are correlated; an amplitude is a root mean square over
        so many, up to the sample.
    amplitudes, variances: (G,), increasing, and not decreasing.
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

    outputs, residuals: (T_i,), residuals are NaN where nothing was measured.
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
