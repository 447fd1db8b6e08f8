"""The shift of a posterior by finer steps, against exact posteriors."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4
from smcpn.likelihood.shift import LARGEST_SHIFT, shift_of_gaussian, shift_of_particles
from smcpn.smc.replicates import SamplerWarning
from tests.targets import LinearRegression


def two_regressions(moved):
    """Likelihoods of the same rows: the log ratio is linear in theta, so the shift is exact."""
    coarse, fine = LinearRegression(40, 3), LinearRegression(40, 3)
    fine.y = fine.y + moved * np.sin(np.arange(40))
    return coarse, fine


def exact_shift(coarse, fine):
    (before, covariance), (after, _) = coarse.moments(), fine.moments()
    moved = after - before
    worst = np.sqrt(moved @ np.linalg.solve(covariance, moved))
    change = fine.log_evidence() - coarse.log_evidence()
    return moved / np.sqrt(np.diag(covariance)), worst, change


@pytest.mark.parametrize("moved", [0.02, 0.3])
def test_particles_find_the_exact_shift(moved):
    coarse, fine = two_regressions(moved)
    mean, covariance = coarse.moments()
    theta = np.random.default_rng(0).multivariate_normal(mean, covariance, 4000)
    change = fine.evaluate(theta, 40)[1] - coarse.evaluate(theta, 40)[1]
    weights = np.full(4000, 1 / 4000)
    found = shift_of_particles("abc", RK4(1), RK4(2), theta, weights, change)
    shifts, worst, log_evidence = exact_shift(coarse, fine)
    # Of a covariance the standard error is about 1 / sqrt(N) of the worst direction's shift.
    tolerance = 5 * worst / np.sqrt(4000)
    assert list(found.parameters.values()) == pytest.approx(list(shifts), abs=tolerance)
    assert found.worst == pytest.approx(worst, abs=tolerance)
    assert found.log_evidence == pytest.approx(log_evidence, abs=tolerance)


def test_a_gaussian_has_the_exact_shift():
    coarse, fine = two_regressions(0.3)
    mean, covariance = coarse.moments()
    score = coarse.x.T @ (fine.y - coarse.y) / coarse.noise**2
    change = (fine.evaluate(mean[None], 40)[1] - coarse.evaluate(mean[None], 40)[1])[0]
    found = shift_of_gaussian("abc", RK4(1), RK4(2), covariance, score, change)
    shifts, worst, log_evidence = exact_shift(coarse, fine)
    assert list(found.parameters.values()) == pytest.approx(list(shifts), rel=1e-9)
    assert found.worst == pytest.approx(worst, rel=1e-9)
    assert found.log_evidence == pytest.approx(log_evidence, rel=1e-9)


def test_noise_of_the_particles_is_no_shift():
    """A change that has nothing to do with 20 parameters: raw regression would say .32."""
    rng = np.random.default_rng(1)
    theta, change = rng.normal(size=(200, 20)), rng.normal(size=200)
    names = [f"p{j}" for j in range(20)]
    found = shift_of_particles(names, RK4(1), RK4(2), theta, np.full(200, 1 / 200), change)
    assert found.worst < 0.2


def test_the_worst_direction_does_not_depend_on_coordinates():
    rng = np.random.default_rng(2)
    theta, mixing = rng.normal(size=(300, 3)), np.array([[1, 0, 0], [0.99, 1e-3, 0], [0, 5, 1e6]])
    weights, change = np.full(300, 1 / 300), theta @ [0.1, 0.2, -0.1] + 0.01 * theta[:, 0] ** 2
    plain = shift_of_particles("abc", RK4(1), RK4(2), theta, weights, change)
    mixed = shift_of_particles("abc", RK4(1), RK4(2), theta @ mixing.T, weights, change)
    assert mixed.worst == pytest.approx(plain.worst, rel=1e-6)
    assert mixed.parameters["a"] == pytest.approx(plain.parameters["a"], rel=1e-9)


def test_a_finer_solution_that_diverges_is_an_infinite_shift():
    theta, change = np.random.default_rng(3).normal(size=(50, 1)), np.zeros(50)
    change[:5] = np.nan
    found = shift_of_particles("a", RK4(1), RK4(2), theta, np.full(50, 0.02), change)
    assert found.worst == np.inf
    assert "steps=1" in found.warnings[0]
    theta_free = shift_of_particles("a", RK4(1), RK4(2), theta, np.full(50, 0.02), np.zeros(50))
    assert theta_free.size == 0.0
    assert not theta_free.warnings


@smcpn.ode
def lag(x, u, *, b):
    """Linear in b, so that the posterior of any number of steps is exact."""
    return b * u - 1.5 * x


def linear_problem():
    u = np.sin(0.4 * np.arange(60))
    record = smcpn.Record(u=u, dt=1.0)
    y = smcpn.simulate(lag, record, {"b": 2.0}, observe="x", steps=32)
    y += 0.05 * np.random.default_rng(0).normal(size=y.shape)
    record = smcpn.Record(u=u, y=y, dt=1.0)
    return smcpn.Problem(lag, record, observe="x", noise=0.05, prior={"b": stats.norm(1, 1)})


def exact_posterior(problem, steps):
    (record,) = problem.records
    response = smcpn.simulate(lag, record, {"b": 1.0}, observe="x", steps=steps).ravel()
    precision = 1 + response @ response / 0.05**2
    return (1 + response @ record.y.ravel() / 0.05**2) / precision, precision**-0.5


@pytest.mark.parametrize("estimate", ["particles", "maximum"])
def test_the_shift_of_a_linear_ode_is_that_of_its_recursions(estimate):
    problem = linear_problem()
    for steps in (1, 2):
        (before, sd), (after, _) = (exact_posterior(problem, n) for n in (steps, 2 * steps))
        if estimate == "maximum":
            found = smcpn.maximise(problem, solver=RK4(steps)).shift
        else:
            found = smcpn.identify(problem, solver=RK4(steps), particles=1000, seed=steps).shift
        # The covariance is that of the coarse recursion, and particles judge by 200: 5 / sqrt(200)
        # of their sd; the step from n to 2 n changes the response itself by a few per cent.
        assert found.parameters["b"] == pytest.approx((after - before) / sd, rel=0.4, abs=0.02)
        assert found.worst == pytest.approx(abs(found.parameters["b"]), rel=0.05, abs=0.02)


def test_coarse_steps_are_warned_of_with_the_parameter_and_its_shift():
    problem = linear_problem()
    with pytest.warns(SamplerWarning, match=r"steps=1 shifts b by [+-]\d.* posterior sd"):
        posterior = smcpn.identify(problem, solver=RK4(1), particles=200, seed=0)
    assert posterior.shift.worst > LARGEST_SHIFT
    assert "steps=2 would shift b by" in posterior.summary()
    assert any("steps=1 shifts b" in w for w in smcpn.maximise(problem, solver=RK4(1)).warnings)


def test_automatic_steps_are_near_their_limit():
    problem = linear_problem()
    exact, sd = exact_posterior(problem, 64)
    for found in (
        smcpn.maximise(problem, solver=RK4()),
        smcpn.identify(problem, solver=RK4(), particles=200, seed=0),
    ):
        mean, _ = exact_posterior(problem, found.solver.steps)
        assert abs(mean - exact) < LARGEST_SHIFT * sd
        assert not found.warnings
