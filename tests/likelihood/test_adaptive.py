"""AdaptiveEKF1 and its likelihood: against scipy's Radau, exact solutions, and the plain loop."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import EKF0, AdaptiveEKF1, InputError, Problem, Record
from smcpn.codegen.loops import MOST_ATTEMPTS
from smcpn.likelihood.own_steps import solver_steps
from smcpn.likelihood.prediction import predictive_moments
from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.solver_choice import choose_solver
from tests.models import (
    duffing_problem,
    oscillator_problem,
    oscillator_record,
    predator_prey_problem,
)

pytestmark = pytest.mark.numerics


@smcpn.ode
def van_der_pol(x, v, *, mu):
    return v, mu * (1 - x**2) * v - x


@smcpn.ode
def relaxation(x, *, rate):
    return -rate * x


@smcpn.ode
def lagging(x, u, *, rate):
    return rate * (u - x)


def van_der_pol_problem(mu: float = 100.0, end: float = 200.0, n: int = 40) -> Problem:
    """x from (2, 0), noise .05."""
    t = np.linspace(0.0, end, n + 1)
    y = radau(mu, end, n) + 0.05 * np.random.default_rng(0).normal(size=n + 1)
    prior = {"mu": stats.lognorm(0.5, scale=0.8 * mu)}
    record = Record(t=t, y=y)
    return Problem(
        van_der_pol, record, observe="x", noise=0.05, initial={"x": 2.0, "v": 0.0}, prior=prior
    )


@cache
def radau(mu: float, end: float, n: int) -> np.ndarray:
    """x at n + 1 times, to 1e-7."""
    t = np.linspace(0.0, end, n + 1)

    def rate(_, s):
        return s[1], mu * (1 - s[0] ** 2) * s[1] - s[0]

    def jacobian(_, s):
        return [[0.0, 1.0], [-2 * mu * s[0] * s[1] - 1, mu * (1 - s[0] ** 2)]]

    return solve_ivp(
        rate, (t[0], t[-1]), (2.0, 0.0), "Radau", t, jac=jacobian, rtol=1e-8, atol=1e-10
    ).y[0]


def solution(problem: Problem, solver: AdaptiveEKF1, values) -> tuple[np.ndarray, np.ndarray]:
    """Mean and solver sd of the first output."""
    mean, covariance = predictive_moments(
        problem, solver, np.asarray(values), enumerate(problem.records)
    )[0]
    return mean[:, 0], np.sqrt(covariance[:, 0, 0])


@pytest.mark.parametrize("mu", [100.0, pytest.param(1e4, marks=pytest.mark.nightly)])
def test_van_der_pol_follows_radau_through_its_jumps(mu):
    problem = van_der_pol_problem(mu, end=2 * mu)
    exact = radau(mu, 2 * mu, 40)
    mean, sd = solution(problem, AdaptiveEKF1(tolerance=1e-5), [mu])
    assert np.abs(mean - exact).max() < 2e-3
    assert (np.abs(mean - exact) < 10 * sd + 1e-4).all()
    likelihood = build_likelihood(problem, AdaptiveEKF1(tolerance=1e-5))
    # An explicit method takes a hundred million, where mu is 1e4.
    assert solver_steps(likelihood, problem, np.array([[mu]]))[0] < 5000


def test_a_smaller_tolerance_is_a_smaller_error():
    problem = van_der_pol_problem()
    exact = radau(100.0, 200.0, 40)
    errors = [
        np.abs(solution(problem, AdaptiveEKF1(tolerance=tolerance), [100.0])[0] - exact).max()
        for tolerance in (1e-4, 1e-5, 1e-6)
    ]
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    assert errors[2] < 1e-4


def test_a_fast_mode_decays_and_does_not_oscillate():
    record = Record(t=np.linspace(0.0, 10.0, 21), y=np.zeros(21))
    problem = Problem(
        relaxation, record, observe="x", noise=1.0, initial={"x": 1.0},
        prior={"rate": stats.lognorm(1.0, scale=1e6)},
    )  # fmt: skip
    solver = AdaptiveEKF1(2, tolerance=1e-4)
    mean, _ = solution(problem, solver, [1e6])
    assert mean[0] == 1.0
    assert np.abs(mean[1:]).max() < 1e-4
    mean, _ = solution(problem, solver, [2.0])
    assert mean == pytest.approx(np.exp(-2.0 * record.t), abs=1e-3)


@pytest.mark.parametrize("hold", [pytest.param("foh", marks=pytest.mark.nightly), "bandlimited"])
def test_inputs_are_followed_between_the_samples(hold):
    problem = duffing_problem(40, hold=hold)
    values = np.array([1.0, 0.4, 2.0, 0.5])
    fine = predictive_moments(problem, EKF0(3, 32), values, enumerate(problem.records))[0][0]
    mean, _ = solution(problem, AdaptiveEKF1(tolerance=1e-8), values)
    assert mean == pytest.approx(fine[:, 0], abs=2e-6)


def test_increments_blocks_and_threads_give_the_same_bytes():
    problem = predator_prey_problem()
    theta = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 21))
    one = build_likelihood(problem, AdaptiveEKF1().begun(), threads=1)
    two = build_likelihood(problem, AdaptiveEKF1().begun(), threads=2)
    whole = one.evaluate(theta, one.n_samples)[1]
    np.testing.assert_array_equal(two.evaluate(theta, two.n_samples)[1], whole)
    np.testing.assert_array_equal(one.evaluate(theta[5:6], one.n_samples)[1], whole[5:6])
    state, parts = one.start(theta), []
    for a, b in ((0, 4), (4, 5), (5, one.n_samples)):
        state, increments = one.advance(theta, state, a, b)
        parts.append(increments)
    assert np.concatenate(parts).sum(axis=0) == pytest.approx(whole, rel=1e-12)


@pytest.mark.slow
def test_gradient_is_that_of_the_steps_taken():
    problem = van_der_pol_problem(end=60.0)
    function = smcpn.LogLikelihood(problem, solver=AdaptiveEKF1(tolerance=1e-6))
    values = np.array([[97.0], [103.0]])
    _, gradient = function.value_and_gradient(values)
    h = 0.01
    differences = (function(values + h) - function(values - h)) / (2 * h)
    assert gradient[:, 0] == pytest.approx(differences, rel=1e-3)


def test_a_solution_that_explodes_has_no_likelihood():
    @smcpn.ode
    def explosion(x, *, a):
        return a * x**2

    record = Record(t=np.linspace(0.0, 2.0, 11), y=np.ones(11))
    problem = Problem(
        explosion, record, observe="x", noise=1.0, initial={"x": 1.0},
        prior={"a": stats.lognorm(1.0)},
    )  # fmt: skip
    found = smcpn.LogLikelihood(problem, solver=AdaptiveEKF1())([[0.1], [1.0], [0.2]])
    assert np.isfinite(found[[0, 2]]).all()
    assert found[1] == -np.inf


def test_a_solution_that_takes_too_many_steps_is_given_up_once():
    """Not in every interval anew: a population of them would take minutes to be refused."""
    problem = oscillator_problem(oscillator_record(samples=40))
    likelihood = build_likelihood(problem, AdaptiveEKF1(order=2, tolerance=1e-11))
    state, total = likelihood.evaluate(np.array([[1e-3, 1e6]]), 40)
    place = 3 + problem.model.x.numel()
    attempts = state[place] + state[place + 1]
    assert np.isnan(total).all()
    assert MOST_ATTEMPTS <= attempts[0] <= MOST_ATTEMPTS + 40 * 20


@pytest.mark.slow
def test_units_of_time_and_state_do_not_matter():
    @smcpn.ode
    def scaled(x, v, *, mu, a, b):
        return v, (mu * (1 - (x / a) ** 2) * v - x / b) / b

    def problem(a, b):
        t = np.linspace(0.0, 120.0, 31) * b
        y = a * np.cos(np.arange(31.0))
        prior = {name: stats.lognorm(1.0) for name in ("mu", "a", "b")}
        initial = {"x": 2.0 * a, "v": 0.0}
        return Problem(
            scaled, Record(t=t, y=y), observe="x", noise=a, initial=initial, prior=prior
        )  # fmt: skip

    totals = [
        smcpn.LogLikelihood(problem(a, b), solver=AdaptiveEKF1())([[50.0, a, b]])[0]
        + 31 * np.log(a)
        for a, b in ((1.0, 1.0), (1e-9, 1e6), (1e7, 1e-8))
    ]
    assert totals[1:] == pytest.approx([totals[0]] * 2, rel=1e-6)


def test_auto_takes_the_stiff_solver_where_explicit_steps_are_bounded_by_stability():
    stiff = van_der_pol_problem(n=100)
    chosen = choose_solver(stiff, "auto").solver
    assert isinstance(chosen, smcpn.Rosenbrock)
    assert choose_solver(stiff, None, "classical").solver == smcpn.RK4()
    assert choose_solver(predator_prey_problem()).solver == EKF0()
    assert choose_solver(stiff, EKF0(2, 3)).solver == EKF0(2, 3)


def test_auto_takes_implicit_steps_for_a_stiff_problem_with_a_dead_time():
    u = np.repeat([0.0, 1.0], 20)
    problem = Problem(
        lagging, Record(u=u, y=u, dt=1.0, hold="zoh"), observe="x", noise=0.05,
        prior={"rate": stats.lognorm(0.5, scale=1e4)}, delay={"u": 1.5},
    )  # fmt: skip
    assert isinstance(choose_solver(problem, "auto").solver, smcpn.Rosenbrock)


@pytest.mark.parametrize(
    "solver", [smcpn.Rosenbrock(), pytest.param(AdaptiveEKF1(), marks=pytest.mark.nightly)]
)
@pytest.mark.nightly
def test_a_stiff_run_is_resumed_to_the_same_bytes(tmp_path, solver):
    problem = van_der_pol_problem(end=100.0, n=50)
    options = {"solver": solver, "particles": 64, "seed": 1, "progress": False}
    whole = smcpn.identify(problem, **options)
    file = tmp_path / "run.h5"
    with pytest.raises(KeyboardInterrupt):
        smcpn.identify(problem, **options | {"progress": interrupted}, checkpoint=file)
    again = smcpn.identify(problem, **options, checkpoint=file)
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert again.log_evidence == whole.log_evidence
    assert abs(whole.mean["mu"] - 100.0) < 4 * whole.sd["mu"]


def interrupted(state) -> None:
    if state.sample > 20:
        raise KeyboardInterrupt


def test_settings_are_checked_and_refined():
    assert AdaptiveEKF1().automatic
    begun = AdaptiveEKF1(3).begun()
    assert begun.refined() == replace(begun, tolerance=begun.tolerance / 16)
    assert AdaptiveEKF1(tolerance=2e-11).refined() is None
    with pytest.raises(InputError, match="tolerance is 2"):
        AdaptiveEKF1(tolerance=2.0)
    with pytest.raises(InputError, match="does not go with AdaptiveEKF1"):
        build_likelihood(predator_prey_problem(), AdaptiveEKF1(tolerance=1e-3), None, "filtering")
