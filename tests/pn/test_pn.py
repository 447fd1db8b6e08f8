from __future__ import annotations

from math import factorial

import casadi as ca
import numpy as np
import pytest
from scipy import linalg

from smcpn.pn.iwp import (
    lower_factor,
    pascal,
    process_noise_factor,
    shared_gains,
    taylor_derivatives,
    transition,
)
from tests.models import lotka_volterra
from tests.reference import wiener
from tests.reference.gauss_markov import Affine, Normal

ORDERS = range(1, 7)


def drift(order: int) -> np.ndarray:
    return np.diag(np.ones(order), 1)


@pytest.mark.parametrize("order", ORDERS)
def test_process_of_the_reference_against_the_matrix_exponential(order):
    """By Van Loan."""
    h, size = 0.3, order + 1
    noise = np.zeros((size, size))
    noise[-1, -1] = 1.0
    block = np.block([[-drift(order), noise], [np.zeros((size, size)), drift(order).T]])
    exponential = linalg.expm(block * h)
    step = exponential[size:, size:].T
    np.testing.assert_allclose(wiener.transition(order, h), step, rtol=1e-10, atol=1e-12)
    covariance = step @ exponential[:size, size:]
    np.testing.assert_allclose(wiener.process_noise(order, h), covariance, rtol=1e-9)
    root = wiener.process_noise_root(order, h)
    np.testing.assert_allclose(root @ root.T, wiener.process_noise(order, h), rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_transition_and_noise_are_those_of_the_process(order):
    """In the coordinates h^j x^(j) / j! they do not depend on h, but for a power."""
    h = 0.3
    scale = np.array([h**j / factorial(j) for j in range(order + 1)])
    expected = scale[:, None] * wiener.transition(order, h) / scale
    np.testing.assert_allclose(transition(order), expected, rtol=1e-10, atol=1e-12)
    column = np.random.default_rng(0).normal(size=order + 1)
    np.testing.assert_allclose(pascal(column), transition(order) @ column, rtol=1e-12, atol=1e-12)
    factor = process_noise_factor(order)
    assert np.array_equal(factor, np.tril(factor))
    expected = scale[:, None] * wiener.process_noise(order, h) * scale
    np.testing.assert_allclose(h ** (2 * order + 1) * factor @ factor.T, expected, rtol=1e-12)


def test_lower_factor_adds_squares():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 3)), rng.normal(size=(3, 5))
    factor = lower_factor(a, b)
    np.testing.assert_allclose(factor @ factor.T, a @ a.T + b @ b.T, rtol=1e-12)
    assert (np.diag(factor) > 0).all()


def recursion(order: int, n_steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gains, innovations and variances of the dense filter, never cut short."""
    size = order + 1
    step = Affine(
        wiener.transition(order, 1.0), np.zeros(size), wiener.process_noise_root(order, 1.0)
    )
    state, gains, innovations, variances = (
        Normal(np.zeros(size), np.zeros((size, size))),
        [],
        [],
        [],
    )
    for _ in range(n_steps):
        state = Normal(np.zeros(size), state.through(step).factor)
        innovations.append(state.covariance[1, 1])
        # A residual of one moves the mean by the gain.
        state, _ = state.given(np.eye(size)[1:2], np.ones(1), np.zeros((1, 1)))
        gains.append(state.mean / [factorial(j) for j in range(size)])
        variances.append(state.covariance[0, 0])
    return np.array(gains), np.array(innovations), np.array(variances)


@pytest.mark.parametrize("order", ORDERS)
def test_shared_gains_against_the_plain_recursion(order):
    """Cut at the stationary gain, and continued by its constant growth."""
    shared, (gains, innovations, variances) = shared_gains(order, 600), recursion(order, 600)
    n = len(shared.gain)
    assert n < 400
    np.testing.assert_allclose(shared.gain, gains[:n], rtol=1e-10)
    np.testing.assert_allclose(gains[n:] - shared.gain[-1], 0.0, atol=1e-12)
    np.testing.assert_allclose(shared.innovation, innovations[:n], rtol=1e-10)
    np.testing.assert_allclose(shared.variance_after(np.arange(1, 601)), variances, rtol=1e-9)
    np.testing.assert_allclose(shared.gain[:, 1], 1.0, rtol=1e-12)


def test_taylor_derivatives_of_lotka_volterra():
    """Golden values of the Fenrir paper's problem, x0 = (5, 3), theta = (2, 1, 4, 1)."""
    x, u, t = ca.SX.sym("x", 2), ca.SX(0, 1), ca.SX.sym("t")
    rhs = lotka_volterra.rhs(x, u, t, ca.DM([2.0, 1.0, 4.0, 1.0]))
    derivatives, _ = taylor_derivatives(x, u, t, rhs, 5)
    values = ca.Function("f", [x], [ca.horzcat(*derivatives)])([5.0, 3.0])
    golden = [(5, 3), (-5, 3), (-10, -12), (100, -72), (170, 318), (-5120, 4188)]
    np.testing.assert_array_equal(np.array(values).T, golden)


def test_taylor_derivatives_follow_input_and_time():
    x, u, t = ca.SX.sym("x"), ca.SX.sym("u"), ca.SX.sym("t")
    derivatives, rates = taylor_derivatives(x, u, t, -x + u * t, 3)
    values = ca.Function("f", [x, u, t, ca.vertcat(*rates)], [ca.horzcat(*derivatives)])
    # x' = -x + ut, x'' = -x' + u't + u, x''' = -x'' + u''t + 2u'
    np.testing.assert_allclose(np.array(values(1.0, 2.0, 3.0, [0.5, 0.25]))[0], [1, 5, -1.5, 3.25])


def test_missing_higher_derivatives_count_as_zero():
    x, u, t = ca.SX.sym("x"), ca.SX(0, 1), ca.SX.sym("t")
    derivatives, _ = taylor_derivatives(x, u, t, 1 - ca.sqrt(x), 3)
    values = np.array(ca.Function("f", [x], [ca.horzcat(*derivatives)])(0.0))[0]
    np.testing.assert_array_equal(values, [0, 1, 0, 0])
