"""Reverse passes where particles choose their steps: by tangents, exact slopes, small rings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm

import smcpn
from smcpn import RK4, AdaptiveEKF1, LogLikelihood, Record, Rosenbrock
from smcpn.likelihood import rosenbrock
from tests.likelihood import (
    test_algebraic,
    test_delay,
    test_rosenbrock,
    test_state_events,
)
from tests.model import test_doses

pytestmark = pytest.mark.numerics

CELLS, LOSSES = 26, 22


def ladder_problem() -> smcpn.Problem:
    """A rod of more cells than are one graph, most of which have a loss of their own."""

    @smcpn.ode(sizes={"v": CELLS, "loss": LOSSES})
    def ladder(v, u, *, g, loss):
        flow = g * (np.concatenate([[u], v[:-1]]) - v)
        lost = np.concatenate([loss, np.zeros(CELLS - LOSSES)]) * v
        return flow - np.concatenate([flow[1:], [0.0]]) - lost

    record = Record(u=np.ones(4), t=[0.0, 0.5, 3.0, 40.0], y=np.full((4, 2), 0.3), hold="zoh")
    prior: dict[str, Any] = {"g": stats.lognorm(0.5, scale=20.0)}
    prior |= {f"loss[{k}]": stats.lognorm(0.5, scale=0.1) for k in range(LOSSES)}
    return smcpn.Problem(
        ladder, record, observe=[f"v[{CELLS // 2}]", f"v[{CELLS - 1}]"], noise=0.1, prior=prior
    )


def exact(values: np.ndarray) -> complex:
    """Log-likelihood of `ladder_problem` by matrix exponentials, of complex parameters too."""
    (g, *losses), (record,) = values, ladder_problem().records
    matrix = g * (np.diag(np.ones(CELLS - 1), 1) + np.diag(np.ones(CELLS - 1), -1))
    matrix = matrix - np.diag(matrix.sum(axis=1) + np.pad(losses, (0, CELLS - LOSSES)))
    matrix[0, 0] -= g
    rest = np.linalg.solve(matrix, -g * np.eye(CELLS)[0])
    x = np.array([rest - expm(matrix * t) @ rest for t in record.t])
    off = x[:, [CELLS // 2, CELLS - 1]] - record.y
    return -(off**2).sum() / (2 * 0.1**2) - off.size * np.log(0.1 * np.sqrt(2 * np.pi))


LADDER = np.array([20.0, *np.linspace(0.05, 0.2, LOSSES)])
CASES = {
    "chain": (test_rosenbrock.chain_problem, [1e3, 0.7], Rosenbrock(1e-6)),
    "inputs jump, algebraic": (
        lambda: test_algebraic.rectifier_problem(test_algebraic.driven()),
        list(test_algebraic.RECTIFIER.values()), Rosenbrock(1e-6),
    ),
    "events": (test_state_events.problem, [0.2, 0.8], Rosenbrock(1e-6)),
    "events, explicit": (test_state_events.problem, [0.2, 0.8], RK4(4)),
    "doses": (test_doses.problem, test_doses.VALUES[0], Rosenbrock(1e-6)),
    "dead time": (test_delay.problem, [0.4, 2.0, 0.137], Rosenbrock(1e-6)),
    "covariances": (test_rosenbrock.chain_problem, [1e3, 0.7], AdaptiveEKF1(2, tolerance=1e-4)),
}  # fmt: skip
LOOPED = ("inputs jump, algebraic", "events")
LONG = (*LOOPED, "covariances", "doses", "dead time")


def both(problem: smcpn.Problem, values: Any, solver: Any) -> None:
    """Assert that a likelihood has one gradient by tangents and by a reverse pass."""
    function = LogLikelihood(problem, solver=solver)
    points = values * np.array([[1.0], [0.97], [1.02]])
    assert not function.reverses
    total, gradient = function.value_and_gradient(points)
    assert function._value.reverses
    vars(function)["reverses"] = True
    again, found = function.value_and_gradient(points)
    np.testing.assert_allclose(again, total, rtol=1e-12)
    assert_same(found, gradient, points)


def assert_same(found: np.ndarray, gradient: np.ndarray, points: np.ndarray) -> None:
    """Assert that gradients (N, d) agree to rounding, of the largest one by a relative change."""
    floor = 1e-12 * np.abs(gradient * points).max(axis=1, keepdims=True)
    assert (np.abs((found - gradient) * points) <= 1e-12 * np.abs(gradient * points) + floor).all()


@pytest.mark.parametrize(
    "case",
    [one if one not in LONG else pytest.param(one, marks=pytest.mark.nightly) for one in CASES],
)
def test_reverse_and_forward_mode_agree(case):
    problem, *others = CASES[case]
    both(problem(), *others)


@pytest.mark.parametrize("case", LOOPED)
@pytest.mark.nightly
def test_they_agree_where_stages_run_over_memory(case, monkeypatch):
    monkeypatch.setattr(rosenbrock, "MOST_STATES", 1)
    problem, *others = CASES[case]
    both(problem(), *others)


@pytest.mark.nightly
def test_a_linear_system_of_many_parameters_has_the_exact_gradient():
    function = LogLikelihood(ladder_problem(), solver=Rosenbrock(1e-9))
    assert function.reverses
    values = LADDER * np.array([[1.0], [1.1]])
    total, gradient = function.value_and_gradient(values)
    for k, point in enumerate(values):
        assert total[k] == pytest.approx(exact(point).real, rel=1e-8)
        steps = 1e-20j * np.eye(len(point))
        slopes = [exact(point + step).imag / 1e-20 for step in steps]
        np.testing.assert_allclose(gradient[k], slopes, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [2, 5, 30])
def test_steps_that_a_ring_does_not_hold_are_taken_again(size):
    function = LogLikelihood(test_rosenbrock.chain_problem(), solver=Rosenbrock(1e-6))
    sweep, rows = function._recursion.sweep, function._value.rows
    theta = np.array([[1e3, 2e3, 500.0], [0.7, 0.7, 0.2]])
    total, gradient = sweep.value_and_gradient(function._value.kernel, theta, rows)
    again, found = sweep.value_and_gradient(function._value.kernel, theta, rows, size)
    # Another kernel has taken the steps up to a segment.
    np.testing.assert_allclose(again, total, rtol=1e-13)
    assert_same(found.T, gradient.T, theta.T)


@pytest.mark.nightly
def test_a_gradient_does_not_depend_on_company_one_of_which_diverges():
    function = LogLikelihood(ladder_problem(), solver=Rosenbrock(1e-4))
    values = LADDER * np.exp(0.3 * np.random.default_rng(0).normal(size=(11, 23)))
    values[4, 1:] = -1e3
    total, gradient = function.value_and_gradient(values)
    assert np.isneginf(total[4])
    assert np.isnan(gradient[4]).all()
    assert np.isfinite(np.delete(gradient, 4, axis=0)).all()
    np.testing.assert_array_equal(function.value_and_gradient(values[10:])[1][0], gradient[10])
