"""Scores of supports against dense formulas and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import solve_triangular
from scipy.special import comb, logsumexp

from smcpn.discovery.search.path_regression import orthonormal
from smcpn.discovery.search.supports import (
    BetaBinomial,
    SpikeAndSlab,
    best_support,
    flipped,
    most_probable,
    sampled_inclusion,
)

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


BASIS = np.triu(np.random.default_rng(5).normal(size=(7, 7)), 1) + np.diag(np.arange(1.0, 8.0))


def regression(seed=0, signs=None, basis=None):
    """By coordinates where there is a basis, of which the coefficients are the same."""
    r, columns, theta0 = data(seed)
    to_theta = np.eye(7) if basis is None else np.linalg.inv(basis)
    return SpikeAndSlab(
        r, columns @ to_theta, np.linalg.solve(to_theta, theta0), len(r), BetaBinomial(GROUPS),
        SLABS, signs=signs, basis=basis,
    )  # fmt: skip


def dense_score(support, seed=0, basis=None):
    """Log of the marginal likelihood with the prior 1/s^2 of the variance, and the prior."""
    r, columns, theta0 = data(seed)
    y, part = columns @ theta0 - r, columns[:, support]
    shape = np.eye(7)[:, support] if basis is None else basis[:, support]
    slab = np.linalg.inv(shape.T @ shape)
    scores = []
    for c in SLABS:
        covariance = np.eye(len(y)) + c**2 * part @ slab @ part.T
        square = y @ np.linalg.solve(covariance, y)
        scores.append(-0.5 * len(y) * np.log(square) - 0.5 * np.linalg.slogdet(covariance)[1])
    prior = 0.0
    for group in (1, 2):
        size, count = np.sum(group == GROUPS), np.sum(support & (group == GROUPS))
        of_count = stats.betabinom(size, 1.0, 1.0 + size * max(group - 1.0, 0.0)).logpmf(count)
        prior += of_count - np.log(comb(size, count))
    return logsumexp(scores) - np.log(len(SLABS)) + prior


ALL = [np.array(bits, dtype=bool) for bits in product([0, 1], repeat=7)]


@pytest.mark.parametrize("basis", [None, BASIS])
def test_score_is_that_of_dense_covariances(basis):
    found = regression(basis=basis)
    for support in ALL[::5]:
        expected = dense_score(support, basis=basis)
        assert found.score(support) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("basis", [None, BASIS])
@pytest.mark.parametrize("signs", [None, np.array([1, -1, 0, 1, -1, 1, 0])])
def test_flips_are_differences_of_scores(signs, basis):
    found = regression(signs=signs, basis=basis)
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


@pytest.mark.parametrize("basis", [None, BASIS])
def test_best_pair_is_that_of_all(basis):
    found = regression(basis=basis)
    for support in ALL[3:100:11]:
        pairs = [(i, j) for i in range(7) for j in range(i) if not (support[i] or support[j])]
        both = [flipped(flipped(support, i), j) for i, j in pairs]
        best = max(both, key=found.score)
        i, j = found.best_pair(support)
        np.testing.assert_array_equal(flipped(flipped(support, i), j), best)


def about(offset):
    """Regression on 1, x, x^2 and x^3 of x about an offset, in orthonormal coordinates."""
    rng = np.random.default_rng(1)
    x = np.linspace(-1.0, 1.0, 60)
    columns = (x + offset)[:, None] ** np.arange(4.0)
    basis = orthonormal(columns / np.sqrt(60))
    y = 2.0 * x - 0.5 * x**3 + 0.1 * rng.normal(size=60)
    s = solve_triangular(basis, 10.0 * columns.T, trans="T").T
    return SpikeAndSlab(-10.0 * y, s, np.zeros(4), 60, BetaBinomial(np.arange(4)), basis=basis)


@pytest.mark.parametrize("offset", [30.0, 1000.0])
def test_evidence_of_terms_does_not_depend_on_where_zero_is(offset):
    """Spans of the first monomials are the same about any offset; single ones are not."""
    for k in range(1, 5):
        first = np.arange(4) < k
        expected = about(0.0).neighbourhood(first).evidence
        assert about(offset).neighbourhood(first).evidence == pytest.approx(expected, abs=1e-3)


def test_terms_that_cancel_are_found_together():
    found = about(1000.0)
    assert found.neighbourhood(np.zeros(4, dtype=bool)).flips.max() < 0.0
    best = best_support(found, np.zeros(4, dtype=bool))
    np.testing.assert_array_equal(
        best, max(map(np.array, product([False, True], repeat=4)), key=found.score)
    )
    assert best.sum() >= 2


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
