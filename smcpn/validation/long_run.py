"""Variance of the sum of an autocorrelated series: Newey and West's estimate, prewhitened.

    sum_t x_t of a stationary series has the covariance T (G_0 + G_1 + G_1' + G_2 + ...) for large T

with G_j = E x_t x_{t-j}'. Its estimate weighs lag j by 1 - j / (L + 1) up to the bandwidth L
(Newey, West 1987), chosen from the series, after a first-order autoregression
has been taken out of it, which is put back at the end (Andrews, Monahan 1992).

References
----------
Newey, W. K., West, K. D. (1987). A simple, positive semi-definite, heteroskedasticity and
autocorrelation consistent covariance matrix. Econometrica 55.
Newey, W. K., West, K. D. (1994). Automatic lag selection in covariance matrix estimation. Review of
Economic Studies 61.
Andrews, D. W. K., Monahan, J. C. (1992). An improved heteroskedasticity and autocorrelation
consistent covariance matrix estimator. Econometrica 60.
Politis, D. N., White, H. (2004). Automatic block-length selection for the dependent bootstrap.
Econometric Reviews 23.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len

Array = NDArray[np.float64]

LARGEST_GAIN = 0.97
"""Singular values of the autoregression are cut here: beyond, putting it back multiplies noise."""
BARTLETT = 1.1447
"""Constant of the asymptotically best bandwidth of Bartlett's weights (Newey, West 1994)."""
LONGEST = 0.1
"""Bandwidth at most, as a share of the samples."""
QUIET = 5
"""Lags in a row without a significant autocorrelation that end the search for the last one."""
LEAST_LEVEL = 0.01
"""Of the sum of all autocorrelations, which an estimate may put at zero or below."""


@dataclass(frozen=True)
class LongRun:
    """Covariance of the sum of a series, and how far its autocorrelation was followed.

    Attributes
    ----------
    covariance : ndarray, (d, d)
        Of the sum over all samples of all records.
    bandwidth : int
        Lags that count.
    """

    covariance: Array
    bandwidth: int


def long_run(series: Sequence[Array]) -> LongRun:
    """Covariance of the sum of a vector series whose mean is zero.

    Parameters
    ----------
    series : sequence of ndarray, (T_i, d)
        One per record; no lag reaches from one into another. Zeros where nothing was measured.
    """
    whole = np.concatenate(list(series))
    size = np.sqrt(np.square(whole).mean(axis=0))
    size = np.where(size > 0, size, 1.0)
    scaled = [part / size for part in series]
    gain = _autoregression(scaled)
    innovations = [_innovations(part, gain) for part in scaled]
    lags = bandwidth(innovations)
    middle = len(whole) * _bartlett(innovations, lags)
    recolour = np.linalg.inv(np.eye(len(size)) - gain) * size[:, None]
    return LongRun(recolour @ middle @ recolour.T, lags)


def bandwidth(series: Sequence[Array]) -> int:
    """Bandwidth L of Bartlett's weights: the largest that a column of the series (T_i, d) asks for.

    L minimises the mean square error, from the level and slope of the autocovariances (Newey, West
    1994). These are summed up to twice the lag beyond which none is significant, under a flat-top
    window (Politis, White 2004): oscillations outlast the number of lags that Newey and West take.
    """
    samples = sum(len(part) for part in series)
    most = max(1, int(LONGEST * samples))
    wanted = [
        _wanted_bandwidth([part[:, j] for part in series], samples, most)
        for j in range(series[0].shape[1])
    ]
    return int(min(max(wanted), most))


def _wanted_bandwidth(series: Sequence[Array], samples: int, most: int) -> float:
    covariance = _autocovariances(series, most)
    if covariance[0] <= 0.0:
        return 0.0
    correlation = covariance / covariance[0]
    last = _last_significant(correlation, samples)
    lags = np.arange(1, min(max(2 * last, 1), most) + 1)
    window = np.clip(2.0 * (1.0 - lags / (2 * last + 1)), 0.0, 1.0)
    level = 1.0 + 2.0 * window @ correlation[lags]
    slope = 2.0 * (window * lags) @ correlation[lags]
    ratio = abs(slope) / max(level, LEAST_LEVEL)
    return float(BARTLETT * ratio ** (2.0 / 3.0) * samples ** (1.0 / 3.0))


def _last_significant(correlation: Array, samples: int) -> int:
    """Lag after which five in a row, and so all, are within what white noise has."""
    run = max(QUIET, int(np.sqrt(np.log10(samples))))
    small = np.abs(correlation[1:]) < 2.0 * np.sqrt(np.log10(samples) / samples)
    quiet = np.convolve(small, np.ones(run), "valid") == run
    return int(np.argmax(quiet)) if quiet.any() else len(small) // 2


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


def _autocovariances(series: Sequence[Array], most: int) -> Array:
    """Mean of x_t x_{t-j} at lags j from 0 to ``most``, over records (T_i,)."""
    total = np.zeros(most + 1)
    for part in series:
        size = next_fast_len(len(part) + most, real=True)
        power = np.square(np.abs(np.fft.rfft(part, size)))
        found = np.fft.irfft(power, size)[: min(most + 1, len(part))]
        total[: len(found)] += found
    return total / sum(len(part) for part in series)


def _autoregression(series: Sequence[Array]) -> Array:
    """Least-squares gain A (d, d) of x_t = A x_{t-1} + r_t, its singular values at most .97."""
    before = np.concatenate([part[:-1] for part in series])
    after = np.concatenate([part[1:] for part in series])
    # Sums of products in a fixed order: a library's matrix product depends on its threads.
    products = np.einsum("ti,tj->ij", before, before)
    crossed = np.einsum("ti,tj->ij", before, after)
    gain = np.linalg.lstsq(products, crossed)[0].T
    left, singular, right = np.linalg.svd(gain)
    return (left * np.minimum(singular, LARGEST_GAIN)) @ right


def _innovations(part: Array, gain: Array) -> Array:
    """Residuals r_t = x_t - A x_{t-1}, the first one x_0 itself."""
    return np.concatenate([part[:1], part[1:] - np.einsum("ij,tj->ti", gain, part[:-1])])


def _bartlett(series: Sequence[Array], lags: int) -> Array:
    """Sum over lags -L to L of (1 - |j| / (L + 1)) G_j, (d, d), per sample.

    It is the mean square of the sums over all windows of L + 1 samples, those included that reach
    over an end: positive semi-definite, and as cheap for any bandwidth.
    """
    width, d = lags + 1, series[0].shape[1]
    total = np.zeros((d, d))
    for part in series:
        padded = np.concatenate([np.zeros((width, d)), part, np.zeros((lags, d))])
        sums = np.cumsum(padded, axis=0)
        windows = sums[width:] - sums[:-width]
        total += np.einsum("ti,tj->ij", windows, windows)
    return total / width / sum(len(part) for part in series)
