"""The mixture that a run may begin at: its draws follow its density, which the prior bounds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from smcpn import InputError
from smcpn.model.prior import Prior
from smcpn.smc.start import PRIOR_SHARE, MixtureStart, Modes

PRIOR = Prior({"a": stats.norm(0.0, 3.0), "b": stats.lognorm(1.0)})
MODES = Modes(
    shares=[0.8, 0.2],
    means=[[1.0, 0.0], [-2.0, 1.0]],
    factors=[[[0.1, 0.0], [0.05, 0.2]], [[0.3, 0.0], [-0.2, 0.1]]],
    searches=4,
)
START = MixtureStart(PRIOR, MODES)


def test_density_integrates_to_one():
    a, b = np.linspace(-40, 40, 3201), np.linspace(-20, 20, 3201)
    grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
    total = np.exp(START.log_density(grid)).sum() * (a[1] - a[0]) * (b[1] - b[0])
    assert total == pytest.approx(1.0, abs=2e-3)


def test_draws_follow_the_density():
    """Means of 20000 weights p / q, q the start, of two densities p inside; 5 standard errors."""
    theta = START.sample(np.random.default_rng(0), 20_000)
    for mean, sd in (((1.0, 0.0), 0.1), ((-2.0, 1.0), 0.2), ((4.0, -1.0), 0.5)):
        p = stats.norm(mean, sd).logpdf(theta).sum(axis=1)
        weights = np.exp(p - START.log_density(theta))
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
def test_documents_are_read_back(modes):
    again = Modes(**json.loads(json.dumps(modes.document())))
    assert again.document() == modes.document()
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
        Modes(**{**MODES.document(), **changes})
