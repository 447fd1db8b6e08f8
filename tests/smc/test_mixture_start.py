"""The mixture that a run may begin at: its draws follow its density, which the prior bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from smcpn import InputError
from smcpn.checkpoint.codec import plain, read_again
from smcpn.model.prior import Prior
from smcpn.smc.start import PRIOR_SHARE, MixtureStart, Modes, extreme_spreads

PRIOR = Prior({"a": stats.norm(0.0, 3.0), "b": stats.lognorm(1.0)})
MODES = Modes(
    shares=[0.8, 0.2],
    means=[[1.0, 0.0], [-2.0, 1.0]],
    factors=[[[0.1, 0.0], [0.05, 0.2]], [[0.3, 0.0], [-0.2, 0.1]]],
    searches=4,
    log_evidence=-3.0,
)
START = MixtureStart(PRIOR, MODES)
WIDE = MixtureStart(PRIOR, MODES, width=3.0)


@pytest.mark.parametrize("start", [START, WIDE])
def test_density_integrates_to_one(start):
    a, b = np.linspace(-40, 40, 1601), np.linspace(-20, 20, 801)
    grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
    total = np.exp(start.log_density(grid)).sum() * (a[1] - a[0]) * (b[1] - b[0])
    assert total == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("start", [START, WIDE])
def test_draws_follow_the_density(start):
    """Means of 20000 weights p / q, q the start, of two densities p inside; 5 standard errors."""
    theta = start.sample(np.random.default_rng(0), 20_000)
    for mean, sd in (((1.0, 0.0), 0.1), ((-2.0, 1.0), 0.2), ((4.0, -1.0), 0.5)):
        p = stats.norm(mean, sd).logpdf(theta).sum(axis=1)
        weights = np.exp(p - start.log_density(theta))
        assert abs(weights.mean() - 1.0) < 5 * weights.std() / np.sqrt(len(theta))


def test_each_component_has_its_share_of_the_draws():
    theta = START.sample(np.random.default_rng(1), 1000)
    from_modes = 0.9 * (0.9 * MODES.shares + 0.05)
    log_parts, _ = START.components(theta)
    expected = np.exp(log_parts).sum(axis=1)
    assert expected.shape == (2,)
    near = (np.linalg.norm(theta - MODES.means[1], axis=1) < 1.5).sum()
    # Ten draws of the prior and of the other component there, and as many further out.
    assert abs(near - 1000 * from_modes[1]) < 20


def test_the_prior_bounds_the_weights():
    theta = PRIOR.sample(np.random.default_rng(2), 1000)
    excess = PRIOR.log_density(theta) - START.log_density(theta)
    assert (excess <= -np.log(PRIOR_SHARE) + 1e-12).all()


@pytest.mark.parametrize("modes", [MODES, Modes.none(6)])
def test_modes_are_read_back(modes):
    again = read_again(modes)
    assert plain(again) == plain(modes)
    assert len(again) == len(modes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shares": [0.5, 0.4]}, "sum to one"),
        ({"shares": [1.5, -0.5]}, "positive"),
        ({"means": [[1.0, 0.0]]}, "give K shares"),
        ({"means": [[1.0, np.nan], [0.0, 0.0]]}, "finite"),
        ({"factors": np.zeros((2, 2, 2))}, "positive diagonal"),
    ],
)
def test_what_is_no_mixture_is_refused(changes, words):
    with pytest.raises(InputError, match=words):
        Modes(**{**vars(MODES), **changes})


def drawn_about(mode: int, scales: tuple[float, float], size: int) -> np.ndarray:
    normal = np.random.default_rng(5).standard_normal((size, 2)) * scales
    return MODES.means[mode] + normal @ MODES.factors[mode].T


def test_a_wide_start_has_wider_components():
    wider = Modes(MODES.shares, MODES.means, 3.0 * MODES.factors, 4, -3.0)
    theta = START.sample(np.random.default_rng(3), 100)
    for start in (WIDE, MixtureStart(PRIOR, wider)):
        np.testing.assert_allclose(start.log_density(theta), WIDE.log_density(theta), rtol=1e-12)
        np.testing.assert_allclose(start.gradient(theta), WIDE.gradient(theta), rtol=1e-9)


@pytest.mark.parametrize("size", [20, 200, 5000])
def test_particles_as_wide_as_the_start_agree(size):
    """The corrected ratio is one within the fluctuation of an extreme eigenvalue."""
    theta = np.concatenate([drawn_about(0, (1, 1), size), drawn_about(1, (1, 1), size)])
    spreads = extreme_spreads(START, theta, np.full(2 * size, 0.5 / size))
    assert len(spreads) == 4
    for spread in spreads:
        assert abs(np.log(spread.ratio)) < 1.5 / np.sqrt(size)


@pytest.mark.parametrize(("scales", "ratio"), [((1.0, 0.2), 0.2), ((5.0, 1.0), 5.0)])
def test_the_direction_of_another_width_is_found(scales, ratio):
    """One of two modes; copies of particles change nothing."""
    theta = drawn_about(0, scales, 2000)
    weights = np.full(4000, 1 / 4000)
    alone = Modes([1.0], MODES.means[:1], MODES.factors[:1], 4, 0.0)
    spreads = extreme_spreads(MixtureStart(PRIOR, alone), np.concatenate([theta, theta]), weights)
    assert len(spreads) == 2
    found = max(spreads, key=lambda spread: abs(np.log(spread.ratio)))
    assert found.ratio == pytest.approx(ratio, rel=0.1)
    axis = MODES.factors[0][:, scales.index(1.0) ^ 1]
    axis = axis / np.linalg.norm(MODES.factors[0], axis=1)
    cosine = found.direction @ axis / np.linalg.norm(found.direction) / np.linalg.norm(axis)
    assert abs(cosine) > 0.98


def test_too_few_distinct_particles_say_nothing():
    theta = np.repeat(drawn_about(0, (1, 1), 3), 100, axis=0)
    assert extreme_spreads(START, theta, np.full(300, 1 / 300)) == []


@pytest.mark.parametrize(("narrow", "expected"), [(0.31, True), (1.0, False)])
def test_few_draws_confirm_a_width_that_chance_does_not_make(narrow, expected):
    """Of 38 in nine dimensions the narrowest direction has half of the width by chance."""
    prior = Prior({name: stats.norm(0.0, 9.0) for name in "abcdefghi"})
    start = MixtureStart(prior, Modes([1.0], np.zeros((1, 9)), np.eye(9)[None], 4, 0.0))
    rng = np.random.default_rng(9)

    def narrowest(size, scale):
        theta = rng.normal(size=(size, 9)) * np.append(scale, np.ones(8))
        spreads = extreme_spreads(start, theta, np.full(size, 1 / size))
        return min(spreads, key=lambda one: one.ratio)

    particles = narrowest(600, 0.31)
    agreeing = [particles.agrees_with(narrowest(38, narrow)) for _ in range(40)]
    assert np.mean(agreeing) >= 0.9 if expected else not any(agreeing)


@pytest.mark.parametrize(("across", "ratio"), [(1.0, 1.0), (5.0, 5.0)])
def test_a_bent_ridge_is_as_wide_as_the_start_where_it_is_straight(across, ratio):
    """The sum of two positive parameters is known: its Gaussian follows a tangent."""
    rng = np.random.default_rng(7)
    total, first = 2.0 + 0.01 * across * rng.normal(size=4000), rng.uniform(0.5, 1.5, 4000)
    values = np.stack([first, total - first], axis=1)
    prior = Prior({"a": stats.lognorm(1.0), "b": stats.lognorm(1.0)})
    # Of the sum at a = b = 1, where the logarithms are the values less one.
    covariance = np.array([[1.0, -1.0], [-1.0, 1.0]]) / 12 + 0.25e-4
    modes = Modes([1.0], np.zeros((1, 2)), np.linalg.cholesky(covariance)[None], 4, 0.0)
    spreads = extreme_spreads(
        MixtureStart(prior, modes), prior.unconstrained(values), np.full(4000, 1 / 4000)
    )
    assert max(spread.ratio for spread in spreads) == pytest.approx(ratio, rel=0.1)


def test_a_ridge_bent_in_all_coordinates_is_no_wider_than_the_start():
    """A parabola of two unbounded parameters."""
    rng = np.random.default_rng(8)
    first, across = rng.normal(size=(2, 2000))
    theta = np.stack([first, 0.1 * across + 0.5 * first**2, rng.normal(size=2000)], axis=1)
    prior = Prior(dict.fromkeys("abc", stats.norm(0.0, 3.0)))
    for scale, ratio in ((1.0, 1.0), (0.2, 5.0)):
        modes = Modes([1.0], np.zeros((1, 3)), np.diag([1.0, 0.1 * scale, 1.0])[None], 4, 0.0)
        start = MixtureStart(prior, modes)
        spreads = extreme_spreads(start, theta, np.full(2000, 1 / 2000))
        # A Gaussian is 7 and 35 times narrower; what is left is more than the width across.
        assert 0.9 * ratio < max(spread.ratio for spread in spreads) < 1.5 * ratio
