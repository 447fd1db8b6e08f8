"""Across one informative sample in parts, so that it never kills the whole population.

With small noise a single observation can leave one particle alive. Its
likelihood is raised to an exponent that keeps the effective sample size, the particles are
rejuvenated there, and so on until the exponent is one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smcpn.smc.target import tempered
from smcpn.smc.weights import effective_sample_size

Array = NDArray[np.float64]

WHOLE = 0.8
"""A sample is absorbed whole while the ESS stays above this share of the threshold."""
PRECISION = 1e-8
"""Bisection ends at this relative width of the step."""
BISECTIONS = 200


def next_exponent(
    log_weights: Array, pending: Array, exponent: float, threshold: float
) -> tuple[float, Array]:
    """Choose how much more of the pending sample the weights can bear.

    Parameters
    ----------
    log_weights, pending : ndarray, (N,)
    exponent : float
        How much of the sample is absorbed already.
    threshold : float
        Effective sample size to keep.

    Returns
    -------
    exponent : float
        1 if the rest can be absorbed at once; otherwise found by bisection on the ESS of the
        *cumulative* weights. It may stay where it is when leaving out the diverged particles
        already takes the ESS below the threshold.
    log_weights : ndarray, (N,)
        The weights at that exponent.
    """

    def weights_at(value: float) -> Array:
        return log_weights + tempered(pending, value - exponent)

    if effective_sample_size(weights_at(1.0)) >= WHOLE * threshold:
        return 1.0, weights_at(1.0)
    low, high = exponent, 1.0
    for _ in range(BISECTIONS):
        if high - low <= PRECISION * (low - exponent):
            break
        middle = 0.5 * (low + high)
        if effective_sample_size(weights_at(middle)) < threshold:
            high = middle
        else:
            low = middle
    excludes = np.isfinite(log_weights) & (pending == -np.inf)
    if low == exponent and not excludes.any():
        low = high
    return low, weights_at(low)
