"""Paths with process noise: against numpy step by step, and in distribution against exact laws."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.likelihood.transition import Transition
from smcpn.model.solver import RK4
from smcpn.results.simulation.simulator import DisturbedSimulator
from tests.reference.van_loan import van_loan


@smcpn.ode
def mass(x, v, u, *, c):
    return v, u - c * v


@smcpn.sde
def stock(price, *, mu, sigma):
    return mu * price, sigma * price


RNG = np.random.default_rng(0)
RECORD = smcpn.Record(u=RNG.normal(size=20), y=np.zeros(20), dt=0.2, hold="foh")


def path(seed: int | None = 0, **arguments: object) -> np.ndarray:
    given = {"observe": ["x", "v"], "steps": 3, "process_noise": {"v": "q"}} | arguments
    return smcpn.simulate(mass, RECORD, {"c": 0.4, "q": 0.3}, seed=seed, **given)


def test_a_path_is_runge_kutta_with_the_factor_of_the_noise() -> None:
    h, u = 0.2 / 3, np.interp(np.arange(58) * 0.2 / 3, 0.2 * np.arange(20), RECORD.u[:, 0])
    exact = van_loan(np.array([[0.0, 1.0], [0.0, -0.4]]), np.array([[0.0], [0.3]]), h)
    rng, x, found = np.random.default_rng(0), np.zeros(2), []

    def rate(state: np.ndarray, force: float) -> np.ndarray:
        return np.array([state[1], force - 0.4 * state[1]])

    # The columns of the factor that the module's documentation gives, to h^(9/2).
    c, q = 0.4 * h, 0.3 * np.sqrt(h)
    first = q * np.array([h * (1 / 2 - c / 6 + c**2 / 24), 1 - c / 2 + c**2 / 6 - c**3 / 24])
    slope = np.sqrt(3) * q
    second = slope * np.array([h * (1 / 6 - c / 12 + c**2 / 40), -c / 6 + c**2 / 12 - c**3 / 40])
    L = np.column_stack([first, second])
    assert np.allclose(L @ L.T, exact, rtol=1e-5)
    # The normals of five intervals of three steps at a time; those of the first sample are of none.
    normals = np.concatenate([rng.standard_normal((30, 1)).reshape(15, 2) for _ in range(5)])[14:]
    for step in range(58):
        if step:
            a, b = u[step - 1], u[step]
            k1 = rate(x, a)
            k2 = rate(x + h / 2 * k1, (a + b) / 2)
            k3 = rate(x + h / 2 * k2, (a + b) / 2)
            k4 = rate(x + h * k3, b)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4) + L @ normals[step]
        if step % 3 == 0:
            found.append(x)
    assert np.allclose(path(), found, rtol=1e-9, atol=1e-12)


def test_the_same_seed_gives_the_same_path() -> None:
    assert path().tobytes() == path().tobytes()
    assert not np.array_equal(path(), path(seed=1))
    assert not np.array_equal(path(seed=None), path(seed=None))


@smcpn.ode
def duffing(x, v, *, c, k):
    return v, -c * v - k * x**3


@smcpn.ode
def quartic(x, *, c, k):
    return c * x - k * x**3


ORDERS = {
    "linear": (mass, {"v": 0.7}, 5),
    "noise on a velocity": (duffing, {"v": 0.7}, 3),
    "additive": (quartic, {"x": 0.7}, 2),
    "state-dependent": (stock, None, 2),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_weak_error_of_a_step_falls_with_the_order_that_is_documented(name: str) -> None:
    """Mean, covariance and third moments after one step and after two of half its length.

    By Gauss-Hermite quadrature over all normals, exact for these polynomials: nothing is random.
    """
    ode, noise, order = ORDERS[name]
    values = dict.fromkeys(ode.parameters, 0.8)
    n = len(ode.states)
    problem = smcpn.Problem(
        ode, RECORD if ode.inputs else NO_INPUT, observe=ode.states[0], noise=1.0,
        prior={p: stats.lognorm(1.0) for p in values}, process_noise=noise,
    )  # fmt: skip
    transition = Transition.of(problem.model.with_numbers(), RK4())
    model, step, factor = problem.model, transition.step, transition.factor
    normals = ca.SX.sym("z", factor.shape[1])
    arguments = [model.x, normals, step.h, model.theta, *step.inputs, step.t]
    move = ca.Function("move", arguments, [transition.following + factor @ normals])
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    grid = np.stack(np.meshgrid(*[nodes] * normals.numel(), indexing="ij")).reshape(
        normals.numel(), -1
    )
    share = np.prod(np.meshgrid(*[weights / weights.sum()] * normals.numel(), indexing="ij"), 0)
    theta, inputs = list(values.values()), [np.zeros(len(ode.inputs))] * 3

    def after(x: np.ndarray, chances: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        states, number = np.repeat(x, grid.shape[1], axis=1), x.shape[1]
        moved = move(states, np.tile(grid, number), h, theta, *inputs, 0.0)
        return np.array(moved), np.outer(chances, share.ravel()).ravel()

    def moments(x: np.ndarray, chances: np.ndarray) -> np.ndarray:
        return np.concatenate([(x**power) @ chances for power in (1, 2, 3)])

    def error(h: float) -> float:
        start = np.linspace(0.5, 0.9, n)[:, None], np.ones(1)
        return np.abs(
            moments(*after(*start, h)) - moments(*after(*after(*start, h / 2), h / 2))
        ).max()

    assert np.log2(error(0.04) / error(0.02)) == pytest.approx(order, abs=0.2)


def test_without_noise_it_is_the_plain_simulation() -> None:
    plain = smcpn.simulate(mass, RECORD, {"c": 0.4}, observe=["x", "v"], steps=3)
    tiny = smcpn.simulate(
        mass, RECORD, {"c": 0.4}, observe=["x", "v"], steps=3, process_noise={"v": 1e-9}, seed=0
    )
    assert 0.0 < np.abs(tiny - plain).max() < 1e-7
    price = smcpn.simulate(
        stock.drift, NO_INPUT, {"mu": 0.1, "sigma": 0.5},
        observe="price", initial=[1.0],
    )  # fmt: skip
    assert np.allclose(price[:, 0], np.exp(0.1 * NO_INPUT.t), rtol=1e-6)


NO_INPUT = smcpn.Record(y=np.zeros(5), dt=0.25)


def problem(ode, record, **arguments):
    return smcpn.Problem(ode, record, noise=1e-3, **arguments)


def test_the_covariance_of_many_paths_is_that_of_the_linear_system() -> None:
    """Variance within 4 standard errors, sqrt(2 / N) of it; correlation within 4 / sqrt(N)."""
    n, prior = 4000, {"c": stats.lognorm(1.0), "q": stats.lognorm(1.0)}
    whole = problem(mass, RECORD, observe="x", prior=prior, process_noise={"v": "q"})
    model, record = whole.model_observing(["x", "v"]), RECORD.unmeasured(2)
    theta = np.tile([[0.4], [0.3]], n)
    simulator = DisturbedSimulator(model, record, 2, 5)
    last = np.concatenate([part for _, _, part in simulator(theta)])[-1]
    exact = van_loan(np.array([[0.0, 1.0], [0.0, -0.4]]), np.array([[0.0], [0.3]]), 19 * 0.2)
    found = np.cov(last)
    assert np.abs(np.diag(found) / np.diag(exact) - 1).max() < 4 * np.sqrt(2 / n)
    rho = exact[0, 1] / np.sqrt(exact[0, 0] * exact[1, 1])
    assert abs(np.corrcoef(last)[0, 1] - rho) < 4 * (1 - rho**2) / np.sqrt(n)


def brownian_error(steps: int, n: int = 40000) -> tuple[float, float]:
    """Error of the second moment of geometric Brownian motion at t = 1, and its standard error."""
    mu, sigma = 0.5, 0.6
    prior = {"mu": stats.lognorm(1.0), "sigma": stats.lognorm(1.0)}
    whole = problem(stock, NO_INPUT, observe="price", prior=prior, initial=[1.0])
    simulator = DisturbedSimulator(whole.model, NO_INPUT, steps, 1)
    last = [part for _, _, part in simulator(np.tile([[mu], [sigma]], n))][-1][-1, 0]
    # The price itself as control variate: its mean exp(mu t) is exact.
    control = last - np.exp(mu)
    slope = np.cov(last**2, control)[0, 1] / control.var()
    values = last**2 - slope * control - np.exp(2 * mu + sigma**2)
    return float(values.mean()), float(values.std() / np.sqrt(n))


def test_noise_that_depends_on_the_state_converges_weakly() -> None:
    """Of order 1: the error halves with the step, within 3 standard errors of the difference.

    After m steps of length h the second moment is exp(2 mu t) (1 + b h)^m with noise frozen over a
    step, so that the error is known too.
    """
    for steps in (1, 2, 8):
        h = 0.25 / steps
        a = 0.5 * h
        # c_0^2 + c_1^2 of the series with A = mu, over h.
        series = (1 + a / 2 + a**2 / 6 + a**3 / 24) ** 2
        series += 3 * (a / 6 + a**2 / 12 + a**3 / 40) ** 2
        one_step = np.exp(2 * a) + 0.36 * h * series
        expected = one_step ** (4 * steps) - np.exp(1.36)
        error, standard_error = brownian_error(steps)
        assert abs(error - expected) < 3.5 * standard_error, (steps, error, expected)
        assert abs(expected) < h


def test_an_equation_without_parameters_can_be_disturbed() -> None:
    @smcpn.ode
    def falling(x):
        return -x

    noise = {"process_noise": {"x": 0.1}, "seed": 0}
    assert smcpn.simulate(falling, NO_INPUT, {}, observe="x", **noise).shape == (5, 1)
    noise["process_noise"] = {"x": 1e300}
    with pytest.raises(smcpn.InputError, match="the path with process noise diverges"):
        smcpn.simulate(falling, NO_INPUT, {}, observe="x", **noise)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"process_noise": {"w": 1}}, "process_noise names 'w', which is no state"),
        ({"process_noise": {"v": "r"}}, "parameter 'r' has no value"),
        ({"process_noise": {"v": "q"}, "parameters": {"c": 1.0, "q": -1.0}}, "fixed to -1"),
        ({"seed": -1, "process_noise": {"v": 1}}, "seed is -1"),
    ],
)
def test_what_does_not_fit_is_one_sentence(arguments: dict, message: str) -> None:
    given = {"parameters": {"c": 1.0}, "observe": "x"} | arguments
    with pytest.raises(smcpn.InputError, match=message):
        smcpn.simulate(mass, RECORD, **given)
