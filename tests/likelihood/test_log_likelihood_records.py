"""A log-likelihood takes other records of the same times, and refuses what cannot be."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF1, LogLikelihood, Problem, Record
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


@pytest.mark.nightly
def test_another_grid_is_refused(log_likelihood: LogLikelihood) -> None:
    with pytest.raises(smcpn.InputError, match="other times"):
        log_likelihood.with_records([record(1, first=1.0)])
    with pytest.raises(smcpn.InputError, match="records has 2, and the problem 1"):
        log_likelihood.with_records([record(1), record(2)])


@pytest.mark.parametrize("share", [-0.1, 1.1, 10**30, np.nan])
def test_no_share_of_a_record_is_beyond_all_of_it(
    share: float, log_likelihood: LogLikelihood
) -> None:
    with pytest.raises(smcpn.InputError, match="share is"):
        log_likelihood.expansion(VALUES, share=share)
