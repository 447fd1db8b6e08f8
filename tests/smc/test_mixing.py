"""The share that independent moves leave, and proposals fitted to other particles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from smcpn.smc.proposals import CrossFitted, DefensiveGaussian, StudentMixture, folds
from smcpn.smc.rejuvenation import unmoved_share


def slow_unmoved_share(log_ratio, moves):
    """Every proposal against every other."""
    ratio = np.exp(log_ratio)
    leaves = np.minimum(1.0, ratio[None, :] / ratio[:, None]).mean(axis=1)
    return ratio @ (1.0 - leaves) ** moves / ratio.sum()


@pytest.mark.parametrize("moves", [1, 3, 10])
def test_unmoved_share_is_that_of_the_double_sum(moves):
    log_ratio = np.random.default_rng(0).normal(size=200)
    assert unmoved_share(log_ratio, moves) == pytest.approx(slow_unmoved_share(log_ratio, moves))
    shifted = unmoved_share(log_ratio - 1e5, moves)
    assert shifted == pytest.approx(unmoved_share(log_ratio, moves))


def test_unmoved_share_of_excluded_and_equal_proposals():
    assert unmoved_share(np.full(5, -np.inf), 3) == 1.0
    assert unmoved_share(np.zeros(5), 1) == 0.0
    half = np.where(np.arange(100) % 2, 0.0, -np.inf)
    assert unmoved_share(half, 3) == pytest.approx(0.125)


def test_a_tail_that_proposals_miss_counts_although_the_mean_acceptance_is_high():
    """Target N(0, 1) and a tenth N(6, 1), where one proposal of 500 goes: .08 is left.

    By the mean acceptance it would be 1e-8. With a tenth of the proposals next to nothing is left.
    """
    rng = np.random.default_rng(1)

    def left(share):
        x = np.where(rng.random(4000) < share, rng.normal(6, 1, 4000), rng.normal(0, 1.2, 4000))
        target = 0.9 * stats.norm.pdf(x) + 0.1 * stats.norm.pdf(x, 6)
        q = (1 - share) * stats.norm.pdf(x, scale=1.2) + share * stats.norm.pdf(x, 6)
        return unmoved_share(np.log(target / q), 10)

    assert left(0.002) > 0.02
    assert left(0.1) < 0.001


@pytest.mark.parametrize("kind", [DefensiveGaussian, StudentMixture])
def test_a_fold_is_moved_by_the_fit_to_the_others(kind):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(120, 2))
    theta[60:] += 50.0
    fold = folds(120, 1)
    assert (fold == np.repeat([0, 1], 60)).all()
    fitted = CrossFitted.fit(kind, theta, np.full(120, 1 / 120), fold, fold)
    drawn = fitted.sample(rng, 240)
    from_others = np.median(drawn.reshape(2, 2, 60, 2), axis=(0, 2, 3))
    np.testing.assert_allclose(from_others, [50.0, 0.0], atol=2.0)
    pairs = zip(np.tile(fold, 2), drawn, strict=True)
    expected = [fitted.densities[k].log_density(point[None])[0] for k, point in pairs]
    np.testing.assert_allclose(fitted.log_density(drawn), expected)


def test_all_weight_in_one_fold_is_fitted_to_for_all():
    theta = np.random.default_rng(0).normal(size=(40, 1))
    weights = np.where(np.arange(40) < 10, 0.1, 0.0)
    fold = folds(40, 1)
    fitted = CrossFitted.fit(DefensiveGaussian, theta, weights, fold, fold)
    for density in fitted.densities:
        np.testing.assert_allclose(density.mean, weights @ theta)
    assert len(fitted.densities) == 4
