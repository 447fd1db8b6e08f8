"""The integrated Wiener process prior, IWP(nu), in coordinates free of the step size.

Coordinates are those of Nordsieck, m_j = h^j x^(j) / j!. The transition is then the Pascal matrix
for any h, and the process noise a constant matrix times h^(2 nu + 1) (PN-SMC eq. 15 with nu in
place of q + 1; other papers print other, wrong exponents).

The product with the Pascal matrix takes additions only: `pascal` does it for graphs, `extrapolate`
in compiled code. At the first sample the derivatives are exact, by repeated Lie derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, factorial
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def transition(order: int) -> Array:
    """Return the Pascal matrix C(j, i), i <= j, (order + 1, order + 1)."""
    size = order + 1
    return np.array([[float(comb(j, i)) for j in range(size)] for i in range(size)])


def pascal(column: Iterable[Any]) -> list[Any]:
    """Multiply the coordinates of one process, graphs or numbers, by the Pascal matrix."""
    moved = list(column)
    order = len(moved) - 1
    for i in range(order):
        for j in range(order - 1, i - 1, -1):
            moved[j] = moved[j] + moved[j + 1]
    return moved


def process_noise_factor(order: int) -> Array:
    """Lower Cholesky factor of the noise of a step of length one, (order + 1, order + 1).

    For a step of length h the covariance is h^(2 order + 1) times the factor's square. In plain
    derivatives its entries are h^(2 nu + 1 - i - j) / ((2 nu + 1 - i - j) (nu - i)! (nu - j)!).
    In coordinates it is D F H F D with H_kl = 1/(k + l + 1) (Hilbert), F the reversal of the order
    of its rows and D = diag(1 / ((nu - i)! i!)). The Hilbert matrix has the Cholesky factor
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


STATIONARY = 1e-14
"""Relative change from step to step below which gains and variance growth count as constant."""
STATIONARY_STEPS = 4


@dataclass(frozen=True)
class SharedGains:
    """Gains and variances of EKF0 at unit diffusion over a grid, which all parameters share.

    With a zeroth-order linearisation and no noise on the residual z = f(x) - x', the covariance
    recursion depends on the grid only. On a uniform grid the gains are stationary after some fifty
    steps, and the variance of the state then grows by the same amount each step.

    Time is counted in steps, so that a step of length h scales variances by h^(2 order + 1).

    gain: (G, order + 1), gain of each step; the last row stays in force.
    innovation: (G,), variance of the residual h f - m_1 at unit diffusion.
    variance: (1 + G,), variance of the state's value after 0, 1, ... of these steps, at unit
        diffusion.
    """

    gain: Array
    innovation: Array
    variance: Array

    def variance_after(self, steps: Any) -> Array:
        """Return the variance of the state's value after numbers of steps, as many as they are."""
        last = len(self.variance) - 1
        growing = self.variance[last] + (self.variance[last] - self.variance[last - 1]) * (
            steps - last
        )
        return np.where(steps <= last, self.variance[np.minimum(steps, last)], growing)


def shared_gains(order: int, n_steps: int) -> SharedGains:
    """Square-root covariance recursion over equal steps, from a state known exactly.

    n_steps: Most steps; the recursion stops where it is stationary.

    Predict L = qr[A L, Q^1/2], s = (L L')_11, K = (L L')_1 / s (PN-SMC eqs. 16-17); the residual
    carries no noise, so L - K L_1 is a factor of the filtered covariance as it stands.
    """
    noise, step = process_noise_factor(order), transition(order)
    factor = np.zeros((order + 1, order + 1))
    gains: list[Array] = []
    innovations: list[float] = []
    variances: list[float] = []
    for _ in range(n_steps):
        factor = lower_factor(step @ factor, noise)
        innovation = float(factor[1] @ factor[1])
        gain = factor @ factor[1] / innovation
        factor = factor - np.outer(gain, factor[1])
        gains.append(gain)
        innovations.append(innovation)
        variances.append(float(factor[0] @ factor[0]))
        if _stationary(gains, variances):
            break
    return SharedGains(np.array(gains), np.array(innovations), np.append(0.0, variances))


def _stationary(gains: list[Array], variances: list[float]) -> bool:
    if len(gains) < STATIONARY_STEPS + 2:
        return False
    recent = np.array(gains[-STATIONARY_STEPS:])
    growth = np.diff(variances[-STATIONARY_STEPS - 1 :])
    return bool(
        np.ptp(recent, axis=0).max() <= STATIONARY * np.abs(recent).max()
        and np.ptp(growth) <= 10 * STATIONARY * max(variances[-1], growth.max())
    )


Indices = NDArray[np.int64]


def extrapolate(mean: Array):
    """Multiply the coordinates of all processes, (order + 1, d), by the Pascal matrix in place."""
    size = mean.shape[0]
    for i in range(size - 1):
        for j in range(size - 2, i - 1, -1):
            for p in range(mean.shape[1]):
                mean[j, p] += mean[j + 1, p]


def extrapolate_rows(rows: Array, row: Indices, p: int, n_columns: int):
    """Multiply the rows of process ``p`` by the Pascal matrix; entry j is in row ``row[j, p]``."""
    size = row.shape[0]
    for i in range(size - 1):
        for j in range(size - 2, i - 1, -1):
            lower, added = rows[row[j, p]], rows[row[j + 1, p]]
            for column in range(n_columns):
                lower[column] += added[column]


def rescale(mean: Array, ratio: float, result: Array):
    """Turn coordinates (order + 1, d) of a step h into those of ``ratio`` h."""
    power = 1.0
    for j in range(mean.shape[0]):
        for p in range(mean.shape[1]):
            result[j, p] = power * mean[j, p]
        power *= ratio


LARGE = 1e300


def taylor_derivatives(
    x: ca.SX, u: ca.SX, t: ca.SX, rhs: ca.SX, order: int
) -> tuple[list[ca.SX], list[ca.SX]]:
    """Derivatives 0..order of the state along x' = rhs, as graphs.

    Returns derivatives (n, 1): x, x', ..., x^(order). Beyond the first, a derivative that does not
    exist at the point (of sqrt or abs to a power, at zero) counts as zero: the filter finds it from
    data; input_derivatives: symbols u', ..., u^(order - 1) that the derivatives depend on.
    """
    inputs = [u, *(ca.SX.sym(f"u_{k}", *u.shape) for k in range(1, order))]
    derivatives = [x, rhs]
    moving = ca.vertcat(x, t, *inputs[:-1])
    rates = ca.vertcat(rhs, 1.0, *inputs[1:])
    while len(derivatives) <= order:
        derivatives.append(ca.jtimes(derivatives[-1], moving, rates))
    finite = [d if k < 2 else _finite_or_zero(d) for k, d in enumerate(derivatives)]
    return finite[: order + 1], inputs[1:]


def _finite_or_zero(values: ca.SX) -> ca.SX:
    return ca.vertcat(
        *[ca.if_else(ca.fabs(v) < LARGE, v, 0.0) for v in ca.vertsplit(ca.densify(values))]
    )
