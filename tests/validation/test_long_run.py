"""The long-run covariance against exact answers, and its window against a plain sum over lags."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from smcpn.validation.long_run import _bartlett, inflation, long_run

SAMPLES, SERIES = 1000, 200


def coloured(numerator, denominator, seed: int, shape=(SAMPLES, 1)) -> np.ndarray:
    """A series driven by unit white noise, from its stationary state."""
    white = np.random.default_rng(seed).normal(size=(shape[0] + 300, *shape[1:]))
    return lfilter(numerator, denominator, white, axis=0)[300:]


@pytest.mark.parametrize("lags", [0, 1, 7, 60])
def test_the_window_is_newey_and_wests_sum_over_lags(lags):
    parts = [np.random.default_rng(k).normal(size=(n, 3)) for k, n in enumerate((50, 20))]
    expected = np.zeros((3, 3))
    for part in parts:
        for j in range(min(lags, len(part) - 1) + 1):
            product = part[j:].T @ part[: len(part) - j] * (1 - j / (lags + 1))
            expected += product if j == 0 else product + product.T
    np.testing.assert_allclose(_bartlett(parts, lags), expected / 70, rtol=1e-12, atol=1e-14)


RESONANCE = np.array([1.0, -2 * 0.95 * np.cos(0.7), 0.95**2])


# The mean ratio to the exact variance over 200 series has a standard error below .03 but for the
# resonance, .08; the estimate's own bias is at most .15 at this length, for the moving average.
@pytest.mark.parametrize(
    ("numerator", "denominator", "low", "high"),
    [
        ([1.0], [1.0], 0.95, 1.05),
        ([1.0], [1.0, -0.5], 0.95, 1.05),
        ([1.0], [1.0, 0.5], 0.95, 1.05),
        ([1.0], [1.0, -0.9], 0.9, 1.15),
        ([1.0, 0.8], [1.0], 0.95, 1.2),
    ],
)
def test_autoregressions_and_moving_averages(numerator, denominator, low, high):
    exact = (sum(numerator) / sum(denominator)) ** 2
    found = [
        long_run([coloured(numerator, denominator, seed)]).covariance[0, 0] / SAMPLES
        for seed in range(SERIES)
    ]
    assert low < np.mean(found) / exact < high


def test_products_of_resonances_are_followed_through_their_oscillation():
    """As scores are: a residual times a sensitivity, both narrow-band; the truth by theory."""
    impulse = lfilter([1.0], RESONANCE, np.r_[1.0, np.zeros(4000)])
    exact = np.square(np.correlate(impulse, impulse, "full")).sum()
    shape = (10000, 1)
    found = [
        long_run(
            [coloured([1.0], RESONANCE, k, shape) * coloured([1.0], RESONANCE, 99 + k, shape)]
        ).covariance[0, 0]
        for k in range(30)
    ]
    assert 0.8 < np.mean(found) / exact / 10000 < 1.1  # .92 +- .03


def test_units_do_not_matter():
    series = coloured([1.0], [1.0, -0.5], 0, (SAMPLES, 2))
    scale = np.array([1e-9, 1e6])
    np.testing.assert_allclose(
        long_run([series * scale]).covariance,
        long_run([series]).covariance * np.outer(scale, scale),
        rtol=1e-9,
    )


def test_inflation_of_white_and_of_autoregressive_residuals():
    white = [inflation([coloured([1.0], [1.0], seed)[:, 0]]) for seed in range(50)]
    assert np.mean(white) < 1.02
    found = [inflation([coloured([1.0], [1.0, -0.8], seed)[:, 0]]) for seed in range(50)]
    assert np.mean(found) == pytest.approx(1 + 2 * 0.64 / 0.36, rel=0.15)  # se .03
