"""Gradients by reverse passes: those by tangents, by complex steps, and what they must not see."""

from __future__ import annotations

from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import AR1, EKF0, RK4, LogLikelihood, Problem, Record
from smcpn.codegen.clock import CLOCK, counted_apart
from smcpn.model.ode import ODE
from tests.likelihood import test_gradient

pytestmark = pytest.mark.numerics

HIDDEN = (3, 3)


@smcpn.ode
def pulled(x, v, u, *, k, c):
    return v, u - k * x - c * v


def coloured_problem() -> Problem:
    """Coloured noise, two records at irregular times with gaps, unknown initial states."""
    rng = np.random.default_rng(3)
    records = []
    for n in (14, 9):
        y = rng.normal(size=(n, 2))
        y[rng.uniform(size=(n, 2)) < 0.2] = np.nan
        records.append(Record(u=rng.normal(size=n), y=y, t=np.cumsum(rng.uniform(0.1, 0.6, n))))
    prior: dict[str, Any] = {name: stats.lognorm(1.0) for name in ("k", "c", "sd", "x0")}
    return Problem(
        pulled,
        records,
        observe=["x", "v"],
        noise=[AR1("sd", "rho"), 0.3],
        prior=prior | {"rho": stats.uniform(0, 1)},
        initial={"x": "x0"},
    )


def disturbed_problem() -> Problem:
    rng = np.random.default_rng(4)
    record = Record(u=rng.normal(size=20), y=rng.normal(size=20), dt=0.2, hold="zoh")
    prior: dict[str, Any] = {name: stats.lognorm(1.0) for name in ("k", "c", "sd", "q")}
    return Problem(pulled, record, observe="x", noise="sd", prior=prior, process_noise={"v": "q"})


OTHERS = {
    "classical, coloured, of varying numbers of steps": (
        coloured_problem, np.array([2.0, 0.3, 0.8, 0.7, 0.6]), "classical", RK4(2, interval=0.1),
    ),
    "marginal, coloured": (
        coloured_problem, np.array([2.0, 0.3, 0.8, 0.7, 0.6]), "marginal", EKF0(2, 2),
    ),
    "kalman": (disturbed_problem, np.array([2.0, 0.3, 0.5, 0.4]), "kalman", RK4(2)),
}  # fmt: skip
CASES = {"classical, coloured, of varying numbers of steps"} | {
    "marginal, irregular", "classical, kinks", "filtering, driven, calibrated",
    "dalton, two records",
}  # fmt: skip
EVERY = test_gradient.EVERY | OTHERS


def made(case: str) -> tuple[LogLikelihood, np.ndarray]:
    """The likelihood of a case, and three points."""
    problem, theta, name, solver = EVERY[case]
    return LogLikelihood(problem(), name, solver), theta * np.array([[1.0], [0.97], [1.02]])


def reversed_gradient(function: LogLikelihood, values: np.ndarray) -> Any:
    vars(function)["reverses"] = True
    return function.value_and_gradient(values)


@pytest.mark.parametrize(
    "case",
    [case if case in CASES else pytest.param(case, marks=pytest.mark.nightly) for case in EVERY],
)
def test_reverse_and_forward_mode_agree(case):
    function, values = made(case)
    assert not function.reverses
    total, gradient = function.value_and_gradient(values)
    again, found = reversed_gradient(function, values)
    np.testing.assert_allclose(again, total, rtol=1e-12)
    floor = 1e-12 * np.abs(gradient * values).max(axis=1, keepdims=True)
    assert (np.abs((found - gradient) * values) <= 1e-11 * np.abs(gradient * values) + floor).all()


def test_a_linear_system_has_the_exact_gradient():
    t, rng = np.arange(15) * 0.2, np.random.default_rng(2)
    y = 3.0 * np.exp(-0.7 * t) + 0.1 * rng.normal(size=15)
    symbols, theta = ca.SX.sym("theta", 3, 1), np.array([0.7, 3.0, 0.1])
    exact = test_gradient.exact_log_density(symbols[0], symbols[1], symbols[2], y, t)
    expected = ca.Function("exact", [symbols], [ca.gradient(exact, symbols)])(theta)
    function = LogLikelihood(test_gradient.fading_problem(y, t), "classical", RK4(40))
    # The solver's error is 1e-11 of the solution at these steps.
    _, found = reversed_gradient(function, theta[None, :])
    np.testing.assert_allclose(found[0], np.array(expected)[:, 0], rtol=1e-8)


def network(x: ca.SX, weights: ca.SX) -> ca.SX:
    """Network of one input and output with `HIDDEN` units of tanh in its layers."""
    value, k = x, 0
    for width in (*HIDDEN, 1):
        before = value.numel()
        matrix = ca.reshape(weights[k : k + width * before], width, before)
        k += width * before
        value = matrix @ value + weights[k : k + width]
        k += width
        value = value if width == 1 else ca.tanh(value)
    return value


def network_pendulum() -> ODE:
    """A mass on a spring that is a network, of 22 weights."""
    x, u, t = ca.SX.sym("x", 2), ca.SX.sym("u", 0, 1), ca.SX.sym("t")
    w = ca.SX.sym("w", 22)
    rhs = ca.Function("rhs", [x, u, t, w], [ca.vertcat(x[1], network(x[0], w))])
    names = tuple(f"w[{k}]" for k in range(22))
    return ODE("pendulum", ("x", "v"), (), names, {}, rhs, {"x": "v"})


@cache
def network_likelihood() -> LogLikelihood:
    ode = network_pendulum()
    y = np.random.default_rng(5).normal(size=30)
    prior = {name: stats.norm(0, 1) for name in ode.parameters}
    problem = Problem(
        ode, Record(y=y, dt=0.1), observe="x", noise=0.2, prior=prior, initial={"x": 1.0, "v": 0.0}
    )
    return LogLikelihood(problem, solver=RK4(2))


def points(n: int) -> np.ndarray:
    return 0.5 * np.random.default_rng(6).normal(size=(n, 22))


def plain_log_likelihood(weights: np.ndarray, y: np.ndarray) -> complex:
    """Two steps of RK4 between samples 0.1 apart, in numpy."""

    def rate(state: np.ndarray) -> np.ndarray:
        value, k = state[:1], 0
        for width in (*HIDDEN, 1):
            matrix = weights[k : k + width * len(value)].reshape(-1, width).T
            k += matrix.size
            value = matrix @ value + weights[k : k + width]
            k += width
            value = value if width == 1 else np.tanh(value)
        return np.array([state[1], value[0]])

    h, state, total = 0.05, np.array([1.0, 0.0], dtype=complex), 0.0
    for k, observed in enumerate(y):
        for _ in range(2 if k else 0):
            k1 = rate(state)
            k2 = rate(state + h / 2 * k1)
            k3 = rate(state + h / 2 * k2)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(state + h * k3))
        total -= ((observed - state[0]) / 0.2) ** 2 / 2 + np.log(0.2 * np.sqrt(2 * np.pi))
    return total


def test_the_gradient_of_a_network_is_that_of_complex_steps():
    function, (weights,) = network_likelihood(), points(1)
    assert function.reverses
    value, gradient = function.value_and_gradient(weights[None, :])
    y = function.problem.records[0].y[:, 0]
    steps = weights + 1e-30j * np.eye(22)
    expected = np.array([plain_log_likelihood(step, y).imag / 1e-30 for step in steps])
    np.testing.assert_allclose(value, function(weights[None, :]), rtol=1e-13)
    np.testing.assert_allclose(gradient[0], expected, rtol=1e-11, atol=1e-12 * abs(expected).max())


@pytest.mark.parametrize("size", [1, 7, 20, 59, 60])
def test_segments_of_a_record_give_the_same_gradient(size):
    function, theta = network_likelihood(), np.ascontiguousarray(points(3).T)
    sweep, rows = function._recursion.sweep, function._value._rows
    total, gradient = sweep.value_and_gradient(function._value._kernel, theta, rows)
    again, found = sweep.value_and_gradient(function._value._kernel, theta, rows, size)
    np.testing.assert_allclose(again, total, rtol=1e-14)
    np.testing.assert_allclose(found, gradient, rtol=1e-12)


def test_a_gradient_depends_neither_on_company_nor_on_threads(monkeypatch):
    function, values = network_likelihood(), points(37)
    total, gradient = function.value_and_gradient(values)
    monkeypatch.setattr("smcpn.codegen.kernel.INLINE_STEPS", 0)
    threaded = LogLikelihood(function.problem, solver=RK4(2), threads=3)
    for found, expected in zip(threaded.value_and_gradient(values), (total, gradient), strict=True):
        np.testing.assert_array_equal(found, expected)
    with counted_apart() as apart:
        before = CLOCK.run_seconds
        alone = function.value_and_gradient(values[36:])
    assert apart.run_seconds > 0.0
    assert apart.theta_steps == function.steps
    assert CLOCK.run_seconds == before
    np.testing.assert_array_equal(alone[1], gradient[36:])


def test_where_the_solution_diverges_there_is_no_gradient():
    function, values = network_likelihood(), points(3)
    values[1] = 1e200
    total, gradient = function.value_and_gradient(values)
    assert np.isneginf(total[1])
    assert np.isnan(gradient[1]).all()
    expected = function.value_and_gradient(values[::2])
    np.testing.assert_array_equal(gradient[::2], expected[1])


def test_other_records_have_their_gradient():
    function, values = network_likelihood(), points(2)
    (record,) = function.problem.records
    other = function.with_records([Record(y=2.0 * record.y, dt=0.1)])
    fresh = LogLikelihood(other.problem, solver=RK4(2))
    np.testing.assert_array_equal(
        other.value_and_gradient(values)[1], fresh.value_and_gradient(values)[1]
    )
