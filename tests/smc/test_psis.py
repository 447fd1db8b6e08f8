"""The shape of a tail of importance weights against known shapes and a plain reference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from smcpn.smc.evidence import k_error, largest_k, pareto_k


def plain(log_weights: np.ndarray) -> float:
    """The estimate of Zhang and Stephens (2009) as the paper writes it, one scale at a time."""
    n = len(log_weights)
    m = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    ordered = np.sort(np.exp(log_weights - log_weights.max()))
    x = ordered[n - m :] - ordered[n - m - 1]
    quartile = x[int(m / 4 + 0.5) - 1]
    count = 30 + int(np.sqrt(m))
    theta = [
        1 / x[-1] + (1 - np.sqrt(count / (j - 0.5))) / (3 * quartile) for j in range(1, count + 1)
    ]
    level = []
    for b in theta:
        k = -np.mean(np.log(1 - b * x))
        level.append(m * (np.log(b / k) + k - 1))
    share = [1 / sum(np.exp(other - own) for other in level) for own in level]
    b = sum(t * w for t, w in zip(theta, share, strict=True))
    k = np.mean(np.log(1 - b * x))
    return (m * k + 10 * 0.5) / (m + 10)


@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.9])
def test_plain_reference(n, shape):
    log_weights = np.log(stats.genpareto(shape).rvs(n, random_state=3))
    assert pareto_k(log_weights) == pytest.approx(plain(log_weights), rel=1e-9)
    assert pareto_k(log_weights + 1e4) == pytest.approx(plain(log_weights), rel=1e-9)


@pytest.mark.parametrize("shape", [0.1, 0.5, 1.0, 2.0])
def test_shape_of_pareto_weights(shape):
    """Mean of 100 samples of 4000; asymptotic sd (1 + k) / sqrt(tail), prior of ten of 190."""
    found = [
        pareto_k(np.log(stats.genpareto(shape).rvs(4000, random_state=seed))) for seed in range(100)
    ]
    drawn = (190 * shape + 10 * 0.5) / 200
    assert abs(np.mean(found) - drawn) < 0.05
    assert 0.5 < np.std(found) / ((1 + shape) / np.sqrt(190)) < 1.5


def test_gaussian_proposals_of_two_widths():
    """Proposal sd s < 1: the weights have the shape 1 - s^2; wider ones are bounded."""
    rng = np.random.default_rng(0)
    for width, low, high in ((0.5, 0.6, 0.95), (1.5, -2.0, 0.3)):
        x = width * rng.standard_normal(20_000)
        log_weights = stats.norm.logpdf(x) - stats.norm.logpdf(x, scale=width)
        assert low < pareto_k(log_weights) < high


def test_degenerate_weights():
    rng = np.random.default_rng(0)
    few = np.full(1000, -np.inf)
    few[:20] = rng.standard_normal(20)
    assert pareto_k(few) == np.inf
    assert pareto_k(np.full(1000, -np.inf)) == np.inf
    assert pareto_k(np.zeros(1000)) == -np.inf
    one = rng.standard_normal(1000)
    one[0] = 300.0
    assert pareto_k(one) > largest_k(1000)


def test_what_few_draws_can_bear():
    assert largest_k(100) == pytest.approx(0.5)
    assert largest_k(10**6) == 0.7


@pytest.mark.parametrize("shape", [0.3, 0.6])
def test_the_error_of_the_shape(shape):
    """Over 300 samples of a Pareto tail: the spread of k, within a quarter of what is stated."""
    rng = np.random.default_rng(7)
    found = [pareto_k(-shape * np.log(rng.random(1000))) for _ in range(300)]
    assert np.std(found) == pytest.approx(k_error(shape, 1000), rel=0.25)
