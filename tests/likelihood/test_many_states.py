"""EKF1 of many coupled states, whose algebra is loops over memory: against dense filters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import EKF1, AdaptiveEKF1, InputError, LogLikelihood, Problem, Record
from smcpn.likelihood import covariance, gaussian_filter
from tests.reference.likelihoods import StateSpace, filtering

pytestmark = pytest.mark.numerics

VALUES = np.array([[1.0, 1.0], [1.3, 0.8]])


def cascade(n: int, fastest: float = 1e3) -> Problem:
    """A chain of reversible reactions, each faster than the one before."""
    speeds = np.geomspace(1.0, fastest, n - 1)

    @smcpn.ode(sizes={"x": n})
    def reactions(x, *, k, s):
        flow = speeds * (k * x[:-1] - s * x[1:] ** 2)
        return np.concatenate([-flow[:1], flow[:-1] - flow[1:], flow[-1:]])

    def rate(_, x):
        flow = speeds * (x[:-1] - x[1:] ** 2)
        return np.concatenate([-flow[:1], flow[:-1] - flow[1:], flow[-1:]])

    t, initial = np.linspace(0.0, 0.4, 5), 0.5 + 0.1 * np.arange(n)
    y = solve_ivp(rate, (0.0, 0.4), initial, "Radau", t, rtol=1e-8, atol=1e-8).y[[0, n - 1]].T
    return Problem(
        reactions, Record(t=t, y=y), observe=["x[0]", f"x[{n - 1}]"], noise=0.05,
        initial={f"x[{k}]": float(initial[k]) for k in range(n)},
        prior={"k": stats.lognorm(0.3), "s": stats.lognorm(0.3)},
    )  # fmt: skip


@pytest.fixture
def loops(monkeypatch):
    """Makes loops of covariances of any size, in what is traced anew."""
    monkeypatch.setattr(gaussian_filter, "MOST_ROWS", 0)


def dense(problem: Problem, solver: EKF1) -> list[float]:
    spaces = [StateSpace(problem.model, problem.records[0], values, solver) for values in VALUES]
    return [filtering(space).sum() for space in spaces]


@pytest.mark.usefixtures("loops")
def test_loops_are_the_dense_filter_and_its_gradient():
    problem, solver = cascade(3), EKF1(2, steps=80, diffusion=1.0)
    function = LogLikelihood(problem, "filtering", solver)
    assert function(VALUES) == pytest.approx(dense(problem, solver), abs=1e-8)
    slopes = function.value_and_gradient(VALUES)[1]
    for j, shift in enumerate(1e-5 * np.eye(2)):
        difference = (function(VALUES + shift) - function(VALUES - shift)) / 2e-5
        assert slopes[:, j] == pytest.approx(difference, rel=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize("n", [9, 15])
def test_many_states_of_order_3_are_the_dense_filter(n):
    problem, solver = cascade(n, fastest=10.0), EKF1(3, steps=20, diffusion=1.0)
    function = LogLikelihood(problem, "filtering", solver)
    assert function(VALUES) == pytest.approx(dense(problem, solver), abs=1e-8)


@pytest.mark.nightly
def test_adaptive_steps_by_loops_are_those_without(monkeypatch):
    problem, solver = cascade(3), AdaptiveEKF1(2, tolerance=1e-5)
    plain = LogLikelihood(problem, solver=solver)
    monkeypatch.setattr(gaussian_filter, "MOST_ROWS", 0)
    looped = LogLikelihood(cascade(3), solver=solver)
    assert looped._value.kernel.program.sections
    assert not plain._value.kernel.program.sections
    assert looped(VALUES) == pytest.approx(plain(VALUES), rel=1e-6)
    found, expected = (one.value_and_gradient(VALUES)[1] for one in (looped, plain))
    assert found == pytest.approx(expected, rel=1e-4)


def test_what_compares_two_large_covariances_is_refused():
    problem = cascade(9)
    assert covariance.MOST_ROWS < 36
    with pytest.raises(InputError, match=r"36 rows, more than the 24 .* likelihood='filtering'"):
        LogLikelihood(problem, "dalton", EKF1(3, diffusion=1.0))
