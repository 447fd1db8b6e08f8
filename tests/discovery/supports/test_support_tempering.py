"""Sampling of supports against linear regressions whose posterior is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from smcpn.discovery.search.regression import BetaBinomial
from smcpn.discovery.supports.moves import Path, independent, jumped, walked
from smcpn.discovery.supports.proposal import Gaussian, active, by_support, flattened, restricted
from smcpn.discovery.supports.spike_and_slab import SpikeAndSlabPrior
from smcpn.discovery.supports.tempering import sampled
from tests.discovery.linear import LinearTarget, linear_target

pytestmark = pytest.mark.numerics

TRUE = np.array([True, False, True, False])
NONE = np.zeros(4, dtype=bool)


def prior(**given):
    defaults = {
        "supports": BetaBinomial(np.zeros(3, dtype=int)), "columns": np.array([0, 2]),
        "n_terms": 3, "scale": np.array([1.0, 2.0]), "slabs": (1.0, 3.0),
        "signs": np.zeros(2, dtype=int), "centre": np.array([0.5]), "spread": np.array([2.0]),
    }  # fmt: skip
    return SpikeAndSlabPrior(**(defaults | given))


def test_prior_is_a_density_of_supports_and_coordinates():
    one = prior(centre=np.zeros(0), spread=np.zeros(0))
    none, first, both = np.array([[False, False], [True, False], [True, True]])

    def density(b, mask=first):
        z = np.array([[b, 0.0]])
        return float(np.exp(one.log_density(mask[None], z)[0]))

    mass = integrate.quad(density, -40.0, 40.0, points=[0.0], limit=200)[0]
    # Of three terms, one of which has no coordinate.
    alone = one.supports.log_probability(np.array([True, False, False]))
    assert mass == pytest.approx(np.exp(alone), rel=1e-6)
    nothing = one.supports.log_probability(np.zeros(3, dtype=bool))
    assert density(0.0, none) == pytest.approx(np.exp(nothing))
    z = np.array([[0.3, -1.0]])
    plain = np.mean([
        stats.norm.pdf(0.3, scale=c) * stats.norm.pdf(-1.0, scale=2.0 * c) for c in (1.0, 3.0)
    ])  # fmt: skip
    assert one.log_slab(both[None], z)[0] == pytest.approx(np.log(plain))


def test_a_sign_halves_the_slab():
    one, signed = prior(), prior(signs=np.array([-1, 0]))
    masks, z = np.array([[True, True]] * 2), np.array([[-0.5, 1.0, 0.0], [0.5, 1.0, 0.0]])
    change = signed.log_density(masks, z) - one.log_density(masks, z)
    assert change[0] == pytest.approx(np.log(2.0))
    assert change[1] == -np.inf


def test_derivatives_of_the_prior_are_those_of_differences():
    one, masks, z = prior(slabs=(2.0,)), np.array([[True, True]]), np.array([[0.4, -1.3, 0.9]])
    pull, precision = one.curvature(masks, z)
    h = 1e-4
    for j in range(3):
        at = [one.log_density(masks, z + k * h * np.eye(3)[j])[0] for k in (-1, 0, 1)]
        assert pull[0, j] == pytest.approx((at[2] - at[0]) / (2.0 * h), rel=1e-5)
        assert precision[0, j] == pytest.approx(-(at[0] - 2 * at[1] + at[2]) / h**2, rel=1e-4)


def test_gaussian_of_a_precision():
    root = np.random.default_rng(0).normal(size=(4, 4))
    precision = root @ root.T * np.outer(*[[1.0, 1e4, 1e-3, 1.0]] * 2)
    factor = Gaussian.at(np.zeros(4), precision).factor
    np.testing.assert_array_equal(factor, np.tril(factor))
    np.testing.assert_allclose(factor.T @ precision @ factor, np.eye(4), atol=1e-9)


@pytest.mark.parametrize("mask", linear_target().masks[[0, 3, 5, 15]], ids=str)
def test_a_quadratic_gives_every_support_its_gaussian_and_evidence(mask):
    target = linear_target()
    at = target.expanded(TRUE, np.append([0.6, 0.0, 0.4, 0.0], [0.1, 0.2]))
    gaussian, value = restricted(at, mask)
    score, mean, covariance = target.moments(mask)
    z = np.zeros(6)
    z[active(mask, 6)] = gaussian.mean
    np.testing.assert_allclose(gaussian.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(gaussian.factor @ gaussian.factor.T, covariance, rtol=1e-9)
    assert value + target.prior.log_density(mask[None], z[None])[0] == pytest.approx(score)


def test_density_of_a_proposal_is_that_of_its_draws():
    target = linear_target()
    proposal = target.proposal(TRUE)
    rng = np.random.default_rng(1)
    masks, z = proposal.sample(rng, 4000)
    # The mean of another density over this one is one.
    other = linear_target(seed=3).proposal(TRUE)
    ratio = np.exp(other.log_density(masks, z) - proposal.log_density(masks, z))
    for _, rows in by_support(masks):
        assert len(rows) < 4000
    share = (masks == TRUE).all(axis=1).mean()
    assert share == pytest.approx(np.exp(proposal.log_probability(TRUE)), abs=0.01)
    inside = (masks == TRUE).all(axis=1)
    mean = np.where(inside, ratio, 0.0).mean()
    expected = np.exp(other.log_probability(TRUE))
    assert abs(mean - expected) < 5 * np.where(inside, ratio, 0.0).std() / np.sqrt(4000)


@pytest.mark.parametrize("move", ["jumped", "independent", "walked"])
def test_moves_leave_the_posterior_as_it_is(move):
    """Exact draws are moved, and are exact draws still; 4000 have standard errors below .008."""
    target = linear_target(strength=0.35)
    rng = np.random.default_rng(2)
    masks, z = target.draws(rng, 4000)
    proposal = target.near()
    path = Path(proposal, target, exponent=1.0)
    cloud = path.cloud(masks, z)
    for _ in range(3):
        if move == "walked":
            cloud, rate = walked(path, cloud, proposal.gaussians, rng)
        else:
            cloud, rate = {"jumped": jumped, "independent": independent}[move](
                path, cloud, proposal, rng
            )
    assert rate > 0.1
    assert move == "walked" or np.any(cloud.masks != masks)
    np.testing.assert_allclose(cloud.masks.mean(axis=0), target.inclusion, atol=0.032)
    for k, mask in enumerate(target.masks):
        own = (cloud.masks == mask).all(axis=1)
        if own.sum() > 200:
            _, mean, covariance = target.moments(target.masks[k])
            error = np.sqrt(np.diag(covariance) / own.sum())
            there = active(mask, 6)
            assert np.all(np.abs(cloud.z[own][:, there].mean(axis=0) - mean) < 4.5 * error)
            spread = cloud.z[own][:, there].std(axis=0) / np.sqrt(np.diag(covariance))
            assert np.all(np.abs(spread - 1.0) < 4.5 / np.sqrt(2 * own.sum()))


@pytest.mark.parametrize("by_path", [False, True])
def test_inclusion_and_evidence_of_a_known_posterior(by_path):
    target = linear_target()
    start = target.proposal(TRUE) if by_path else target.near()
    found = sampled(target, start, 2000, np.random.default_rng(3))
    assert bool(found.exponents) == by_path
    weights = np.exp(found.log_weights - found.log_weights.max())
    weights /= weights.sum()
    inclusion = weights @ found.masks
    error = np.sqrt(target.inclusion * (1.0 - target.inclusion) / found.ess)
    assert np.all(np.abs(inclusion - target.inclusion) < 4 * error)
    assert found.log_evidence == pytest.approx(target.log_evidence, abs=4 / np.sqrt(found.ess))


def test_a_start_far_from_the_posterior_takes_the_path():
    target = linear_target(size=100)
    start = target.proposal(NONE, off=2.0)
    found = sampled(target, start, 800, np.random.default_rng(4))
    assert found.exponents[-1] == 1.0 > found.exponents[0]
    assert found.log_evidence == pytest.approx(target.log_evidence, abs=4 / np.sqrt(found.ess))


def test_without_data_the_prior_of_supports_comes_back():
    known = linear_target()
    target = LinearTarget(np.zeros((1, 4)), np.zeros((1, 2)), np.zeros(1))
    masks = known.masks
    found = sampled(target, target.near(), 3000, np.random.default_rng(5))
    weights = np.exp(found.log_weights - found.log_weights.max())
    shares = [weights[(found.masks == mask).all(axis=1)].sum() / weights.sum() for mask in masks]
    expected = np.exp(target.prior.log_probability(masks))
    error = np.sqrt(expected / found.ess)
    assert np.all(np.abs(np.array(shares) - expected) < 4.5 * error)
    assert found.log_evidence == pytest.approx(-0.5 * np.log(2 * np.pi), abs=4 / np.sqrt(found.ess))


def test_improbable_supports_are_given_draws():
    shares = flattened(np.array([0.999, 1e-3]))
    assert shares.sum() == pytest.approx(1.0)
    assert shares[1] > 0.01
