"""Numbers of solver steps in intervals of different lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

import smcpn
from smcpn import EKF0, EKF1, RK4, InputError, Problem, Record
from smcpn.likelihood.inputs import numbers_of_steps
from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.solver_choice import longest_interval, solver_from_prior
from tests.models import FREE_OSCILLATOR, free_oscillator_problem

pytestmark = pytest.mark.numerics
LENGTHS = arrays(float, st.integers(1, 20), elements=st.floats(1e-2, 10.0))


@given(LENGTHS, st.integers(1, 64))
def test_no_step_is_longer_than_those_of_the_reference_and_none_needlessly_short(spacing, steps):
    counts = numbers_of_steps(spacing, steps, 1.0)
    lengths = spacing / counts
    assert (lengths <= (1 + 1e-6) / steps).all()
    assert ((counts == 1) | (lengths > 0.5 / (steps + 1) - 1e-12)).all()
    finer = numbers_of_steps(spacing, 2 * steps, 1.0)
    assert (finer <= 2 * counts).all()
    assert (finer >= counts).all()


@pytest.mark.parametrize("solver", [EKF0(3), RK4()], ids=["EKF0", "RK4"])
def test_steps_of_unequal_number_converge_to_the_same_value(solver):
    problem = free_oscillator_problem()
    longest = longest_interval(problem)
    values = FREE_OSCILLATOR[None, :]

    def value(steps, interval):
        chosen = solver.with_steps(steps).divided(interval)
        likelihood = build_likelihood(problem, chosen)
        return likelihood.evaluate(values, likelihood.n_samples)[1][0]

    fine = value(256, None)
    errors = [abs(value(steps, longest) - fine) for steps in (16, 64)]
    assert errors[1] < 1e-2 * max(errors[0], 1e-4)


def test_an_interval_of_the_common_length_changes_nothing():
    t = np.cumsum(np.array([0.0, 1.0, 2.0, 4.0, 1.0]))
    problem = Problem(
        relaxation, Record(t=t, y=np.ones(5)), observe="x", noise=1.0, initial={"x": 1.0},
        prior={"rate": stats.lognorm(0.5)},
    )  # fmt: skip
    halved = build_likelihood(problem, EKF0(2, steps=8, interval=4.0))
    assert [rows.n_steps for rows in halved._rows] == [2 + 4 + 8 + 2]
    assert halved._rows[0].begins.tolist() == [0, 2, 6, 14, 16]


@smcpn.ode
def relaxation(x, *, rate):
    return -rate * x


def test_auto_divides_irregular_records_only_where_the_likelihood_can():
    problem = free_oscillator_problem()
    assert solver_from_prior(problem, EKF0()).interval == longest_interval(problem)
    assert solver_from_prior(problem, EKF0(steps=4)) == EKF0(steps=4)
    with pytest.raises(InputError, match="takes as many steps in every sampling interval"):
        build_likelihood(problem, EKF1(2, 2, interval=1.0))
    with pytest.raises(InputError, match="interval is 0"):
        EKF0(interval=0.0)


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (EKF0(steps=2, interval=11700.0), "EKF0(order=3, steps=2), each of at most 5850 h"),
        (RK4(steps=4), "RK4(steps=4)"),
        (RK4(interval=2.0), "RK4(steps='auto', interval=2.0)"),
    ],
    ids=str,
)
def test_steps_are_told_by_their_length_where_samples_are_irregular(solver, words):
    assert solver.in_words("h") == words
