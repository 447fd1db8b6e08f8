"""Rosenbrock steps: coefficients by order conditions, lanes against plain loops, stiff problems."""

from __future__ import annotations

from itertools import pairwise
from math import factorial

import casadi as ca
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import stats
from scipy.integrate import solve_ivp

import smcpn
from smcpn import InputError, Poisson, Record, Rosenbrock
from smcpn.likelihood.own_steps import solver_steps
from smcpn.likelihood.prediction import predictive_moments
from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.rosenbrock import RODAS5P
from smcpn.likelihood.sparse_lu import SparseLU
from tests.models import duffing_problem, oscillator_problem, oscillator_record
from tests.reference import rosenbrock as reference
from tests.reference.rosenbrock import RODAS4, Method

pytestmark = pytest.mark.numerics

METHOD = Method.of(RODAS5P.gamma, RODAS5P.a, RODAS5P.c, RODAS5P.alpha, RODAS5P.d)


@pytest.mark.parametrize(("method", "order"), [(METHOD, 5), (RODAS4, 4)])
def test_order_conditions_hold(method, order):
    for size in range(1, order + 1):
        assert np.abs(reference.deviations(method, size)).max() < 2e-14
    assert np.abs(reference.deviations(method, order + 1)).max() > 1e-3
    for size in range(1, order):
        assert np.abs(reference.deviations(method, size, embedded=True)).max() < 2e-14
    assert np.abs(reference.deviations(method, order, embedded=True)).max() > 1e-3


@pytest.mark.parametrize("method", [METHOD, RODAS4])
def test_stages_are_where_the_coefficients_say_and_an_infinite_rate_is_damped_at_once(method):
    alphas, betas, solution, embedded = method.untransformed()
    assert alphas.sum(axis=1) == pytest.approx(method.alpha, abs=3e-14)
    assert (betas - alphas).sum(axis=1) == pytest.approx(method.d, abs=3e-14)
    ones = np.ones(len(alphas))
    assert solution @ np.linalg.solve(betas, ones) == pytest.approx(1.0, abs=3e-14)
    # Of the embedded solution the last stage is no part.
    inner = np.linalg.solve(betas[:-1, :-1], ones[:-1])
    assert embedded[:-1] @ inner == pytest.approx(1.0, abs=3e-14)


def prothero_robinson(rate: float) -> reference.Problem:
    """x' = sin t' - rate (x - sin t), of which sin t is the solution."""
    return reference.Problem(
        lambda t, x: np.cos(t) - rate * (x - np.sin(t)),
        lambda t, x: np.array([[-rate]]),
        lambda t, x: np.array([-np.sin(t) + rate * np.cos(t)]),
    )


PENDULUM = reference.Problem(
    lambda t, x: np.array([x[1], -np.sin(x[0]) * (1 + t) + np.cos(3 * t)]),
    lambda t, x: np.array([[0.0, 1.0], [-np.cos(x[0]) * (1 + t), 0.0]]),
    lambda t, x: np.array([0.0, -np.sin(x[0]) - 3 * np.sin(3 * t)]),
)


@pytest.mark.parametrize(
    ("problem", "start", "order"),
    [
        (PENDULUM, [1.0, 0.0], 5.0),
        (prothero_robinson(1.0), [0.0], 5.0),
        # Where others fall to 1 or 2, Rodas5P keeps h^4 / (rate h).
        (prothero_robinson(1e6), [0.0], 3.0),
    ],
)
def test_order_of_convergence(problem, start, order):
    def end(n):
        return reference.steps(METHOD, problem, 0.0, np.array(start), np.full(n, 1.0 / n))

    exact = end(160) if problem is PENDULUM else np.sin([1.0])
    errors = [np.abs(end(n) - exact).max() for n in (10, 20)]
    assert np.log2(errors[0] / errors[1]) > order - 0.35


@smcpn.ode
def chain(a, b, c, t, *, kf, ks):
    """Fast, then slow, then by a square, with a rate that falls in time."""
    fast, slow, last = kf * a, ks * b * np.exp(-0.1 * t), 0.3 * b * c**2
    return -fast, fast - slow - last, slow + last - 0.2 * c


CHAIN = {"kf": 1e3, "ks": 0.7}
TIMES = np.array([0.0, 0.5, 1.0, 3.0, 7.0])


def chain_of(kf, ks) -> reference.Problem:
    """The same written out."""

    def rate(t, x):
        slow, last = ks * x[1] * np.exp(-0.1 * t), 0.3 * x[1] * x[2] ** 2
        return np.array([-kf * x[0], kf * x[0] - slow - last, slow + last - 0.2 * x[2]])

    def slopes(t, x):
        slow, by_b, by_c = ks * np.exp(-0.1 * t), 0.3 * x[2] ** 2, 0.6 * x[1] * x[2]
        return np.array([[-kf, 0, 0], [kf, -slow - by_b, -by_c], [0, slow + by_b, by_c - 0.2]])

    def moved(t, x):
        slow = -0.1 * ks * x[1] * np.exp(-0.1 * t)
        return np.array([0.0, -slow, slow])

    return reference.Problem(rate, slopes, moved)


def chain_problem() -> smcpn.Problem:
    """All states measured at irregular times."""
    y = np.array([[1.0, 0, 0], [0, 0.7, 0.3], [0, 0.5, 0.4], [0.01, 0.2, 0.5], [0, 0.1, 0.4]])
    prior = {name: stats.lognorm(1.0, scale=value) for name, value in CHAIN.items()}
    return smcpn.Problem(
        chain, Record(t=TIMES, y=y), observe=["a", "b", "c"], noise=0.1, prior=prior,
        initial={"a": 1.0},
    )  # fmt: skip


def solution(problem, solver, values):
    return predictive_moments(problem, solver, np.array(values), enumerate(problem.records))[0][0]


def exact_chain() -> np.ndarray:
    problem = chain_of(**CHAIN)
    found = solve_ivp(
        problem.rate, (0.0, TIMES[-1]), [1.0, 0.0, 0.0], "Radau", TIMES, jac=problem.slopes,
        rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    return found.y.T


def test_the_error_is_about_the_tolerance():
    exact, problem = exact_chain(), chain_problem()
    for tolerance in (1e-4, 1e-8):
        found = solution(problem, Rosenbrock(tolerance), list(CHAIN.values()))
        assert np.abs(found - exact).max() < 3 * tolerance


def test_lanes_take_the_steps_of_a_plain_loop():
    found = solution(chain_problem(), Rosenbrock(1e-6), list(CHAIN.values()))
    lengths, x = taken_steps(1e-6), np.array([1.0, 0.0, 0.0])
    t = 0.0
    for own, place in zip(lengths, found[1:], strict=True):
        x = reference.steps(METHOD, chain_of(**CHAIN), t, x, own)
        t += sum(own)
        assert place == pytest.approx(x, rel=1e-9, abs=1e-14)


def taken_steps(tolerance: float) -> list[list[float]]:
    """Accepted steps of every interval of `chain_problem`, by the graph of a step, not compiled."""
    problem, values = chain_problem(), np.array([list(CHAIN.values())])
    likelihood = build_likelihood(problem, Rosenbrock(tolerance))
    program = likelihood.kernel.program
    particle = ca.vertcat(program.theta, program.constants, program.state)
    begin = ca.Function("begin", [particle, program.interval_row], [program.interval])
    one = ca.Function("one", [particle, program.step_row], [program.step])
    state, taken = likelihood.start(values)[:, 0], []

    def given():
        return np.concatenate([values[0], program.constant_values, state])

    for first, last in pairwise(TIMES):
        length, own = last - first, []
        # All share the length of an interval, its middle, its end, and its begin.
        state = begin(given(), [length, (first + last) / 2, last, first]).full()[:, 0]
        while state[0] > 0.0:
            before = state.copy()
            state = one(given(), [length, last]).full()[:, 0]
            if state[0] < before[0]:
                own.append(before[0] - state[0])
        taken.append(own)
    return taken


@pytest.mark.parametrize("reverses", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_derivatives_are_those_of_the_steps_taken(reverses):
    problem, values = chain_problem(), np.array([list(CHAIN.values())])
    function = smcpn.LogLikelihood(problem, solver=Rosenbrock(1e-6))
    vars(function)["reverses"] = reverses
    _, gradient = function.value_and_gradient(values)
    lengths = [[mpf(h) for h in own] for own in taken_steps(1e-6)]
    y = problem.records[0].y

    def log_likelihood(parameters):
        kf, ks = parameters
        with mp.workdps(50):
            many = np.vectorize(mpf, otypes=[object])
            x, t, total = many(np.array([1.0, 0.0, 0.0])), mpf(0), mpf(0)
            plain = many_digits(kf, ks)
            for own, measured in zip(lengths, y[1:], strict=True):
                x = reference.steps(METHOD, plain, t, x, own)
                t += sum(own)
                total -= sum((x - measured) ** 2) / (2 * mpf(0.1) ** 2)
        return total

    with mp.workdps(50):
        for j, value in enumerate(values[0]):
            h = mpf(value) * mpf("1e-20")
            ends = []
            for sign in (1, -1):
                moved = [mpf(v) for v in values[0]]
                moved[j] += sign * h
                ends.append(log_likelihood(moved))
            exact = float((ends[0] - ends[1]) / (2 * h))
            assert gradient[0, j] == pytest.approx(exact, rel=1e-9)


def many_digits(kf, ks) -> reference.Problem:
    """`chain_of` in numbers of many digits."""
    tenth, third = mpf(0.1), mpf(0.3)

    def rate(t, x):
        slow, last = ks * x[1] * mp.exp(-tenth * t), third * x[1] * x[2] ** 2
        return np.array([-kf * x[0], kf * x[0] - slow - last, slow + last - mpf(0.2) * x[2]])

    def slopes(t, x):
        slow, by_b, by_c = ks * mp.exp(-tenth * t), third * x[2] ** 2, 2 * third * x[1] * x[2]
        zero = mpf(0)
        rows = [
            [-kf, zero, zero], [kf, -slow - by_b, -by_c], [zero, slow + by_b, by_c - mpf(0.2)]
        ]  # fmt: skip
        return np.array(rows)

    def moved(t, x):
        slow = -tenth * ks * x[1] * mp.exp(-tenth * t)
        return np.array([mpf(0), -slow, slow])

    return reference.Problem(rate, slopes, moved)


def test_factors_solve_and_a_band_has_no_fill():
    rng = np.random.default_rng(0)
    for density in (0.2, 0.5):
        dense = np.where(rng.random((12, 12)) < density, rng.normal(size=(12, 12)), 0.0)
        dense += np.diag(4.0 + rng.random(12))
        right = rng.normal(size=12)
        matrix = ca.SX(ca.sparsify(ca.DM(dense)))
        found = ca.Function("solve", [], [SparseLU(matrix).solve(ca.SX(right))])()["o0"]
        assert found.full()[:, 0] == pytest.approx(np.linalg.solve(dense, right), rel=1e-9)
    n = 30
    band = ca.SX.sym("w", ca.Sparsity.band(n, 1) + ca.Sparsity.band(n, -1) + ca.Sparsity.diag(n))
    arrow = ca.SX.sym("w", ca.Sparsity.diag(n) + ca.Sparsity.triplet(
        n, n, [0] * n + list(range(n)), list(range(n)) + [0] * n
    ))  # fmt: skip
    assert SparseLU(band).entries == band.nnz()
    assert SparseLU(arrow).entries == arrow.nnz()


@smcpn.ode
def running_away(x, *, k):
    """Reaches infinity at time 1 / (k x(0))."""
    return k * x**2


def running_away_problem(noise=0.1) -> smcpn.Problem:
    record = Record(t=[0.0, 0.5, 1.0], y=[1.0, 2.0, 3.0])
    return smcpn.Problem(
        running_away, record, observe="x", noise=noise, prior={"k": stats.lognorm(1.0)},
        initial=[1.0],
    )  # fmt: skip


def test_a_solution_with_a_pole_has_no_likelihood_and_its_neighbours_have():
    function = smcpn.LogLikelihood(running_away_problem(), solver=Rosenbrock(1e-8))
    k = np.array([[0.5], [1.5], [0.9], [np.nan]])
    expected = [stats.norm(1.0 / (1.0 - x * np.array([0, 0.5, 1])), 0.1).logpdf([1, 2, 3]).sum()
                for x in (0.5, 0.9)]  # fmt: skip
    found = function(k)
    assert found[[0, 2]] == pytest.approx(expected, rel=1e-6)
    assert (found[[1, 3]] == -np.inf).all()


def test_a_matrix_that_cannot_be_factorised_shortens_the_step():
    # The first step that is tried is .5, of which 1 / (h gamma) is the slope 2 k.
    k = 1.0 / (0.5 * RODAS5P.gamma) / 2.0
    problem = singular_problem(k)
    function = smcpn.LogLikelihood(problem, solver=Rosenbrock(1e-9))
    end = np.exp(0.5 * 2 * k)
    assert function([[2 * k]])[0] == pytest.approx(stats.norm(end, 1.0).logpdf(end + 1.0), abs=1e-4)


@smcpn.ode
def growing(x, *, rate):
    """Exponential."""
    return rate * x


def singular_problem(k: float) -> smcpn.Problem:
    """Growth of which the last value is one more than it is at a rate of 2 k."""
    record = Record(t=[0.0, 0.5], y=[np.nan, np.exp(k) + 1.0])
    return smcpn.Problem(
        growing, record, observe="x", noise=1.0, prior={"rate": stats.lognorm(1.0)}, initial=[1.0]
    )


def test_any_density_of_the_noise():
    function = smcpn.LogLikelihood(running_away_problem(Poisson()), solver=Rosenbrock(1e-8))
    means = np.exp(1.0 / (1.0 - 0.5 * np.array([0.0, 0.5, 1.0])))
    expected = stats.poisson(means).logpmf([1, 2, 3]).sum()
    assert function([[0.5]])[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("hold", ["foh", "zoh"])
def test_inputs_are_followed_between_the_samples(hold):
    problem = duffing_problem(40, hold=hold)
    values = [1.0, 0.4, 2.0, 0.5]
    fine = solution(problem, smcpn.RK4(64), values)
    assert solution(problem, Rosenbrock(1e-9), values) == pytest.approx(fine, abs=1e-7)


def test_coloured_noise_is_that_of_the_classical_likelihood():
    problem = oscillator_problem(oscillator_record(samples=60), noise=smcpn.AR1(0.1, 0.5))
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 5))
    own = smcpn.LogLikelihood(problem, solver=Rosenbrock(1e-10))(values)
    assert own == pytest.approx(
        smcpn.LogLikelihood(problem, solver=smcpn.RK4(64))(values), rel=1e-6
    )


def test_blocks_and_threads_give_the_same_bytes():
    problem = chain_problem()
    theta = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 21))
    one = build_likelihood(problem, Rosenbrock(1e-6), threads=1)
    two = build_likelihood(problem, Rosenbrock(1e-6), threads=2)
    whole = one.evaluate(theta, one.n_samples)[1]
    np.testing.assert_array_equal(two.evaluate(theta, two.n_samples)[1], whole)
    np.testing.assert_array_equal(one.evaluate(theta[5:6], one.n_samples)[1], whole[5:6])
    state, parts = one.start(theta), []
    for a, b in ((0, 2), (2, 3), (3, one.n_samples)):
        state, increments = one.advance(theta, state, a, b)
        parts.append(increments)
    assert np.concatenate(parts).sum(axis=0) == pytest.approx(whole, rel=1e-12)


def test_units_of_state_and_time_do_not_matter():
    problem = chain_problem()
    counts = solver_steps(build_likelihood(problem, Rosenbrock(1e-6)), problem,
                          np.array([list(CHAIN.values())]))[0]  # fmt: skip
    scaled = smcpn.Problem(
        chain_in_other_units, Record(t=TIMES * 1e6, y=problem.records[0].y * 1e-9),
        observe=["a", "b", "c"], noise=1e-10, prior=problem.prior.distributions,
        initial={"a": 1e-9},
    )  # fmt: skip
    others = solver_steps(build_likelihood(scaled, Rosenbrock(1e-6)), scaled,
                          np.array([list(CHAIN.values())]))[0]  # fmt: skip
    assert counts[0] == others[0]


@smcpn.ode
def chain_in_other_units(a, b, c, t, *, kf, ks):
    """`chain` in nano and micro."""
    a, b, c, t = a * 1e9, b * 1e9, c * 1e9, t * 1e-6
    fast, slow, last = kf * a, ks * b * np.exp(-0.1 * t), 0.3 * b * c**2
    return [1e-15 * r for r in (-fast, fast - slow - last, slow + last - 0.2 * c)]


def test_tolerances_and_delays_that_it_cannot_take_are_refused():
    for tolerance in (0.0, 1.0, 1e-12, "fine", True):
        with pytest.raises(InputError, match="tolerance"):
            Rosenbrock(tolerance)
    assert Rosenbrock().begun() == Rosenbrock(1e-7)
    finer = Rosenbrock(1e-6).refined()
    assert finer is not None
    assert finer.tolerance == pytest.approx(1e-6 / 32)
    assert Rosenbrock(1e-10).refined() is None


def test_a_stiff_model_is_simulated_by_its_own_steps():
    record = Record(t=TIMES, y=np.zeros((5, 3)))
    stiff = CHAIN | {"kf": 1e5}
    found = smcpn.simulate(chain, record, stiff, observe=["a", "b", "c"], initial={"a": 1.0})
    plain = chain_of(**stiff)
    exact = solve_ivp(
        plain.rate, (0.0, TIMES[-1]), [1.0, 0.0, 0.0], "Radau", TIMES, jac=plain.slopes, rtol=1e-8,
        atol=1e-12,
    ).y.T  # fmt: skip
    assert found == pytest.approx(exact, abs=1e-6)
    problem = chain_problem()
    posterior = smcpn.laplace(problem, solver=Rosenbrock(1e-7), starts=[list(CHAIN.values())])
    run = posterior.to_posterior(20, seed=1).simulate(problem.records[0])
    assert run.steps == 0
    assert np.isfinite(run.mean).all()
    assert run.solver_variance.max() < 1e-10


@pytest.mark.parametrize("hold", ["zoh", "foh"])
@pytest.mark.parametrize(
    ("solver", "cells"),
    [
        (Rosenbrock(1e-7), 8),
        pytest.param(smcpn.AdaptiveEKF1(2, tolerance=1e-7), 5, marks=pytest.mark.nightly),
    ],
)
def test_states_at_rest_that_an_input_moves_later_are_found(solver, cells, hold):
    @smcpn.ode(sizes={"v": cells})
    def ladder(v, u, *, g):
        flow = g * (np.concatenate([[u], v[:-1]]) - v)
        return flow - np.concatenate([flow[1:], [0.0]])

    u = np.where(np.arange(30) > 5, 1.0, 0.0)
    record = Record(u=u, dt=0.5, y=np.zeros((30, 1)), hold=hold)
    prior = {"g": stats.lognorm(0.5)}
    problem = smcpn.Problem(ladder, record, observe=f"v[{cells - 1}]", noise=0.1, prior=prior)
    found, expected = (
        smcpn.LogLikelihood(problem, solver=solver)([[1.0]])[0]
        for solver in (solver, smcpn.RK4(32))
    )
    assert found == pytest.approx(expected, abs=1e-5)


def test_states_at_rest_that_an_event_moves_are_found():
    start = smcpn.event(when=lambda d, t: t - 2.7, then=lambda d: {"a": 1.0}, direction="rising")

    @smcpn.ode(events=[start])
    def transit(a, b, c, d, e, f, g, h, t, *, k):
        return -k * a, *(k * (x - y) for x, y in pairwise([a, b, c, d, e, f, g, h]))

    t = np.arange(0.0, 15.0, 0.5)
    after = np.maximum(t - 2.7, 0.0)
    exact = np.exp(-after) * after**7 / factorial(7)
    problem = smcpn.Problem(
        transit, Record(t=t, y=exact), observe="h", noise=1e-3, prior={"k": stats.lognorm(0.5)}
    )
    found = smcpn.LogLikelihood(problem, solver=Rosenbrock(1e-7))([[1.0]])[0]
    assert found == pytest.approx(stats.norm.logpdf(np.zeros(len(t)), 0.0, 1e-3).sum(), abs=1e-5)
