"""Densities of residuals with coloured noise, by the dense covariance of a whole record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


def increments(
    t: Array, residual: Array, sd: float, rho: float, interval: float, error: Array | None = None
) -> Array:
    """Log density of each residual given those before, (T,); 0 where it is NaN.

    Noise at times s and t has the covariance sd^2 rho^(|s - t| / interval). ``error`` (T,) is the
    variance of an error that is independent from sample to sample.
    """
    error = np.zeros(len(t)) if error is None else error
    distance = np.round(np.abs(t[:, None] - t) / interval, 9)
    covariance = sd**2 * rho**distance + np.diag(error)
    totals = [0.0]
    for end in range(1, len(t) + 1):
        seen = np.flatnonzero(np.isfinite(residual[:end]))
        if not len(seen):
            totals.append(0.0)
            continue
        normal = stats.multivariate_normal(np.zeros(len(seen)), covariance[np.ix_(seen, seen)])
        totals.append(float(normal.logpdf(residual[seen])))
    return np.diff(totals)
