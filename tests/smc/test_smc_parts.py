from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

from smcpn.smc.particles import accumulated, effective_sample_size, log_mean_exp, normalise
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.resampling import systematic
from smcpn.smc.sampler import next_exponent

LOG_WEIGHTS = hnp.arrays(
    float, st.integers(1, 50), elements=st.one_of(st.floats(-800, 800), st.just(-np.inf))
)


@given(log_weights=LOG_WEIGHTS)
def test_weights(log_weights):
    weights = normalise(log_weights)
    alive = np.isfinite(log_weights).any()
    assert weights.sum() == pytest.approx(1.0 if alive else 0.0)
    ess = float(effective_sample_size(log_weights))
    assert ess == pytest.approx(1 / np.square(weights).sum() if alive else 0.0)
    shifted = float(log_mean_exp(log_weights + 5.0))
    assert shifted == pytest.approx(float(log_mean_exp(log_weights)) + 5.0) or not alive


@pytest.mark.parametrize("n", [0, 1, 64])
def test_log_weights_add_up_in_the_order_of_time(n):
    rng = np.random.default_rng(n)
    begin, increments = rng.normal(size=30), rng.normal(size=(n, 30)) * 10.0 ** rng.integers(-8, 8)
    begin[3] = -np.inf
    together = accumulated(begin, increments)
    np.testing.assert_array_equal(together, np.add.accumulate(np.vstack([begin, increments])))
    # In two blocks they round alike.
    half = accumulated(begin, increments[: n // 2])
    rest = accumulated(half[-1], increments[n // 2 :])
    np.testing.assert_array_equal(together, np.vstack([half, rest[1:]]))


@given(log_weights=LOG_WEIGHTS, seed=st.integers(0, 1000), size=st.integers(1, 80))
@settings(max_examples=200)
def test_systematic_resampling(log_weights, seed, size):
    if not np.isfinite(log_weights).any():
        return
    weights = normalise(log_weights)
    index = systematic(weights, np.random.default_rng(seed), size)
    counts = np.bincount(index, minlength=len(weights))
    assert counts.sum() == size
    assert (np.abs(counts - size * weights) < 1 + 1e-9).all()
    assert (counts[weights == 0] == 0).all()


def test_systematic_with_a_cumulative_sum_below_one():
    class Almost:
        def random(self):
            return 1 - 1e-16

    weights = np.array([0.1] * 10 + [0.0])
    assert systematic(weights, Almost()).max() == 9  # type: ignore[arg-type]
    assert (systematic(np.eye(5)[2], np.random.default_rng(0)) == 2).all()


def test_systematic_is_unbiased():
    weights = np.array([0.05, 0.15, 0.3, 0.5])
    rng = np.random.default_rng(0)
    counts = sum(np.bincount(systematic(weights, rng, 7), minlength=4) for _ in range(20_000))
    np.testing.assert_allclose(counts / 140_000, weights, atol=5 * 0.5 / np.sqrt(20_000) / 7)


def test_proposal_density_is_that_of_its_draws():
    proposal = DefensiveGaussian(np.array([1.0]), np.array([[2.0]]))
    z = np.linspace(-400, 400, 400_001)
    density = np.exp(proposal.log_density(z[:, None]))
    assert integrate.trapezoid(density, z) == pytest.approx(1.0, abs=1e-6)
    cdf = integrate.cumulative_trapezoid(density, z, initial=0)
    draws = proposal.sample(np.random.default_rng(0), 4000)[:, 0]
    assert stats.kstest(draws, lambda x: np.interp(x, z, cdf)).pvalue > 1e-3


def test_proposal_density_in_several_dimensions():
    rng = np.random.default_rng(0)
    factor = np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    proposal = DefensiveGaussian(np.arange(3.0), factor)
    theta = rng.normal(size=(5, 3))
    normal = stats.multivariate_normal.pdf(theta, np.arange(3.0), factor @ factor.T)
    student = stats.multivariate_t(np.arange(3.0), factor @ factor.T, df=5).pdf(theta)
    np.testing.assert_allclose(
        proposal.log_density(theta), np.log(0.8 * normal + 0.2 * student), rtol=1e-10
    )


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_proposal_fit_at_any_scale(scale):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(2000, 2)) * [scale, 1.0] + [5 * scale, 0.0]
    proposal = DefensiveGaussian.fit(theta, np.full(2000, 1 / 2000))
    np.testing.assert_allclose(
        proposal.factor @ proposal.factor.T, np.cov(theta.T, ddof=0), rtol=1e-6
    )


def test_proposal_fit_on_one_particle_and_on_a_line():
    theta = np.random.default_rng(0).normal(size=(100, 3))
    one = DefensiveGaussian.fit(theta, np.eye(100)[7])
    assert np.isfinite(one.factor).all()
    theta[:, 2] = theta[:, 0] + theta[:, 1]
    line = DefensiveGaussian.fit(theta, np.full(100, 0.01))
    assert np.isfinite(line.log_density(line.sample(np.random.default_rng(0), 10))).all()


def test_next_exponent_keeps_the_ess():
    rng = np.random.default_rng(0)
    log_increment = -1000 * rng.normal(size=500) ** 2
    exponent, log_weights = next_exponent(np.zeros(500), log_increment, 0.0, 250.0)
    assert 0 < exponent < 1
    assert float(effective_sample_size(log_weights)) == pytest.approx(250.0, rel=1e-6)
    assert next_exponent(np.zeros(500), 0.1 * rng.normal(size=500), 0.0, 250.0)[0] == 1.0


def test_next_exponent_gets_on_whatever_the_scale():
    rng = np.random.default_rng(0)
    exponent, _ = next_exponent(np.zeros(100), -1e30 * rng.uniform(size=100), 0.0, 50.0)
    assert exponent > 0
    excluded = np.where(np.arange(100) < 80, -np.inf, 0.0)
    exponent, log_weights = next_exponent(np.zeros(100), excluded, 0.0, 50.0)
    assert exponent == 0.0
    assert np.isfinite(log_weights).sum() == 20
