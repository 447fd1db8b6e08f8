"""EKF0 of PN-SMC in plain numba, to be read beside the paper: a second opinion on the kernels.

Longbottom et al. (2024), arXiv:2404.12923, eqs. 16-21, for an equation ``f(x, u, t, p, out)`` that
numba has compiled, a record of equal intervals whose input is smooth or none, and one measured
state with Gaussian noise. It needs no more than f. Particles are the innermost loop.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tests.reference.wiener import process_noise, transition

Array = NDArray[np.float64]


def gains(order: int, h: float, steps: int) -> tuple[Array, Array, Array]:
    """Gain K (steps, q + 1), innovation variance s (steps,) and variance (steps,) of the state.

    They depend on no parameter, and all particles and states share them.
    """
    A, Q = (np.asarray(of(order, h), dtype=float) for of in (transition, process_noise))
    covariance = np.zeros((order + 1, order + 1))
    made = np.empty((steps, order + 1)), np.empty(steps), np.empty(steps)
    for n in range(steps):
        predicted = A @ covariance @ A.T + Q
        s = predicted[1, 1]
        gain = predicted[:, 1] / s
        covariance = predicted - s * np.outer(gain, gain)
        # What was observed without error has no variance left.
        covariance[1], covariance[:, 1] = 0.0, 0.0
        made[0][n], made[1][n], made[2][n] = gain, s, covariance[0, 0]
    return made


def log_likelihoods(
    f: Any,
    start: Array,
    theta: Array,
    y: Array,
    *,
    interval: float,
    steps: int,
    observed: int,
    sd: float,
) -> Array:
    """Log p(y | theta) of each particle, (N,).

    start: (d, q + 1, N), each state at the first sample and its first q derivatives.
    theta: (p, N)
    y: (T,), measured values of one state.
    interval: Between samples; the solver takes ``steps`` in it.
    observed: Which state is measured, with standard deviation ``sd``.
    """
    order, h = start.shape[1] - 1, interval / steps
    shared = gains(order, h, steps * (len(y) - 1))
    A = np.asarray(transition(order, h), dtype=float)
    return _filter(
        f, start.copy(), np.ascontiguousarray(theta), y, h, steps, observed, sd, A, *shared
    )


@numba.njit(error_model="numpy", fastmath={"contract"})
def _filter(f, m, theta, y, h, steps, observed, sd, A, gain, s, variance):
    d, size, particles = m.shape
    squares = np.zeros((d, particles))
    total = np.zeros(particles)
    rates = np.empty((d, particles))
    nothing = np.empty(0)
    for k in range(len(y)):
        for j in range(steps if k > 0 else 0):
            n = (k - 1) * steps + j
            _predict(m, A)
            for i in range(particles):
                f(m[:, 0, i], nothing, (n + 1) * h, theta[:, i], rates[:, i])
            for state in range(d):
                for i in range(particles):
                    # Eq. 17; the squares are those of eq. 19.
                    z = rates[state, i] - m[state, 1, i]
                    squares[state, i] += z * z / s[n]
                    for q in range(size):
                        m[state, q, i] += gain[n, q] * z
        steps_so_far = k * steps
        for i in range(particles):
            # Eqs. 19 to 21: solver error and noise add.
            S = sd * sd
            if k > 0:
                S += squares[observed, i] / steps_so_far * variance[steps_so_far - 1]
            v = y[k] - m[observed, 0, i]
            total[i] -= 0.5 * (v * v / S + np.log(2.0 * np.pi * S))
    return total


@numba.njit(error_model="numpy", fastmath={"contract"})
def _predict(m, A):
    """Eq. 16 of all states and particles, in place: a row needs those below it only."""
    d, size, particles = m.shape
    for state in range(d):
        for row in range(size):
            for column in range(row + 1, size):
                for i in range(particles):
                    m[state, row, i] += A[row, column] * m[state, column, i]
