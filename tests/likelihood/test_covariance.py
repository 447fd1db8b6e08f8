"""Steps of a covariance in factors against the textbook's formulas for the matrix."""

from __future__ import annotations

from itertools import chain

import casadi as ca
import numpy as np
import pytest

from smcpn import EKF1
from smcpn.likelihood import covariance
from smcpn.likelihood.conditioned import Filtering
from smcpn.likelihood.covariance import Factor, SharedGains
from smcpn.likelihood.lanes import Grid
from smcpn.pn.iwp import process_noise_factor, transition
from tests.models import predator_prey_problem

pytestmark = pytest.mark.numerics

ORDER, H_RATIO, DIFFUSION = 2, 0.7, (0.3, 1.1)
RATES = np.array([[0.4, -0.6], [0.5, 0.2]])
"""Slopes of the rates by the values of two coupled processes."""


@pytest.fixture(scope="module")
def layout():
    problem, solver = predator_prey_problem(), EKF1(ORDER, 2, diffusion=1.0)
    return Filtering(problem, solver, Grid.of(problem.records)).symbols.conditioned.layout


@pytest.fixture(scope="module")
def slopes():
    return {((k, 1), (j, 0)): ca.SX(RATES[k, j]) for k in (0, 1) for j in (0, 1)}


@pytest.fixture(scope="module")
def factor(layout, slopes):
    """A covariance that three steps from a known state have left."""
    (block,) = layout.blocks
    result = covariance.zero_covariance(block)
    for _ in range(3):
        _, result = covariance.step(layout, block, result, slopes, [ca.SX(d) for d in DIFFUSION])
    return result


def dense(block, factor: Factor) -> np.ndarray:
    """L D L' in the order value, rate, second derivative of one process, then of the other."""
    lower = np.array(ca.DM(ca.evalf(ca.vertcat(*[ca.horzcat(*row) for row in factor.rows]))))
    pivots = np.array(ca.DM(ca.evalf(ca.vertcat(*factor.pivots)))).ravel()
    places = [covariance.entries(block).index((k, i)) for k in (0, 1) for i in range(ORDER + 1)]
    return ((lower * pivots) @ lower.T)[np.ix_(places, places)]


def of_rates() -> np.ndarray:
    """Rows that select rate - f of both processes."""
    rows = np.zeros((2, 6))
    for k in (0, 1):
        rows[k, 3 * k + 1] = 1.0
        rows[k, [0, 3]] -= RATES[k]
    return rows


def conditioned(p: np.ndarray, h: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gain and covariance of a Kalman update."""
    s = h @ p @ h.T + noise
    gain = p @ h.T @ np.linalg.inv(s)
    return gain, p - gain @ s @ gain.T


def test_step(layout, slopes, factor):
    (block,) = layout.blocks
    before = [*chain(*factor.rows), *factor.pivots]
    noise = [ca.SX(d) for d in DIFFUSION]
    gain, after = covariance.step(layout, block, factor, slopes, noise)
    a = np.kron(np.eye(2), transition(ORDER))
    noise_factor = process_noise_factor(ORDER)
    q = np.kron(np.diag(DIFFUSION), noise_factor @ noise_factor.T)
    predicted, h = a @ dense(block, factor) @ a.T + q, of_rates()
    _, expected = conditioned(predicted, h, np.zeros((2, 2)))
    np.testing.assert_allclose(dense(block, after), expected, atol=1e-14)
    first, second = gain.variances
    innovation = np.linalg.det(h @ predicted @ h.T)
    assert float(ca.evalf(first * second)) == pytest.approx(innovation)
    kept = [*chain(*factor.rows), *factor.pivots]
    assert all(ca.is_equal(x, y) for x, y in zip(before, kept, strict=True))


def test_condition_on_output(layout, factor):
    (block,) = layout.blocks
    slope, h = {(0, 0): ca.SX(1.5), (1, 0): ca.SX(-0.5)}, np.array([[1.5, 0, 0, -0.5, 0, 0]])
    p = dense(block, factor)
    (after,), gain = covariance.condition_on_output(layout, [factor], slope, ca.SX(0.2))
    expected_gain, expected = conditioned(p, h, np.array([[0.2]]))
    np.testing.assert_allclose(dense(block, after), expected, atol=1e-14)
    by_entry = [float(ca.evalf(gain.by_entry[k, i])) for k in (0, 1) for i in range(ORDER + 1)]
    np.testing.assert_allclose(by_entry, expected_gain.ravel(), rtol=1e-12)
    spread = (h @ p @ h.T).item()
    assert float(ca.evalf(gain.spread)) == pytest.approx(spread)
    assert float(ca.evalf(gain.variance)) == pytest.approx(spread + 0.2)
    found = covariance.output_covariance(layout, [factor], [slope])
    assert float(ca.evalf(found)) == pytest.approx(spread)


def test_rescale_and_restart(layout, slopes, factor):
    (block,) = layout.blocks
    p, powers = dense(block, factor), np.tile(H_RATIO ** np.arange(3.0), 2)
    rescaled = covariance.rescale(block, factor, ca.SX(H_RATIO))
    np.testing.assert_allclose(dense(block, rescaled), p * np.outer(powers, powers), atol=1e-15)
    second = {((k, 2), (k, 0)): ca.SX(0.9) for k in (0, 1)}
    lift = np.zeros((6, 2))
    for k in (0, 1):
        lift[3 * k, k], lift[3 * k + 1], lift[3 * k + 2, k] = 1.0, RATES[k], 0.9
    restarted = covariance.restart(block, factor, slopes | second)
    values = p[np.ix_([0, 3], [0, 3])]
    np.testing.assert_allclose(dense(block, restarted), lift @ values @ lift.T, atol=1e-15)


def test_shared_gains_are_symbols_in_order():
    p, q = ca.SX.sym("p"), ca.SX.sym("q")
    first, gains = SharedGains("gain").replace([p, ca.SX(1.0), q])
    second, more = gains.replace([p * q])
    assert [str(value) for value in (*first, *second)] == ["gain_0", "1", "gain_1", "gain_2"]
    assert [str(value) for value in more.values] == ["p", "q", "(p*q)"]
    assert len(gains.symbols) == 2
