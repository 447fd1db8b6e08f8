from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4
from smcpn.likelihood.transition import step_factor
from smcpn.results.simulation import states as states_module
from smcpn.results.simulation.closed_loop import predict_particles
from smcpn.results.simulation.states import states_of_particles
from smcpn.results.validation import validate
from tests import models
from tests.reference.linear_gaussian import System, joint, kalman, smooth

T, DT, STEPS = 120, 0.2, 2
TRUTH = {"c": 0.3, "q": 0.4}
SENSOR = 0.1


@smcpn.ode
def oscillator(x, v, u, *, c):
    return v, u - c * v - 2.0 * x


def disturbed_problem(record: smcpn.Record, spread: float = 0.3) -> smcpn.Problem:
    return smcpn.Problem(
        oscillator,
        record,
        observe="x",
        noise=SENSOR,
        process_noise={"v": "q"},
        initial={"x": 0.5},
        prior={"c": stats.lognorm(spread, scale=0.3), "q": stats.lognorm(spread, scale=0.4)},
    )


@cache
def step_noise(problem: smcpn.Problem) -> ca.Function:
    """Covariance of the noise of a step of length h, Q(theta, h)."""
    model, h = problem.model.with_numbers(), ca.SX.sym("h")
    factor = step_factor(model, h)
    return ca.Function("Q", [model.theta, h], [factor @ factor.T])


def discrete(problem: smcpn.Problem, c: float, q: float, u: np.ndarray) -> System:
    """The system of a sample: Runge-Kutta steps of the held input, and their noise."""
    A, B, h = np.array([[0.0, 1.0], [-2.0, -c]]), np.array([0.0, 1.0]), DT / STEPS
    powers = [np.linalg.matrix_power(A * h, k) for k in range(5)]
    F = sum(p / f for p, f in zip(powers, (1, 1, 2, 6, 24), strict=True))
    held = h * sum(p / f for p, f in zip(powers[:4], (1, 2, 6, 24), strict=True)) @ B
    Q = np.array(step_noise(problem)([c, q], h))
    whole, noise, forced = np.eye(2), np.zeros((2, 2)), np.zeros((len(u), 2))
    for _ in range(STEPS):
        noise = F @ noise @ F.T + Q
        forced[1:] = forced[1:] @ F.T + np.outer(u[:-1], held)
        whole = F @ whole
    H, start = np.array([[1.0, 0.0]]), np.array([0.5, 0.0])
    return System(whole, noise, H, np.array([[SENSOR**2]]), start, np.zeros((2, 2)), forced)


def assert_exact_states(after: list[Any], problem: smcpn.Problem, record: smcpn.Record) -> None:
    """Evidence and states after each sample, of known parameters, are the Kalman filter's."""
    run = kalman(discrete(problem, 0.3, 0.4, record.u[:, 0]), record.y)
    # Log-evidence by 160 filters of 64 particles has a standard deviation of .1.
    assert abs(after[-1].log_evidence - run.increments.sum()) <= 0.4
    mean = np.array([list(one.state_mean.values()) for one in after])
    sd = np.sqrt(np.diagonal(run.covariance, axis1=1, axis2=2))
    # Means of some 5000 particles; neighbours may share them.
    assert (np.abs(mean - run.mean)[1:] <= 0.2 * sd[1:]).all()
    assert list(after[-1].state_sd.values()) == pytest.approx(sd[-1], rel=0.1)


def simulated(seed: int) -> tuple[smcpn.Problem, np.ndarray]:
    """A problem with a record of the discrete system, and its states (T, 2)."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.choice([-1.0, 1.0], T // 10), 10)
    empty = smcpn.Record(u=u, y=np.zeros(T), dt=DT, hold="zoh", name="disturbed")
    system = discrete(disturbed_problem(empty), *TRUTH.values(), u)
    x, root = np.empty((T, 2)), np.linalg.cholesky(system.Q)
    x[0] = system.m0
    for k in range(1, T):
        x[k] = system.F @ x[k - 1] + system.b[k] + root @ rng.standard_normal(2)
    y = x[:, 0] + SENSOR * rng.standard_normal(T)
    y[40:50] = np.nan
    return disturbed_problem(smcpn.Record(u=u, y=y, dt=DT, hold="zoh", name="disturbed")), x


@pytest.fixture(scope="module")
def problem() -> smcpn.Problem:
    return simulated(1)[0]


def states_at(problem: smcpn.Problem, values: list[list[float]], **more: Any) -> smcpn.States:
    values, options = np.array(values), {"draws": 0, "parameters": len(values), "seed": 0} | more
    weights = np.full(len(values), 1 / len(values))
    record = problem.records[0]
    return states_of_particles(
        problem, RK4(steps=STEPS), "kalman", record, values, weights, **options
    )


def test_filter_and_smoother_are_those_of_the_textbook(problem):
    record = problem.records[0]
    found = states_at(problem, [[0.3, 0.4]], draws=2)
    system = discrete(problem, 0.3, 0.4, record.u[:, 0])
    run = kalman(system, record.y)
    mean, covariance = smooth(system, run)
    dense, _ = joint(system, record.y)
    assert np.allclose(found.mean, mean, rtol=0, atol=1e-9)
    assert np.allclose(found.mean, dense, rtol=0, atol=1e-9)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert np.allclose(found.sd, sd, rtol=0, atol=1e-8)
    assert np.allclose(found.filtered_mean, run.mean, rtol=0, atol=1e-9)
    sd = np.sqrt(np.diagonal(run.covariance, axis1=1, axis2=2))
    assert np.allclose(found.filtered_sd, sd, rtol=0, atol=1e-8)
    assert np.array_equal(found.draws[:, 0], [[0.5, 0.0]] * 2)
    assert (found.sd[1:] <= found.filtered_sd[1:] + 1e-12).all()


def test_states_mix_the_parameters_of_the_posterior(problem):
    pair = [[0.2, 0.3], [0.4, 0.6]]
    one, other = (states_at(problem, [values]) for values in pair)
    mixed = states_at(problem, pair, draws=400)
    assert np.allclose(mixed.mean, (one.mean + other.mean) / 2, rtol=0, atol=1e-12)
    second = (one.sd**2 + one.mean**2 + other.sd**2 + other.mean**2) / 2
    assert np.allclose(mixed.sd, np.sqrt(second - mixed.mean**2), rtol=0, atol=1e-7)
    # 4.5 standard errors of a mean, over 240 of them: false once in 600 seeds.
    assert (np.abs(mixed.draws.mean(axis=0) - mixed.mean) <= 4.5 / 20 * mixed.sd + 1e-12).all()
    assert mixed.draws.shape == (400, T, 2)
    assert mixed.parameters == 2
    assert mixed.measured == (0, None)
    assert repr(mixed) == "<States x, v of disturbed: 120 samples, 400 draws, 2 parameter vectors>"
    assert mixed.to_arrays()["mean"] is mixed.mean


def test_states_are_the_same_bytes_however_few_moments_are_held(problem, monkeypatch):
    pair = [[0.2, 0.3], [0.4, 0.6]]
    whole = states_at(problem, pair, draws=3)
    monkeypatch.setattr(states_module, "NUMBERS", 100)
    pieces = states_at(problem, pair, draws=3)
    assert pieces.mean.tobytes() == whole.mean.tobytes()
    assert pieces.sd.tobytes() == whole.sd.tobytes()
    monkeypatch.setattr(states_module, "NUMBERS", 1)
    assert np.array_equal(states_at(problem, pair).mean, whole.mean)


def test_more_draws_than_memory_should_hold_are_refused(problem):
    with pytest.raises(smcpn.InputError, match="ask for at most"):
        states_at(problem, [[0.2, 0.3]], draws=10**9)


def test_states_need_process_noise():
    problem = models.duffing_problem()
    with pytest.raises(smcpn.InputError, match="needs a problem with process noise"):
        states_at(problem, [[1.0, 0.4, 2.0, 0.5]])


@pytest.fixture(scope="module")
def posterior(problem) -> smcpn.Posterior:
    solver = RK4(steps=STEPS)
    return smcpn.identify(problem, solver=solver, particles=200, seed=1, progress=False)


def test_a_posterior_gives_states_and_predictions(posterior, problem):
    found = posterior.states(draws=2, parameters=50, seed=3)
    again = posterior.states(draws=2, parameters=50, seed=3)
    assert found.draws.tobytes() == again.draws.tobytes()
    assert found.parameters == 50
    assert len(found.plot().axes) == 2
    with pytest.raises(smcpn.InputError, match="leave filter out"):
        posterior.predict(problem.records[0], 5, smcpn.StateFilter(0.1, (0.0, 0.1), (0.1, 0.1)))
    with pytest.raises(smcpn.InputError, match="horizon"):
        posterior.predict(problem.records[0], 0)


def test_predictions_of_one_sample_are_those_of_the_filter(posterior, problem):
    record = problem.records[0]
    values = posterior.values[:1]
    run = kalman(discrete(problem, *values[0], record.u[:, 0]), record.y)
    one = predict_particles(problem, record, values, np.ones(1), 1, None, DT / STEPS)
    assert np.allclose(one.mean[:, 0], run.predicted[:, 0], rtol=0, atol=1e-9)
    variance = run.predicted_covariance[:, 0, 0]
    assert np.allclose(one.process_variance[:, 0], variance, rtol=0, atol=1e-9)
    far = predict_particles(problem, record, values, np.ones(1), T, None, DT / STEPS)
    unseen = kalman(discrete(problem, *values[0], record.u[:, 0]), np.full((T, 1), np.nan))
    assert np.allclose(far.mean[:, 0], unseen.mean[:, 0], rtol=0, atol=1e-9)
    assert np.allclose(far.process_variance[:, 0], unseen.covariance[:, 0, 0], rtol=0, atol=1e-9)
    free = posterior.simulate(record, steps=STEPS)
    assert free.process_variance[0] == 0.0
    assert (free.process_variance[20:] > 0.01).all()


def test_one_step_innovations_are_white_where_free_residuals_are_not(problem):
    record, theta = problem.records[0], np.log([[0.3, 0.4]])
    found = validate(problem, RK4(steps=STEPS), "kalman", theta, np.zeros(1))
    run = kalman(discrete(problem, 0.3, 0.4, record.u[:, 0]), record.y)
    seen = np.isfinite(record.y[:, 0])
    expected = record.y[:, 0] - run.predicted[:, 0]
    expected = expected / np.sqrt(run.predicted_covariance[:, 0, 0] + SENSOR**2)
    part = found.innovations[0]
    assert np.allclose(part.normalised[seen, 0], expected[seen], rtol=0, atol=1e-8)
    assert found.outputs[0].white
    assert found.learned == (True,)
    assert 0.1 < found.process_share < 0.9
    assert found.solver_share == 0.0
    assert not found.responses
    assert "one-step normalised innovations" in str(found)


@pytest.mark.slow
def test_a_report_shows_states_and_the_share_of_process_noise(posterior, tmp_path):
    page = posterior.report(tmp_path / "report.html").read_text()
    assert "<h2>States</h2>" in page
    assert "process noise in the innovation variance" in page


def test_particle_filters_have_the_states_of_the_textbook(problem):
    record, vectors = problem.records[0], 60
    found = states_of_particles(
        problem,
        RK4(steps=STEPS),
        "particle",
        record,
        np.array([[0.3, 0.4]]),
        np.ones(1),
        draws=5,
        parameters=vectors,
        seed=1,
    )
    run = kalman(discrete(problem, 0.3, 0.4, record.u[:, 0]), record.y)
    mean, covariance = smooth(discrete(problem, 0.3, 0.4, record.u[:, 0]), run)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))[1:]
    # The mean of a filter's 64 paths is off by .125 to .2 sd, and 60 filters are independent.
    assert (np.abs(found.mean - mean)[1:] <= 4.5 * 0.2 / np.sqrt(vectors) * sd).all()
    assert np.allclose(found.sd[1:] / sd, 1.0, rtol=0, atol=0.1)
    spread = np.sqrt(np.diagonal(run.covariance, axis1=1, axis2=2))[1:]
    # Of bootstrap filters, from whose 256 particles a measured value leaves a part.
    error = np.abs(found.filtered_mean - run.mean)[1:] / spread
    assert error.max() <= 4.5 * 0.25 / np.sqrt(vectors)
    assert np.allclose(found.filtered_sd[1:] / spread, 1.0, rtol=0, atol=0.1)
    assert found.draws.shape == (5, T, 2)
    assert (np.abs(found.draws[:, 1:] - mean[1:]) <= 6 * sd).all()
