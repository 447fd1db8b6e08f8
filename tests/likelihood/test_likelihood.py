from __future__ import annotations

from itertools import product

import casadi as ca
import numpy as np
import pytest
from scipy import linalg, stats

import smcpn
from smcpn import EKF0, RK4, Problem, Record
from smcpn.likelihood.measurement import gaussian_log_density
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.problem import Model
from tests.models import PROBLEMS, duffing_problem, forced_input
from tests.nightly import nightly_but
from tests.reference.likelihoods import ekf0

pytestmark = pytest.mark.numerics

SOLVERS = [EKF0(order=1, steps=3), EKF0(order=3, steps=2), EKF0(order=5, steps=16), RK4(steps=2)]


def draws(problem: Problem, size: int, seed: int = 0) -> np.ndarray:
    prior = problem.prior
    return prior.natural(prior.sample(np.random.default_rng(seed), size))


def only_record(model: Model, number: int) -> Model:
    from dataclasses import replace

    return replace(model, initial=(model.initial[number],))


@pytest.mark.parametrize(
    ("problem", "order"),
    nightly_but(
        [(name, 1 + k) for k, name in enumerate(PROBLEMS)] + [("duffing", 4)],
        product(PROBLEMS, range(1, 7)),
    ),
    indirect=["problem"],
)
def test_kernel_follows_the_plain_recursion(problem, order):
    """Increment by increment, over states, derivatives, functions, records, grids, holds."""
    steps = {4: 12, 5: 24, 6: 64}.get(order, 6)
    values = draws(problem, 3)[:2]
    likelihood = build_likelihood(problem, EKF0(order=order, steps=steps))
    _, increments = likelihood.advance(values, likelihood.start(values), 0, problem.n_samples)
    for particle, theta in enumerate(values):
        reference = np.concatenate(
            [
                ekf0(only_record(problem.model, k), record, theta, order, steps).increments
                for k, record in enumerate(problem.records)
            ]
        )
        assert np.isfinite(reference).all()
        np.testing.assert_allclose(
            increments[:, particle], reference, rtol=1e-10, atol=1e-10 * np.abs(reference).max()
        )


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_stream_equals_browse(problem, solver):
    values = draws(problem, 70)
    likelihood = build_likelihood(problem, solver)
    n = likelihood.n_samples
    state, total = likelihood.start(values), np.zeros(70)
    for a, b in zip([0, 1, 8, n - 5], [1, 8, n - 5, n], strict=True):
        state, increments = likelihood.advance(values, state, a, b)
        total += increments.sum(axis=0)
    browsed_state, browsed = likelihood.evaluate(values, n)
    alive = np.isfinite(browsed)
    assert alive.any()
    np.testing.assert_allclose(total[alive], browsed[alive], rtol=1e-10)
    np.testing.assert_array_equal(state, browsed_state)


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_same_bytes_in_any_company_and_on_any_thread(solver):
    problem = duffing_problem()
    values = draws(problem, 1500)
    one = build_likelihood(problem, solver, threads=1).evaluate(values, 60)[1]
    two = build_likelihood(problem, solver, threads=2).evaluate(values, 60)[1]
    alone = build_likelihood(problem, solver).evaluate(values[701:702], 60)[1]
    shuffled = build_likelihood(problem, solver).evaluate(values[::-1], 60)[1]
    assert one.tobytes() == two.tobytes()
    assert alone[0] == one[701]
    assert shuffled[::-1].tobytes() == one.tobytes()


def linear_model(order_of_dynamics: np.ndarray):
    """A stable linear system x' = F x + b u with F given, as an ODE without parameters to learn."""

    @smcpn.ode
    def linear(x, v, u, *, k):
        f = order_of_dynamics
        return f[0, 0] * x + f[0, 1] * v, f[1, 0] * k * x + f[1, 1] * v + u

    return linear


F = np.array([[0.0, 1.0], [-2.0, -0.4]])


def linear_problem(n: int = 80, hold: str = "foh", **changes) -> Problem:
    u = forced_input(n, 0.2, seed=5)
    y = stats.norm.rvs(size=n, random_state=1)
    return Problem(
        linear_model(F),
        Record(u=u, y=y, dt=0.2, hold=hold),
        **({"observe": "x", "noise": 0.3, "prior": {"k": stats.lognorm(0.1)}} | changes),
    )


def textbook_kalman(problem: Problem, order: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """EKF0 on x' = F x + B u as a Kalman filter of the stacked state in matrix exponentials.

    The filter conditions on x' - f = 0, with f = F x + B u evaluated at the predicted mean and no
    derivative: EKF0's only approximation. Everything else is generic linear-Gaussian filtering.
    """
    record = problem.records[0]
    d, size, h = 2, order + 1, 0.2 / steps
    drift = np.kron(np.diag(np.ones(order), 1), np.eye(d))
    diffusion = np.zeros((size * d, size * d))
    diffusion[-d:, -d:] = np.eye(d)
    van_loan = linalg.expm(h * np.block([[-drift, diffusion], [np.zeros_like(drift), drift.T]]))
    a = van_loan[size * d :, size * d :].T
    q = a @ van_loan[: size * d, size * d :]
    e0, e1 = np.kron(np.eye(size)[0], np.eye(d)), np.kron(np.eye(size)[1], np.eye(d))
    b = np.array([0.0, 1.0])
    mean, covariance = np.zeros(size * d), np.zeros((size * d, size * d))
    means, covariances, squares = [mean[:d]], [np.zeros((d, d))], np.zeros(d)
    for k in range(len(record) - 1):
        # The linear input bends at the samples: derivatives restart at their exact values.
        u_dot = (record.u[k + 1, 0] - record.u[k, 0]) / 0.2
        blocks = [mean[:d], F @ mean[:d] + b * record.u[k, 0]]
        blocks.append(F @ blocks[1] + b * u_dot)
        while len(blocks) < size:
            blocks.append(F @ blocks[-1])
        mean = np.concatenate(blocks[:size])
        covariance = np.kron(np.diag(np.eye(size)[0]), covariance[:d, :d])
        for j in range(steps):
            mean, covariance = a @ mean, a @ covariance @ a.T + q
            weight = (j + 1) / steps
            u = (1 - weight) * record.u[k, 0] + weight * record.u[k + 1, 0]
            residual = F @ (e0 @ mean) + b * u - e1 @ mean
            s = e1 @ covariance @ e1.T
            gain = covariance @ e1.T @ np.linalg.inv(s)
            mean = mean + gain @ residual
            complement = np.eye(size * d) - gain @ e1
            covariance = complement @ covariance @ complement.T
            squares += residual**2 / np.diag(s)
        scale = squares / (steps * (k + 1))
        means.append(e0 @ mean)
        covariances.append(np.diag(scale) * (e0 @ covariance @ e0.T))
    return np.array(means), np.array(covariances)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_mean_and_covariance_against_a_textbook_kalman_filter(order):
    problem = linear_problem()
    solution = ekf0(problem.model, problem.records[0], np.ones(1), order, 4)
    means, covariances = textbook_kalman(problem, order, 4)
    np.testing.assert_allclose(solution.mean, means, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(solution.covariance, covariances, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize(
    ("order", "expected"),
    nightly_but([(2, 3), (4, 5), ("rk4", 4)], [(1, 2), (2, 3), (3, 4), (4, 5), ("rk4", 4)]),
)
def test_order_of_convergence(order, expected):
    """Global order of the mean on x'' = -2 x - 0.4 x' + sin(1.3 t), against the exact solution."""
    record = Record(u=lambda t: np.sin(1.3 * t), t=0.2 * np.arange(30))
    model = linear_problem().model
    block = np.zeros((4, 4))
    block[:2, :2], block[1, 2], block[2, 3], block[3, 2] = F, 1.0, 1.3, -1.3
    exact = np.array([(linalg.expm(block * t) @ [0, 0, 0, 1.0])[0] for t in record.t])
    errors = []
    for steps in (16, 32):
        if order == "rk4":
            mean = smcpn.simulate(linear_model(F), record, {"k": 1.0}, observe="x", steps=steps)[
                :, 0
            ]
        else:
            mean = ekf0(model, record, np.ones(1), order, steps).mean[:, 0]
        errors.append(np.abs(mean - exact).max())
    slope = np.log2(errors[0] / errors[1])
    assert abs(slope - expected) < 0.3, (slope, errors)


def exact_linear(record: Record) -> np.ndarray:
    """x at the samples under a linear input between them, by the matrix exponential."""
    block = np.zeros((4, 4))
    block[:2, :2], block[1, 2], block[2, 3] = F, 1.0, 1.0
    step = linalg.expm(block * 0.2)
    state, values = np.zeros(2), [0.0]
    for k in range(len(record) - 1):
        slope = (record.u[k + 1, 0] - record.u[k, 0]) / 0.2
        state = (step @ np.concatenate([state, [record.u[k, 0], slope]]))[:2]
        values.append(state[0])
    return np.array(values)


@pytest.mark.parametrize(
    ("hold", "order"), nightly_but([("zoh", 2), ("foh", 3)], product(["zoh", "foh"], [2, 3]))
)
def test_jumps_and_bends_of_the_input_do_not_lower_the_order(hold, order):
    """Against RK4, which integrates each interval by itself, on an irregular grid."""
    rng = np.random.default_rng(0)
    t = np.cumsum(rng.uniform(0.1, 0.3, 50))
    record = Record(u=rng.normal(size=50), t=t, hold=hold)
    model = linear_problem().model
    exact = smcpn.simulate(linear_model(F), record, {"k": 1.0}, observe="x", steps=64)[:, 0]
    solutions = [ekf0(model, record, np.ones(1), order, steps) for steps in (2, 8, 16)]
    errors = [np.abs(s.mean[:, 0] - exact).max() for s in solutions]
    assert np.log2(errors[1] / errors[2]) > order + 0.7, errors
    # And the claimed error is of the size of the error.
    ratio = np.abs(solutions[0].mean[1:, 0] - exact[1:]) / np.sqrt(
        solutions[0].covariance[1:, 0, 0]
    )
    assert 0.05 < np.median(ratio) < 3


def test_classical_is_gaussian_noise_around_the_exact_solution():
    problem = linear_problem()
    record = problem.records[0]
    _, loglik = build_likelihood(problem, RK4(steps=16)).evaluate(np.ones((1, 1)), len(record))
    exact = stats.norm(exact_linear(record), 0.3).logpdf(record.y[:, 0]).sum()
    assert loglik[0] == pytest.approx(exact, rel=1e-8)


def test_solver_variance_counts_in_the_likelihood():
    """A coarse EKF0 says that it does not know: its innovation variance exceeds the noise."""
    problem = linear_problem(noise=1e-3)
    coarse = ekf0(problem.model, problem.records[0], np.ones(1), 2, 1)
    fine = ekf0(problem.model, problem.records[0], np.ones(1), 2, 16)
    exact = exact_linear(problem.records[0])
    errors = np.abs(coarse.mean[1:, 0] - exact[1:])
    sds = np.sqrt(coarse.covariance[1:, 0, 0])
    assert 0.05 < np.median(errors / sds) < 3
    assert fine.covariance[-1, 0, 0] < 1e-3 * coarse.covariance[-1, 0, 0]


def test_all_missing_sample_adds_exactly_nothing():
    problem = duffing_problem()
    likelihood = build_likelihood(problem, EKF0(steps=2))
    values = draws(problem, 5)
    _, increments = likelihood.advance(values, likelihood.start(values), 0, 10)
    np.testing.assert_array_equal(increments[7], 0.0)


@pytest.mark.parametrize("present", [(1, 1, 1), (1, 0, 1), (0, 0, 1), (0, 0, 0)])
def test_gaussian_density_with_missing_outputs(present):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    covariance, v = root @ root.T + np.eye(3), rng.normal(size=3)
    value = float(
        ca.DM(ca.evalf(gaussian_log_density(ca.SX(v), ca.SX(covariance), ca.SX(list(present)))))
    )
    seen = np.array(present, dtype=bool)
    expected = (
        stats.multivariate_normal.logpdf(v[seen], cov=covariance[np.ix_(seen, seen)])
        if seen.any()
        else 0.0
    )
    assert value == pytest.approx(expected, rel=1e-12)


def test_diverged_particle_is_nan_and_leaves_the_others_alone():
    problem = duffing_problem()
    values = draws(problem, 64)
    clean = build_likelihood(problem, EKF0(steps=2)).evaluate(values, 60)[1]
    values[10] = [1.0, 0.0, 1.0, 1e12]
    dirty = build_likelihood(problem, EKF0(steps=2)).evaluate(values, 60)[1]
    assert not np.isfinite(dirty[10])
    np.testing.assert_array_equal(np.delete(dirty, 10), np.delete(clean, 10))


def test_all_problems_are_covered():
    assert len(PROBLEMS) == 4
