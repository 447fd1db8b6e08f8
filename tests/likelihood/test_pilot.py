"""The first guess of the steps: from the local error over parameters drawn from the prior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import EKF0, EKF1, RK4, Problem, Record
from smcpn.likelihood.prediction import predictions
from smcpn.likelihood.solver_choice import (
    LEFT_OUT,
    local_errors,
    pilot_steps,
    solver_for_searches,
    solver_from_prior,
)
from tests.models import van_der_pol
from tests.reference.solver import Reference

pytestmark = pytest.mark.numerics


@smcpn.ode
def relaxation(x, u, *, rate):
    return rate * (u - np.tanh(x))


@smcpn.ode
def growth(x, u, *, a):
    return a * x + u


def problem(model, scale, noise=0.01, **options):
    t = 0.1 * np.arange(101.0)
    record = Record(u=np.sin(t), y=np.tanh(np.sin(t)), dt=0.1, hold="bandlimited")
    return Problem(model, record, observe="x", noise=noise, prior=scale, **options)


@pytest.fixture(scope="module")
def slow():
    return problem(relaxation, {"rate": stats.lognorm(0.3, scale=2.0)})


def errors(asked: Problem, solver, values, steps):
    found = predictions(asked, solver, enumerate(asked.records))
    return local_errors(asked, found, np.asarray(values)[:, None], steps)


@pytest.mark.parametrize(
    ("solver", "order"),
    [(EKF0(order=3), 4), (EKF1(order=3, diffusion="fixed"), 4), (RK4(), 4)],
)
def test_local_error_falls_with_its_order(slow, solver, order):
    values = [0.5, 1.0, 2.0, 4.0]
    coarse, fine = (errors(slow, solver, values, n) for n in (8, 16))
    np.testing.assert_allclose(np.log2(coarse / fine), order, atol=0.3)
    assert (np.diff(coarse) > 0).all()


def test_local_error_is_the_one_of_the_step_control():
    """H D_n of a step of one state from an exact start, worked out from the textbook."""
    h, rate, x0 = 0.5, 1.3, 0.4
    t = h * np.arange(2.0)
    record = Record(u=[0.2, 0.2], y=[0.0, 2.0], dt=h, hold="zoh")
    asked = Problem(relaxation, record, observe="x", noise=1.0, prior={"rate": stats.uniform(1, 1)},
                    initial=[x0])  # fmt: skip
    reference = Reference(relaxation, np.array([rate]), EKF1(order=2), record)
    A, _ = reference.prior(h)
    predicted = A @ reference.start(np.array([x0]), t[0])
    _, z = reference.residual(predicted, t[1], reference.input(t[1]))
    for solver in (EKF0(order=2), EKF1(order=2, diffusion="fixed")):
        found = predictions(asked, solver, enumerate(asked.records))
        averages = found[0].averages(np.array([[rate]]), 1)
        # The first of the two samples has no step before it.
        np.testing.assert_allclose(averages.error_squares, (h * z[0]) ** 2 / 2, rtol=1e-9)


@pytest.mark.parametrize("solver", [EKF0(), EKF1(diffusion="fixed"), RK4()])
def test_a_faster_population_gets_more_steps(slow, solver):
    """Explicit steps follow the fastest rate, those of EKF1 the solution."""
    median = np.exp(0.3 * np.random.default_rng(0).normal(size=(32, 1)))
    few, many = (pilot_steps(slow, solver, scale * median)[0] for scale in (0.2, 50.0))
    assert few is not None
    assert many is not None
    assert many > few
    if isinstance(solver, EKF1):
        explicit, _ = pilot_steps(slow, EKF0(), 50.0 * median)
        assert explicit is not None
        assert many <= explicit


def test_what_diverges_does_not_count_unless_most_does(slow):
    calm, wild = np.full((5, 1), 2.0), np.full((4, 1), 1e9)
    alone, _ = pilot_steps(slow, EKF0(), calm)
    assert pilot_steps(slow, EKF0(), np.vstack([calm, wild]))[0] == alone
    assert pilot_steps(slow, EKF0(), np.vstack([calm[:3], wild]))[0] is None


def test_a_median_that_diverges_leaves_the_guess_to_the_pilot_set():
    """With the median the solution is e^300, in which no noise of the record can be resolved."""
    wide = problem(growth, {"a": stats.norm(30, 40)})
    chosen = solver_from_prior(wide, EKF0())
    values = wide.prior.natural(wide.prior.sample(np.random.default_rng(0), 1001)[:64])
    assert chosen.steps == pilot_steps(wide, EKF0(), values)[0]
    assert chosen.steps != 1


def test_steps_that_span_the_prior_are_the_fewest_that_help(slow):
    spread = problem(relaxation, {"rate": stats.lognorm(2.5, scale=2.0)})
    first = solver_from_prior(spread, RK4())
    spanning, failed = solver_for_searches(spread, first, None, 64, 1.0)
    assert spanning.steps > first.steps
    assert failed <= LEFT_OUT
    assert solver_for_searches(spread, first, None, 1, 1.0)[0] == first
    # By these the solution is no number, however many the steps.
    endless = problem(growth, {"a": stats.uniform(1e4, 1e4)})
    assert solver_for_searches(endless, RK4(2), None, 64, 1.0) == (RK4(2), 1.0)


@pytest.mark.parametrize("solver", [EKF0(), RK4()])
def test_the_first_steps_are_the_same_on_any_number_of_threads(slow, solver, monkeypatch):
    values = slow.prior.natural(slow.prior.sample(np.random.default_rng(0), 500))
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("SMCPN_THREADS", threads)
        compiled = predictions(slow, solver, enumerate(slow.records))
        found.append(local_errors(slow, compiled, values, 8))
        assert solver_from_prior(slow, solver) == solver_from_prior(slow, solver)
    np.testing.assert_array_equal(*found)


@pytest.mark.slow
def test_guess_is_near_what_the_solution_needs():
    """A relaxation oscillator: EKF1 and EKF0 against the error that is made."""

    t = np.linspace(0.0, 2.0, 81)
    solved = solve_ivp(
        lambda t, z: [z[1], 30 * ((1 - z[0] ** 2) * z[1] - z[0])], (0, 2), [2.0, 0.0],
        method="Radau", t_eval=t, rtol=1e-8, atol=1e-10,
    )  # fmt: skip
    asked = Problem(van_der_pol, Record(t=t, y=solved.y[:1].T), observe="x", noise=0.02,
                    initial=[2.0, 0.0], prior={"mu": stats.lognorm(0.2, scale=30.0)})  # fmt: skip
    values = np.linspace(25.0, 35.0, 9)[:, None]
    for solver in (EKF0(), RK4()):
        guess, _ = pilot_steps(asked, solver, values)
        chosen = solver_from_prior(asked, solver)
        assert guess is not None
        assert chosen.steps / 4 <= guess <= chosen.steps
