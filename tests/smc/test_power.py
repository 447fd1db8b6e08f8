"""A likelihood to a power: the exact posterior of a linear Gaussian model."""

from __future__ import annotations

import numpy as np
import pytest

from smcpn.likelihood.contract import LikelihoodView
from smcpn.smc.particles import normalise
from smcpn.smc.tempering import at_power
from tests.targets import LinearRegression

PARTICLES = 2000


def run(power: float, seed: int = 0):
    target = LinearRegression(n=60, d=3)
    mean, covariance = target.moments()
    draws = np.random.default_rng(5).normal(size=(PARTICLES, 3))
    theta = mean + draws @ np.linalg.cholesky(covariance).T
    rng = np.random.default_rng(seed)
    return target, at_power(target.prior, target, power, theta, np.zeros(PARTICLES), rng)


@pytest.mark.parametrize("power", [0.02, 0.3, 1.0])
def test_the_posterior_is_that_of_noise_larger_by_one_over_the_root_of_the_power(power):
    target, found = run(power)
    weights = normalise(found.log_weights)
    wider = LinearRegression(n=60, d=3)
    wider.noise = target.noise / np.sqrt(power)
    mean, covariance = wider.moments()
    sd = np.sqrt(np.diag(covariance))
    centre = weights @ found.theta
    # Five standard errors of 2000 draws, some of them moved less than independence asks.
    np.testing.assert_allclose(centre, mean, atol=5 * 1.5 * sd.max() / np.sqrt(PARTICLES))
    spread = np.sqrt(weights @ np.square(found.theta - centre))
    np.testing.assert_allclose(spread / sd, 1.0, atol=0.12)


def test_the_log_likelihood_is_that_of_the_likelihood_itself():
    target, found = run(0.3)
    _, expected = target.evaluate(found.theta, target.n_samples)
    np.testing.assert_allclose(found.log_likelihood, expected, rtol=1e-9)


def test_the_same_seed_gives_the_same_bytes():
    (_, first), (_, second), (_, other) = run(0.3), run(0.3), run(0.3, seed=1)
    assert first.theta.tobytes() == second.theta.tobytes()
    assert first.theta.tobytes() != other.theta.tobytes()


def test_increments_and_totals_have_the_power():
    target = LinearRegression(n=10)
    half = LikelihoodView(target, power=0.5)
    values = np.ones((4, 2))
    assert half.n_samples == 10
    _, increments = half.advance(values, half.start(values), 2, 5)
    np.testing.assert_array_equal(increments, 0.5 * target.log_densities(values, 2, 5))
    np.testing.assert_array_equal(half.evaluate(values, 7)[1], 0.5 * target.evaluate(values, 7)[1])
