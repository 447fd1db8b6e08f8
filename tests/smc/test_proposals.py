from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from smcpn.smc.proposals import COMPONENTS, DEFENCE, DEGREES, DefensiveGaussian, StudentMixture

PROPOSALS = [DefensiveGaussian, StudentMixture]


def two_modes(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    side = np.where(rng.random(n) < 0.3, -5.0, 5.0)
    return np.column_stack([side + rng.normal(size=n), 0.3 * rng.normal(size=n)])


def uniform(n: int) -> np.ndarray:
    return np.full(n, 1.0 / n)


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_density_integrates_to_one_over_another_law(proposal):
    """E_t[q / t] = 1 for draws of a wide t; the tolerance is 5 standard errors."""
    fitted = proposal.fit(two_modes(2000), uniform(2000))
    wide = stats.multivariate_t(np.zeros(2), np.diag([40.0, 1.0]), df=3, seed=1)
    points = wide.rvs(200_000)
    ratio = np.exp(fitted.log_density(points) - wide.logpdf(points))
    assert abs(ratio.mean() - 1.0) < 5 * ratio.std() / np.sqrt(len(ratio))


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_density_is_that_of_the_draws(proposal):
    """Shares of draws in boxes against the density integrated there by importance sampling."""
    fitted = proposal.fit(two_modes(2000), uniform(2000))
    drawn = fitted.sample(np.random.default_rng(2), 100_000)
    wide = stats.multivariate_t(np.zeros(2), np.diag([40.0, 1.0]), df=3, seed=3)
    points = wide.rvs(200_000)
    ratio = np.exp(fitted.log_density(points) - wide.logpdf(points))
    for low, high in ((-6, -4), (-2, 2), (4, 6), (6, 20)):
        share = ((drawn[:, 0] > low) & (drawn[:, 0] < high)).mean()
        inside = ratio * ((points[:, 0] > low) & (points[:, 0] < high))
        error = np.hypot(np.sqrt(share / len(drawn)), inside.std() / np.sqrt(len(points)))
        assert abs(share - inside.mean()) < 5 * error


def test_mixture_density_is_the_textbook_one():
    fitted = StudentMixture.fit(two_modes(1000), uniform(1000))
    points = two_modes(50, seed=9)
    parts = [
        np.exp(share) * stats.multivariate_t(mean, factor @ factor.T, df=DEGREES).pdf(points)
        for share, mean, factor in zip(fitted.log_shares, fitted.means, fitted.factors, strict=True)
    ]
    np.testing.assert_allclose(fitted.log_density(points), np.log(np.sum(parts, axis=0)), rtol=1e-9)
    assert np.exp(fitted.log_shares).sum() == pytest.approx(1.0)
    assert np.exp(fitted.log_shares[-1]) == pytest.approx(DEFENCE)


def test_mixture_finds_modes_and_their_shares():
    """Shares of 4000 draws: 5 standard errors of a binomial; no component between the modes."""
    theta = two_modes(4000)
    fitted = StudentMixture.fit(theta, uniform(4000))
    shares, means = np.exp(fitted.log_shares[:-1]) / (1 - DEFENCE), fitted.means[:-1]
    left = means[:, 0] < 0
    observed = (theta[:, 0] < 0).mean()
    assert shares[left].sum() == pytest.approx(observed, abs=5 * np.sqrt(0.21 / 4000))
    assert (np.abs(np.abs(means[:, 0]) - 5.0) < 2.0).all()


def test_mixture_counts_weights():
    """Weights that undo 0.3 : 0.7 give the modes equal shares."""
    theta = two_modes(4000)
    weights = np.where(theta[:, 0] < 0, 0.5 / 0.3, 0.5 / 0.7)
    fitted = StudentMixture.fit(theta, weights / weights.sum())
    shares = np.exp(fitted.log_shares[:-1]) / (1 - DEFENCE)
    expected = (weights * (theta[:, 0] < 0)).sum() / weights.sum()
    assert shares[fitted.means[:-1, 0] < 0].sum() == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_fit_does_not_see_scales(proposal, scale):
    theta = two_modes(1000)
    here = proposal.fit(theta, uniform(1000)).log_density(theta[:50])
    there = proposal.fit(theta * [scale, 1.0], uniform(1000))
    moved = there.log_density(theta[:50] * [scale, 1.0]) + np.log(scale)
    np.testing.assert_allclose(moved, here, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_fit_to_a_single_surviving_particle_and_to_a_line(proposal):
    theta = two_modes(100)
    one = proposal.fit(theta, np.eye(100)[7])
    assert np.isfinite(one.log_density(theta[7:8])).all()
    theta[:, 1] = theta[:, 0]
    line = proposal.fit(theta, uniform(100))
    assert np.isfinite(line.log_density(line.sample(np.random.default_rng(0), 10))).all()


def test_fit_is_a_function_of_its_arguments():
    theta = two_modes(500)
    first, second = (StudentMixture.fit(theta, uniform(500)) for _ in range(2))
    assert first.means.tobytes() == second.means.tobytes()
    assert len(first.means) <= COMPONENTS + 1


def test_correlations_are_shrunk_where_few_particles_carry_the_weight():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    theta = np.column_stack([x, x + 0.1 * rng.normal(size=1000)])
    few = np.zeros(1000)
    few[:5] = 0.2
    full = DefensiveGaussian.fit(theta, uniform(1000)).factor
    shrunk = DefensiveGaussian.fit(theta, few).factor

    def correlation(factor):
        covariance = factor @ factor.T
        return covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])

    assert correlation(full) > 0.99
    # 5 effective particles of the 20 that two dimensions ask for.
    assert abs(correlation(shrunk)) < 0.26


@pytest.mark.parametrize("kind", PROPOSALS)
@pytest.mark.parametrize("seed", range(10))
def test_copies_of_few_particles_have_a_density(kind, seed):
    """As chaotic records leave them: a handful of places, far nearer in some coordinates."""
    rng = np.random.default_rng(seed)
    d, k, n = rng.integers(2, 7), rng.integers(1, 6), rng.integers(20, 200)
    apart = 10.0 ** -rng.choice([0.0, 3.0, 8.0, 13.0, 300.0], size=d)
    places = rng.normal(size=d) + apart * rng.normal(size=(k, d))
    theta = np.repeat(places, rng.multinomial(n, rng.dirichlet(np.full(k, 0.3))), axis=0)
    with np.errstate(all="raise", under="ignore"):
        density = kind.fit(theta, np.full(n, 1.0 / n))
        assert np.isfinite(density.log_density(theta)).all()
        assert not np.isnan(density.log_density(1.1 * places)).any()
