from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from smcpn.smc.particles import normalise
from smcpn.smc.resampling import SCHEMES, multinomial, residual, ssp, stratified, systematic

LOG_WEIGHTS = hnp.arrays(
    float, st.integers(1, 40), elements=st.one_of(st.floats(-50, 0), st.just(-np.inf))
)


def copies(scheme, weights, rng, size=None):
    return np.bincount(scheme(weights, rng, size), minlength=len(weights))


@pytest.mark.parametrize("name", SCHEMES)
@given(log_weights=LOG_WEIGHTS, seed=st.integers(0, 1000), size=st.integers(1, 60))
@settings(max_examples=100, deadline=None)
def test_any_scheme(name, log_weights, seed, size):
    if not np.isfinite(log_weights).any():
        return
    weights = normalise(log_weights)
    index = SCHEMES[name](weights, np.random.default_rng(seed), size)
    assert len(index) == size
    assert (np.diff(index) >= 0).all()
    assert (weights[index] > 0).all()


@pytest.mark.parametrize(
    ("scheme", "below", "above"),
    [(systematic, 1, 1), (ssp, 1, 1), (stratified, 2, 2), (residual, 1, np.inf)],
)
@given(log_weights=LOG_WEIGHTS, seed=st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_copies_stay_near_their_mean(scheme, below, above, log_weights, seed):
    if not np.isfinite(log_weights).any():
        return
    weights = normalise(log_weights)
    excess = copies(scheme, weights, np.random.default_rng(seed)) - len(weights) * weights
    assert (excess > -below - 1e-9).all()
    assert (excess < above + 1e-9).all()


@pytest.mark.parametrize("name", SCHEMES)
def test_unbiased(name):
    """Mean copies over 5000 draws of 7: 5 standard errors, those of multinomial draws."""
    weights = np.array([0.03, 0.17, 0.0, 0.3, 0.45, 0.05])
    rng = np.random.default_rng(0)
    mean = np.mean([copies(SCHEMES[name], weights, rng, 7) for _ in range(5000)], axis=0)
    error = np.sqrt(7 * weights * (1 - weights) / 5000)
    assert (np.abs(mean - 7 * weights) <= 5 * error).all()


@pytest.mark.parametrize("name", SCHEMES)
def test_one_hot_and_uniform(name):
    rng = np.random.default_rng(0)
    assert (SCHEMES[name](np.eye(6)[3], rng, None) == 3).all()
    if name != "multinomial" and name != "stratified":
        np.testing.assert_array_equal(SCHEMES[name](np.full(8, 0.125), rng, None), np.arange(8))


def test_variance_is_ordered_as_theory_says():
    """Of the mean of a function over the copies; a rough one, so that order does not help."""
    rng = np.random.default_rng(1)
    weights = normalise(rng.normal(size=200))
    values = rng.normal(size=200)

    def variance(scheme):
        return np.var([values[scheme(weights, rng, None)].mean() for _ in range(2000)])

    worst = variance(multinomial)
    # The variance of 2000 draws is known to 3 %: differences below are many times that.
    for scheme in (residual, stratified, ssp, systematic):
        assert variance(scheme) < 0.8 * worst


@pytest.mark.parametrize("name", SCHEMES)
def test_uniforms_come_from_the_generator(name):
    weights = normalise(np.random.default_rng(2).normal(size=100))
    first, second = (SCHEMES[name](weights, np.random.default_rng(5), None) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    other = SCHEMES[name](weights, np.random.default_rng(6), None)
    assert (first != other).any()
