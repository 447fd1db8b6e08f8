"""Autocorrelation of a series over records, and what it does to the variance of a sum.

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

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

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

    Parameters
    ----------
    series : sequence of ndarray, (T_i,)
        One per record, about the mean of all; zero where nothing was measured.
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

    Parameters
    ----------
    series : sequence of ndarray, (T_i,)
        Residuals about zero, one per record, zero where nothing was measured.
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
