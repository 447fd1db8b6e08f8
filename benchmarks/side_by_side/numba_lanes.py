# type: ignore - written as users write, against packages that need not be installed
"""The same log-likelihood as an expert writes it: 64 parameter vectors in the innermost loop.

LLVM then works on eight or sixteen of them with one instruction.
"""

from __future__ import annotations

# user code begins
import numpy as np
from numba import njit, prange

FAST = {"contract", "reassoc", "nsz", "arcp", "afn"}
LANES = 64


@njit(parallel=True, fastmath=FAST, error_model="numpy")
def log_likelihood(theta, state, u, y, h, noise):
    """Sum over the samples, (N,); ``state`` (N, 2) is carried on to the last of them."""
    total = np.empty(len(theta))
    for block in prange((len(theta) + LANES - 1) // LANES):
        first = block * LANES
        count = min(LANES, len(theta) - first)
        w, c, k, k3 = np.ones(LANES), np.ones(LANES), np.ones(LANES), np.ones(LANES)
        x, v, squares = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
        for j in range(count):
            w[j], c[j] = np.exp(-theta[first + j, 0]), np.exp(theta[first + j, 1])
            k[j], k3[j] = np.exp(theta[first + j, 2]), np.exp(theta[first + j, 3])
            x[j], v[j] = state[first + j]
        for n in range(len(y)):
            for s in range(0, u.shape[1] - 1, 2):
                begin, middle, end = u[n, s], u[n, s + 1], u[n, s + 2]
                for j in range(LANES):
                    x1, v1 = x[j], v[j]
                    a1 = (begin - c[j] * v1 - k[j] * x1 - k3[j] * x1 * x1 * x1) * w[j]
                    x2, v2 = x1 + h / 2 * v1, v1 + h / 2 * a1
                    a2 = (middle - c[j] * v2 - k[j] * x2 - k3[j] * x2 * x2 * x2) * w[j]
                    x3, v3 = x1 + h / 2 * v2, v1 + h / 2 * a2
                    a3 = (middle - c[j] * v3 - k[j] * x3 - k3[j] * x3 * x3 * x3) * w[j]
                    x4, v4 = x1 + h * v3, v1 + h * a3
                    a4 = (end - c[j] * v4 - k[j] * x4 - k3[j] * x4 * x4 * x4) * w[j]
                    x[j] = x1 + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
                    v[j] = v1 + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
            for j in range(LANES):
                squares[j] += (y[n] - x[j]) ** 2
        for j in range(count):
            state[first + j] = x[j], v[j]
            total[first + j] = -0.5 * squares[j] / noise**2
    return total


# user code ends
