"""The residual variance by amplitude, on residuals whose variance is known."""

from __future__ import annotations

import numpy as np
import pytest

from smcpn.results.validation.residuals import residual_level

SAMPLES = 20000


def outputs(seed: int = 0) -> np.ndarray:
    return 2.0 + np.random.default_rng(seed).normal(size=SAMPLES)


def test_residuals_that_grow_with_the_output():
    x = outputs()
    e = np.random.default_rng(1).normal(size=SAMPLES) * (0.5 + np.abs(x - 2.0))
    level = residual_level([x[:15000], x[15000:]], [e[:15000], e[15000:]])
    assert level.width == 1
    fresh = np.array([2.0, 1.0, 3.5])
    # Groups of 100 samples have a relative error of .14, pooled where they would fall.
    np.testing.assert_allclose(level.at(fresh), (0.5 + np.abs(fresh - 2.0)) ** 2, rtol=0.35)
    assert np.all(np.diff(level.variances) >= 0)


def test_it_stays_beyond_the_largest_amplitude():
    x = outputs()
    level = residual_level([x], [x - 2.0])
    assert level.at(np.array([50.0]))[0] == level.variances[-1]


def test_white_residuals_have_one_variance():
    e = np.random.default_rng(2).normal(size=SAMPLES)
    level = residual_level([outputs()], [e])
    assert np.median(level.variances) == pytest.approx(1.0, abs=0.05)
    assert level.variances[-1] < 1.5  # the largest of 200 means of 100, pooled


def test_missing_samples_do_not_count():
    x, e = outputs(), np.random.default_rng(1).normal(size=SAMPLES)
    e[::3] = np.nan
    level = residual_level([x], [e])
    kept = np.isfinite(e)
    assert np.isfinite(level.variances).all()
    assert level.variances.mean() == pytest.approx(np.mean(e[kept] ** 2), rel=0.05)


def test_amplitudes_reach_as_far_back_as_residuals_are_correlated():
    white = np.random.default_rng(3).normal(size=SAMPLES + 19)
    e = np.convolve(white, np.ones(20), "valid")
    level = residual_level([outputs()], [e])
    assert level.width == pytest.approx(1 + 2 * np.sum((1 - np.arange(1, 20) / 20) ** 2), rel=0.1)
