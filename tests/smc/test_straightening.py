"""Coordinates that straighten ridges, and moves along them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from smcpn.likelihood.contract import Likelihood
from smcpn.model.prior import Prior
from smcpn.smc.moves import IndependentMetropolis, MoveStrategy, RandomWalkMetropolis
from smcpn.smc.particles import Target
from smcpn.smc.resampling import systematic
from smcpn.smc.straightening import (
    AboveBound,
    Straightening,
    Unchanged,
    Warp,
    WithinBounds,
    warps_of,
)

WARPS = [
    Unchanged(),
    AboveBound(0.3),
    WithinBounds(1.0, 9.0, 0.4, logarithm=False),
    WithinBounds(1.0, 9.0, 0.1, logarithm=True),
    WithinBounds(-2.0, 1.0, 3e-3, logarithm=False),
]


@pytest.mark.parametrize("warp", WARPS, ids=str)
def test_a_warp_and_its_slope(warp: Warp):
    z, h = np.linspace(-8.0, 8.0, 33), 1e-5
    c, log_slope = warp.forward(z)
    np.testing.assert_allclose(warp.back(c), z, atol=1e-9)
    by_difference = (warp.forward(z + h)[0] - warp.forward(z - h)[0]) / (2 * h)
    np.testing.assert_allclose(log_slope, np.log(by_difference), atol=1e-5)


@pytest.mark.parametrize("warp", WARPS, ids=str)
def test_draws_far_out_have_a_place_and_come_back(warp: Warp):
    z = warp.back(np.array([-1e4, -40.0, 40.0, 700.0]))
    assert np.isfinite(z).all()
    assert np.isfinite(np.stack(warp.forward(z))).all()


def test_in_the_interior_the_coordinate_is_the_value_or_its_logarithm():
    x = np.linspace(3.0, 7.0, 9)
    z = np.log(x - 1.0) - np.log(9.0 - x)
    for logarithm, expected in ((False, x), (True, np.log(x))):
        c, _ = WithinBounds(1.0, 9.0, 0.02, logarithm).forward(z)
        np.testing.assert_allclose(c, expected, atol=1e-9)


PRODUCT = Prior({"a": stats.uniform(0.1, 1.9), "b": stats.uniform(0.1, 1.9)})
SUM = Prior({"a": stats.lognorm(1.0), "b": stats.lognorm(1.0)})


def on_a_ridge(prior: Prior, rng: np.random.Generator) -> np.ndarray:
    """Particles whose product is one, or whose sum is two, to a hundredth."""
    along, across = rng.normal(0.0, 1.0, 2000), rng.normal(0.0, 0.01, 2000)
    if prior is PRODUCT:
        values = np.exp(np.stack([0.15 * along, across - 0.15 * along], axis=1))
    else:
        share = 0.3 * along
        values = np.stack([1.0 + share, 1.0 - share + across], axis=1)
    return prior.unconstrained(values[(values > 0.1).all(axis=1)])


@pytest.mark.parametrize(("prior", "number"), [(PRODUCT, 2), (SUM, 1)], ids=["product", "sum"])
def test_a_ridge_is_straight_in_what_it_is_made_of(prior: Prior, number: int):
    theta = on_a_ridge(prior, np.random.default_rng(0))
    equal = np.full(len(theta), 1.0 / len(theta))
    straight = Straightening.fit(prior, theta, equal)
    for j, warp in enumerate(straight.warps):
        assert warp == warps_of(prior.maps[j], theta[:, j], equal)[number]
    spreads = [
        np.sqrt(np.linalg.eigvalsh(np.cov(place.T))[0] / np.trace(np.cov(place.T)))
        for place in (theta, straight.forward(theta)[0])
    ]
    assert spreads[1] < 0.3 * spreads[0]


class Product(Likelihood):
    """A likelihood that tells the product of a and b: its logarithm is 0 +- .05."""

    n_samples = 1

    def start(self, values):
        return np.empty((0, len(values)))

    def advance(self, values, state, a, b, *keys):
        return state, -0.5 * np.square(np.log(values).sum(axis=1) / 0.05)[None]

    @staticmethod
    def draws(rng: np.random.Generator, size: int) -> np.ndarray:
        """Exact ones: with w = log(a b), a and b uniform, the density of (a, w) has e^w / a."""
        a = 0.1 * 20.0 ** rng.random(3 * size)
        b = np.exp(0.05**2 + 0.05 * rng.normal(size=3 * size)) / a
        return np.stack([a, b], axis=1)[(b > 0.1) & (b < 2.0)][:size]


@pytest.mark.parametrize(
    "moves",
    [IndependentMetropolis(), pytest.param(RandomWalkMetropolis(), marks=pytest.mark.nightly)],
    ids=lambda moves: moves.name,
)
def test_exact_draws_of_a_ridge_stay_exact(moves: MoveStrategy):
    """Of twenty rejuvenations the last ten; at least 400 independent draws each time."""
    rng, likelihood = np.random.default_rng(0), Product()
    values = Product.draws(rng, 4000)
    assert len(values) == 4000
    quantiles = np.quantile(Product.draws(np.random.default_rng(1), 400_000), (0.05, 0.5), axis=0)
    target = Target(PRODUCT, likelihood, 0, 1.0)
    system, below, previous = target.particles(PRODUCT.unconstrained(values)), [], None
    for _ in range(20):
        system = replace(system, log_weights=0.3 * rng.normal(size=4000))
        system, previous = moves.rejuvenate(system, target, rng, systematic, previous)
        below.append((PRODUCT.natural(system.theta)[None] < quantiles[:, None]).mean(axis=1))
    straight = Straightening.fit(PRODUCT, system.theta, system.weights)
    assert all(isinstance(warp, WithinBounds) for warp in straight.warps)
    expected = np.array([0.05, 0.5])[:, None]
    error = np.sqrt(expected * (1.0 - expected) / 400)
    assert (np.abs(np.mean(below[10:], axis=0) - expected) < 5 * error).all()


def test_moves_go_on_while_they_widen_the_population():
    """Particles of a third of the ridge's length, of equal weight, reach all of it."""
    rng, likelihood = np.random.default_rng(0), Product()
    values = Product.draws(rng, 4000)
    target = Target(PRODUCT, likelihood, 0, 1.0)
    theta = PRODUCT.unconstrained(values[(values[:, 0] > 0.8) & (values[:, 0] < 1.25)])
    moved, _ = IndependentMetropolis().rejuvenate(
        target.particles(theta), target, rng, systematic, None
    )
    found = np.log(PRODUCT.natural(moved.theta)).std(axis=0)
    assert (found > 0.9 * np.log(values).std(axis=0)).all()


def test_a_gaussian_keeps_its_own_coordinates():
    rng = np.random.default_rng(0)
    prior = Prior({"a": stats.lognorm(0.5), "b": stats.norm(), "c": stats.lognorm(0.5)})
    theta = prior.sample(rng, 1000)
    straight = Straightening.fit(prior, theta, np.full(1000, 1e-3))
    assert straight == Straightening.none(3)


def test_particles_at_infinity_keep_their_own_coordinates():
    theta = np.array([[0.0, 0.0], [1.0, 800.0], [0.5, 0.3], [0.2, 0.1]])
    straight = Straightening.fit(SUM, theta, np.full(4, 0.25))
    assert straight.warps[1] == Unchanged()
