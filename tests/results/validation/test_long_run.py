"""Lengths of correlation and what they do to a variance, against exact answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from smcpn.results.validation.residuals import correlation_length, inflation

SAMPLES = 1000


def coloured(numerator, denominator, seed: int, shape=(SAMPLES, 1)) -> np.ndarray:
    """A series driven by unit white noise, from its stationary state."""
    white = np.random.default_rng(seed).normal(size=(shape[0] + 300, *shape[1:]))
    return lfilter(numerator, denominator, white, axis=0)[300:]


def test_inflation_of_white_and_of_autoregressive_residuals():
    white = [inflation([coloured([1.0], [1.0], seed)[:, 0]]) for seed in range(50)]
    assert np.mean(white) < 1.02
    found = [inflation([coloured([1.0], [1.0, -0.8], seed)[:, 0]]) for seed in range(50)]
    assert np.mean(found) == pytest.approx(1 + 2 * 0.64 / 0.36, rel=0.15)  # se .03


def test_length_of_correlation_of_white_and_of_autoregressive_series():
    for root, exact in ((0.0, 1.0), (0.8, 1.8 / 0.2)):
        found = [
            correlation_length([coloured([1.0], [1.0, -root], seed)[:, 0]]) for seed in range(50)
        ]
        assert np.mean(found) == pytest.approx(exact, rel=0.1)


def test_length_of_correlation_of_nothing_is_one():
    assert correlation_length([np.zeros(10)]) == correlation_length([np.ones(1)]) == 1.0
