# type: ignore - written as users write, against packages that need not be installed
"""Log-likelihood in numba, one parameter vector after the other on every core."""

from __future__ import annotations

# user code begins
import numpy as np
from numba import njit, prange

FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}


@njit(parallel=True, fastmath=FAST, error_model="numpy")
def log_likelihood(theta, state, u, y, h, noise):
    """Sum over the samples, (N,); ``state`` (N, 2) is carried on to the last of them."""
    total = np.empty(len(theta))
    for i in prange(len(theta)):
        m, c, k, k3 = np.exp(theta[i])
        x, v = state[i]
        squares = 0.0
        for n in range(len(y)):
            for s in range(0, u.shape[1] - 1, 2):
                a1 = (u[n, s] - c * v - k * x - k3 * x**3) / m
                x2, v2 = x + h / 2 * v, v + h / 2 * a1
                a2 = (u[n, s + 1] - c * v2 - k * x2 - k3 * x2**3) / m
                x3, v3 = x + h / 2 * v2, v + h / 2 * a2
                a3 = (u[n, s + 1] - c * v3 - k * x3 - k3 * x3**3) / m
                x4, v4 = x + h * v3, v + h * a3
                a4 = (u[n, s + 2] - c * v4 - k * x4 - k3 * x4**3) / m
                x += h / 6 * (v + 2 * v2 + 2 * v3 + v4)
                v += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
            squares += (y[n] - x) ** 2
        state[i] = x, v
        total[i] = -0.5 * squares / noise**2
    return total


# user code ends
