"""The integrated Wiener process prior, IWP(nu), in coordinates free of the step size.

Coordinates are those of Nordsieck, m_j = h^j x^(j) / j!. The transition is then the Pascal matrix
for any h, and the process noise a constant matrix times h^(2 nu + 1)
(PN-SMC eq. 15 with nu in place of q + 1; other papers print other, wrong exponents).
"""

from __future__ import annotations

from math import comb, factorial

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def transition(order: int) -> Array:
    """Return the Pascal matrix C(j, i), i <= j, (order + 1, order + 1)."""
    size = order + 1
    return np.array([[float(comb(j, i)) for j in range(size)] for i in range(size)])


def process_noise(order: int) -> Array:
    """Covariance gained over a step of length one at unit diffusion, (order + 1, order + 1).

    For a step of length h it is h^(2 order + 1) times this. In plain coordinates the entries are
    h^(2 nu + 1 - i - j) / ((2 nu + 1 - i - j) (nu - i)! (nu - j)!).
    """
    size = order + 1
    noise = np.empty((size, size))
    for i in range(size):
        for j in range(size):
            plain = (2 * order + 1 - i - j) * factorial(order - i) * factorial(order - j)
            noise[i, j] = 1.0 / (plain * factorial(i) * factorial(j))
    return noise


def process_noise_factor(order: int) -> Array:
    """Lower Cholesky factor of `process_noise`, in closed form.

    The noise is D F H F D with H_kl = 1/(k + l + 1) (Hilbert), F the reversal of the order of
    its rows and D = diag(1 / ((nu - i)! i!)). The Hilbert matrix has the Cholesky factor
    L_kl = sqrt(2 l + 1) k!^2 / ((k + l + 1)! (k - l)!); its reversal is brought back to lower
    triangular form by one QR decomposition, which needs no positive definiteness.
    """
    size = order + 1
    factor = np.zeros((size, size))
    for k in range(size):
        for j in range(k + 1):
            factor[k, j] = (
                np.sqrt(2 * j + 1) * factorial(k) ** 2 / (factorial(k + j + 1) * factorial(k - j))
            )
    scale = np.array([1.0 / (factorial(order - i) * factorial(i)) for i in range(size)])
    return lower_factor(scale[:, None] * factor[::-1])


def lower_factor(*factors: Array) -> Array:
    """Lower triangular L with L L' = sum of F F' over the factors, by QR."""
    upper = np.linalg.qr(np.hstack(factors).T, mode="r")
    signs = np.where(np.diag(upper) < 0, -1.0, 1.0)
    return (signs[:, None] * upper).T
