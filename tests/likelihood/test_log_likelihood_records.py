"""A log-likelihood takes other records of the same times, and refuses what cannot be."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF1, LogLikelihood, Problem, Record
from smcpn.likelihood.registry import UpperBound
from smcpn.run.identify import beyond_the_data
from tests.models import FITZHUGH_NAGUMO_START, fitzhugh_nagumo, fitzhugh_nagumo_solution

pytestmark = pytest.mark.numerics

VALUES = np.array([[0.2, 0.2, 3.0, 0.07, 1.0], [0.3, 0.1, 2.9, 0.1, 10.0]])


def record(seed: int, first: float = 0.0) -> Record:
    exact = fitzhugh_nagumo_solution()[:11]
    noise = 0.07 * np.random.default_rng(seed).normal(size=exact.shape)
    return Record(y=exact + noise, t=first + np.arange(11.0))


def problem(of: Record) -> Problem:
    return Problem(
        fitzhugh_nagumo,
        of,
        observe=["V", "R"],
        noise="sigma",
        prior=dict.fromkeys([*"abc", "sigma", "kappa"], stats.lognorm(1.0)),
        initial=FITZHUGH_NAGUMO_START,
        diffusion="kappa",
    )


@pytest.fixture(scope="module")
def log_likelihood() -> LogLikelihood:
    solver = EKF1(2, 20, diffusion="kappa", jacobian="diagonal")
    result = LogLikelihood(problem(record(0)), "fenrir", solver)
    result.value_and_gradient(VALUES)
    return result


def test_other_records_give_what_their_own_would(log_likelihood: LogLikelihood) -> None:
    other = log_likelihood.with_records([record(1)])
    fresh = LogLikelihood(problem(record(1)), "fenrir", log_likelihood.solver)
    for ours, theirs in zip(
        other.value_and_gradient(VALUES), fresh.value_and_gradient(VALUES), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(other(VALUES), fresh(VALUES))
    assert not np.array_equal(log_likelihood(VALUES), other(VALUES))
    assert other.problem.records[0] is not log_likelihood.problem.records[0]


def test_another_grid_is_refused(log_likelihood: LogLikelihood) -> None:
    with pytest.raises(smcpn.InputError, match="other times"):
        log_likelihood.with_records([record(1, first=1.0)])
    with pytest.raises(smcpn.InputError, match="other times"):
        log_likelihood.with_records([record(1), record(2)])


def test_no_value_is_beyond_the_densest_noise(log_likelihood: LogLikelihood) -> None:
    sigma = 10.0 ** np.arange(-6.0, 2.0)
    kappa = 10.0 ** np.arange(-40.0, 0.0)
    values = np.array([[0.2, 0.2, 3.0, s, k] for s in sigma for k in kappa])
    highest = -11.0 * np.log(2.0 * np.pi * values[:, 3] ** 2)
    highest += 1e-6 * np.abs(highest)
    assert (log_likelihood(values) <= highest).all()
    # The recursion itself goes beyond: there the value is none.
    beyond = log_likelihood._value.total(values)[0] > highest
    assert beyond.any()
    assert np.isneginf(log_likelihood(values)[beyond]).all()


def test_a_value_that_is_none_has_no_derivative(log_likelihood: LogLikelihood) -> None:
    values = np.array([[0.2, 0.2, 3.0, 0.07, k] for k in 10.0 ** np.arange(-40.0, 0.0)])
    directions = np.ones_like(values)
    found, slope = log_likelihood.derivative(values, directions)
    # The kernel with derivatives rounds otherwise than the one without.
    bare = log_likelihood._tangent.total(np.hstack([values, directions]))[0]
    assert (bare[np.isneginf(found)] > 0.0).any()
    assert np.isnan(slope[np.isneginf(found)]).all()
    assert np.isfinite(slope[np.isfinite(found)]).all()


def test_missing_measurements_lower_the_bound_by_their_share() -> None:
    gaps = record(0).y.copy()
    gaps[3:7, 1] = np.nan
    with_gaps = problem(Record(y=gaps, t=np.arange(11.0)))
    ceiling = UpperBound(
        Problem(
            fitzhugh_nagumo, with_gaps.records, observe=["V", "R"], noise="sigma",
            prior=dict.fromkeys([*"abc", "sigma"], stats.lognorm(1.0)),
            initial=FITZHUGH_NAGUMO_START,
        ),
        "classical",
    )  # fmt: skip
    values = np.array([[0.2, 0.2, 3.0, 0.3]] * 3)
    expected = -9.0 * np.log(2.0 * np.pi * 0.3**2)
    total = np.array([expected, expected + 1e-3, np.inf])
    assert ceiling.admits(values, total).tolist() == [True, False, False]


def test_weight_on_what_is_no_likelihood_is_told() -> None:
    asked = problem(record(0))
    theta = asked.prior.sample(np.random.default_rng(0), 4)
    settings = SimpleNamespace(likelihood="dalton")
    run = SimpleNamespace(problem=asked, settings=settings)

    def told(log_likelihood: float) -> tuple[str, ...]:
        totals = np.array([0.0, 0.0, 0.0, log_likelihood])
        populations = SimpleNamespace(theta=theta, log_likelihood=totals, log_weights=np.zeros(4))
        return beyond_the_data(run, populations)

    assert told(0.0) == ()
    (concern,) = told(1e30)
    assert "25% of the weight has a dalton likelihood above" in concern
