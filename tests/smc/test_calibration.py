"""Nightly: python -m pytest -m nightly tests/smc/test_calibration.py."""

from __future__ import annotations

import numpy as np
import pytest
from calibration import SETTINGS, shares_below_truth, uniformity


@pytest.mark.nightly
@pytest.mark.parametrize("name", SETTINGS)
def test_ranks_are_uniform(name):
    """300 draws: no parameter's histogram is rejected at 1 %, counted over its parameters."""
    shares = shares_below_truth(SETTINGS[name], draws=300, seed=1, particles=300)
    p_values = uniformity(shares)
    assert p_values.min() > 0.01 / len(p_values), p_values


def test_a_posterior_that_is_too_narrow_is_found():
    """The test itself: shares of a posterior with half the right standard deviation."""
    from scipy import stats

    z = np.random.default_rng(0).normal(size=300)
    assert uniformity(stats.norm.cdf(z)[:, None])[0] > 0.01
    assert uniformity(stats.norm.cdf(2 * z)[:, None])[0] < 1e-6
