"""Where a posterior ends because its solver fails, by likelihoods that fail on purpose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4
from smcpn.likelihood.solver_choice import prior_draws
from smcpn.likelihood.wall import AGAIN, POINTS, PosteriorPoints, Wall, wall_of
from smcpn.model.solver import Solver

COARSE = RK4(steps=4)


@smcpn.ode
def decay(x, *, a, b):
    return -a * x + b


PROBLEM = smcpn.Problem(
    decay, smcpn.Record(y=np.ones(5), dt=1.0), observe="x", noise=0.1, initial=[1.0],
    prior={"a": stats.lognorm(0.5), "b": stats.lognorm(0.5)},
)  # fmt: skip


def wall_where(fails: Callable[[np.ndarray], np.ndarray]) -> Wall | None:
    """Of the prior as the posterior, of which the coarse solver has none where it fails."""

    def by(solver: Solver) -> Callable[[np.ndarray], np.ndarray]:
        failing = solver == COARSE
        return lambda values: np.where(failing & fails(values), -np.inf, 0.0)

    theta = PROBLEM.prior.sample(np.random.default_rng(0), 1000)
    theta = theta[~fails(PROBLEM.prior.natural(theta))]
    equal = np.full(len(theta), 1.0 / len(theta))
    return wall_of(PosteriorPoints(PROBLEM, COARSE, "classical", theta, equal, by))


def test_a_wall_is_named_by_the_parameter_that_it_bounds():
    found = wall_where(lambda values: values[:, 0] > 1.2)
    assert found is not None
    assert found.bound is not None
    assert (found.bound.name, found.bound.above) == ("a", True)
    assert found.bound.value == pytest.approx(1.2, rel=0.05)
    assert found.bound.share == pytest.approx(0.36, abs=0.05)
    assert found.warnings[0].startswith("a above 1.")


def test_a_wall_across_parameters_is_told_by_values_beyond_it():
    found = wall_where(lambda values: values.prod(axis=1) > 1.0)
    assert found is not None
    assert found.bound is None
    assert found.example["a"] * found.example["b"] > 1.0
    assert found.warnings[0].startswith("a part of the posterior (as at a ")


def test_two_moves_of_a_parameter_are_looked_at_again():
    """They are a sixteenth of the first look's, and a sixty-fourth of the second's."""
    lucky, asked = PROBLEM.prior.natural(prior_draws(PROBLEM))[[0, 2], 0], list[int]()

    def fails(values: np.ndarray) -> np.ndarray:
        asked.append(len(values))
        return np.isin(values[:, 0], lucky)

    assert wall_where(fails) is None
    assert max(asked[1:]) == 2 * AGAIN * POINTS
