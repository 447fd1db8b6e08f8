"""Scores of supports against dense formulas and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.special import comb, logsumexp

from smcpn.discovery.search.regression import BetaBinomial, SpikeAndSlab
from smcpn.discovery.search.selection import best_support, most_probable, sampled_inclusion

GROUPS = np.array([1, 1, 1, 2, 2, 2, 2])
SLABS = (1.0, 10.0)


def data(seed=0, m=40):
    """Residuals at theta0, columns and theta0; columns 0 and 1 nearly the same."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(m, 7))
    columns[:, 1] = columns[:, 0] + 0.2 * rng.normal(size=m)
    y = columns @ [1.0, 0.0, 0.0, 0.4, 0.0, 0.0, -0.3] + rng.normal(size=m)
    theta0 = rng.normal(size=7)
    return columns @ theta0 - y, columns, theta0


def regression(seed=0, signs=None):
    r, columns, theta0 = data(seed)
    return SpikeAndSlab(r, columns, theta0, len(r), BetaBinomial(GROUPS), SLABS, signs=signs)


def dense_score(support, seed=0):
    """Log of the marginal likelihood with the prior 1/s^2 of the variance, and the prior."""
    r, columns, theta0 = data(seed)
    y, part = columns @ theta0 - r, columns[:, support]
    scores = []
    for c in SLABS:
        covariance = np.eye(len(y)) + c**2 * part @ part.T
        square = y @ np.linalg.solve(covariance, y)
        scores.append(-0.5 * len(y) * np.log(square) - 0.5 * np.linalg.slogdet(covariance)[1])
    prior = 0.0
    for group in (1, 2):
        size, count = np.sum(group == GROUPS), np.sum(support & (group == GROUPS))
        of_count = stats.betabinom(size, 1.0, max(size * group * (group - 1.0), 1.0)).logpmf(count)
        prior += of_count - np.log(comb(size, count))
    return logsumexp(scores) - np.log(len(SLABS)) + prior


ALL = [np.array(bits, dtype=bool) for bits in product([0, 1], repeat=7)]


def test_score_is_that_of_dense_covariances():
    found = regression()
    for support in ALL[::5]:
        assert found.score(support) == pytest.approx(dense_score(support), abs=1e-9)


@pytest.mark.parametrize("signs", [None, np.array([1, -1, 0, 1, -1, 1, 0])])
def test_flips_are_differences_of_scores(signs):
    found = regression(signs=signs)
    for support in ALL[3::17]:
        here = found.neighbourhood(support)
        for k in range(7):
            other = support.copy()
            other[k] = not other[k]
            assert here.flips[k] == pytest.approx(found.score(other) - here.score, abs=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sign_is_the_half_of_the_slab(sign):
    """Evidence of one coefficient against its integral over the half line."""
    r, columns, theta0 = data()
    y, f = columns @ theta0 - r, columns[:, 3]
    theta = np.linspace(0.0, 3.0, 30_001)
    support, signs = np.arange(7) == 3, sign * (np.arange(7) == 3)

    def integral(theta):
        square = y @ y - 2 * theta * (f @ y) + theta**2 * (f @ f)
        logs = [-0.5 * (len(y) + 1) * np.log(square + theta**2 / c**2) - np.log(c) for c in SLABS]
        return logsumexp(logs)

    own, other = integral(sign * theta), integral(-sign * theta)
    change = regression(signs=signs).score(support) - regression().score(support)
    # The posterior is Student's, with 40 degrees of freedom, and not normal.
    off = 0.05 if own > other else 0.8
    assert change == pytest.approx(np.log(2.0) + own - np.logaddexp(own, other), abs=off)


def test_prior_is_a_distribution():
    prior = BetaBinomial(GROUPS)
    assert logsumexp([prior.log_probability(support) for support in ALL]) == pytest.approx(0.0)


def test_a_column_that_others_make_up_is_refused():
    r, columns, theta0 = data()
    columns[:, 1] = 2.0 * columns[:, 0]
    found = SpikeAndSlab(r, columns, theta0, len(r), BetaBinomial(GROUPS), (1e8,))
    support = np.array([True, *[False] * 6])
    assert found.neighbourhood(support).flips[1] == -np.inf


def test_moments_are_of_the_mixture_over_slabs():
    r, columns, theta0 = data()
    y, support = columns @ theta0 - r, np.array([1, 0, 0, 1, 0, 0, 0], dtype=bool)
    part, means, spreads, logs = columns[:, support], [], [], []
    for c in SLABS:
        inverse = np.linalg.inv(part.T @ part + np.eye(2) / c**2)
        mean = inverse @ part.T @ y
        square = y @ y - y @ part @ mean
        means.append(mean)
        spreads.append(inverse * square / len(y))
        volume = np.linalg.slogdet(np.eye(2) + c**2 * part.T @ part)[1]
        logs.append(-0.5 * len(y) * np.log(square) - 0.5 * volume)
    w = np.exp(np.array(logs) - logsumexp(logs))
    mean = w @ np.array(means)
    second = sum(a * (s + np.outer(mu, mu)) for a, s, mu in zip(w, spreads, means, strict=True))
    found_mean, found_covariance = regression().moments(support)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found_covariance, second - np.outer(mean, mean), rtol=1e-7)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_search_finds_the_best_of_all(seed):
    found = regression(seed)
    best = max(ALL, key=found.score)
    start = np.zeros(7, dtype=bool)
    assert found.score(best_support(regression(seed), start)) == pytest.approx(found.score(best))


def test_inclusion_is_that_of_enumeration():
    found = regression()
    scores = np.array([dense_score(support) for support in ALL])
    exact = np.exp(scores - logsumexp(scores)) @ np.array(ALL)
    runs = [
        sampled_inclusion(regression(), np.zeros(7, dtype=bool), 300, np.random.default_rng(k))
        for k in range(5)
    ]
    # Standard errors from 5 chains, below .02; 6 of them, and .002 for what they are off.
    error = np.std(runs, axis=0, ddof=1) / np.sqrt(5)
    assert error.max() < 0.03
    assert np.all(np.abs(np.mean(runs, axis=0) - exact) < 6 * error + 0.003)
    sampled_inclusion(found, np.zeros(7, dtype=bool), 200, np.random.default_rng(0))
    listed = most_probable(found, 5)
    np.testing.assert_allclose([s for s, _ in listed], np.sort(scores)[::-1][:5], atol=1e-9)
