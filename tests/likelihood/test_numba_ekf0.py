"""The generated EKF0 kernel against the one that is written by hand in numba."""

import numba
import numpy as np
import pytest
from scipy import stats

import smcpn
from tests.reference.numba_ekf0 import log_likelihoods


@numba.njit
def pendulum(x, u, t, p, out):
    out[0] = x[1]
    out[1] = -p[0] * x[1] - p[1] * np.sin(x[0])


def derivatives(theta: np.ndarray, order: int) -> np.ndarray:
    """The angle and its rate at (1, 0), with their derivatives, (2, order + 1, N)."""
    c, k = theta
    x0, v0 = np.ones_like(c), np.zeros_like(c)
    acceleration = -c * v0 - k * np.sin(x0)
    jerk = -c * acceleration - k * np.cos(x0) * v0
    snap = -c * jerk - k * (np.cos(x0) * acceleration - np.sin(x0) * v0**2)
    series = [x0, v0, acceleration, jerk, snap]
    return np.array([series[: order + 1], series[1 : order + 2]])


@pytest.mark.parametrize(("order", "rtol"), [(1, 1e-11), (2, 1e-6), (3, 1e-6)])
def test_both_are_the_same_number(order, rtol):
    rng = np.random.default_rng(0)
    theta = np.array([[0.1], [2.0]]) * np.exp(0.1 * rng.normal(size=(2, 50)))
    y = np.cos(1.3 * 0.1 * np.arange(40)) + 0.05 * rng.normal(size=40)
    by_hand = log_likelihoods(
        pendulum, derivatives(theta, order), theta, y,
        interval=0.1, steps=2, observed=0, sd=0.05,
    )  # fmt: skip
    equation = smcpn.ode(pendulum, states=["x", "v"], parameters=["c", "k"])
    problem = smcpn.Problem(
        equation, smcpn.Record(y=y, dt=0.1), observe="x", noise=0.05, initial={"x": 1.0, "v": 0.0},
        prior={"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)},
    )  # fmt: skip
    generated = smcpn.LogLikelihood(problem, solver=smcpn.EKF0(order=order, steps=2))(theta.T)
    # Higher derivatives of a compiled function at the start are differences.
    np.testing.assert_allclose(generated, by_hand, rtol=rtol)
