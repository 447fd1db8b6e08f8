"""DALTON and Fenrir of Lotka-Volterra as the difference of two filters, in 80 digits.

So many digits that none of what the difference loses matters: the reference of `data_free`.
Covariances are plain matrices. ``python -m tests.reference.many_digits fenrir 20 0.03 diagonal``
prints the log-likelihood of the problem of `tests.models.predator_prey_problem` at 20 steps per
sample and a diffusion of .03, by an IWP(5) whose EKF1 keeps the diagonal of the Jacobian.
"""

from __future__ import annotations

import sys
from math import comb, factorial
from typing import Any

import numpy as np
from mpmath import log, mp, mpf, nstr, pi
from numpy.typing import NDArray

from tests.models import PREDATOR_PREY, predator_prey_problem

DIGITS = 80
Exact = NDArray[Any]
"""Array of mpmath numbers."""


def exact(values: Any) -> Exact:
    """Numbers as they are, without rounding."""
    return np.vectorize(mpf, otypes=[object])(np.asarray(values, dtype=object))


def zeros(*shape: int) -> Exact:
    """Array of zeros."""
    return exact(np.zeros(shape))


def rates(x: Exact, theta: Exact) -> Exact:
    """The vector field."""
    a, b, c, d = theta
    return np.array([a * x[0] - b * x[0] * x[1], -c * x[1] + d * x[0] * x[1]])


def slopes(x: Exact, theta: Exact, diagonal: bool) -> Exact:
    """Its Jacobian."""
    a, b, c, d = theta
    full = np.array([[a - b * x[1], -b * x[0]], [d * x[1], -c + d * x[0]]])
    return full * exact(np.eye(2)) if diagonal else full


def start(x: Exact, theta: Exact, order: int, h: Any) -> Exact:
    """Power series of the solution, in Nordsieck coordinates."""
    a, b, c, d = theta
    series = [[x[0]], [x[1]]]
    for k in range(order):
        both = sum(series[0][i] * series[1][k - i] for i in range(k + 1))
        series[0].append((a * series[0][k] - b * both) / (k + 1))
        series[1].append((-c * series[1][k] + d * both) / (k + 1))
    return np.array([value * h**i for one in series for i, value in enumerate(one)])


def prior(order: int, h: Any) -> tuple[Exact, Exact]:
    """Transition and process noise of both states at unit diffusion, in Nordsieck coordinates."""
    size = order + 1
    a, q = zeros(2 * size, 2 * size), zeros(2 * size, 2 * size)
    for i in range(size):
        for j in range(size):
            spread = mpf(2 * order + 1 - i - j) * factorial(order - i) * factorial(order - j)
            noise = h ** (2 * order + 1) / (spread * factorial(i) * factorial(j))
            for k in (0, size):
                a[k + i, k + j], q[k + i, k + j] = mpf(comb(j, i)), noise
    return a, q


class Filter:
    """Mean and covariance of an extended Kalman filter."""

    def __init__(self, mean: Exact) -> None:
        self.mean, self.covariance = mean, zeros(len(mean), len(mean))

    def predict(self, a: Exact, q: Exact) -> None:
        """Step of the prior."""
        self.mean, self.covariance = a @ self.mean, a @ self.covariance @ a.T + q

    def given(self, matrix: Exact, innovation: Exact, noise: Any) -> Any:
        """Condition on two values; return -2 log of their density, less the constant."""
        gain = self.covariance @ matrix.T
        s = matrix @ gain + noise * exact(np.eye(2))
        determinant = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = np.array([[s[1, 1], -s[0, 1]], [-s[1, 0], s[0, 0]]]) / determinant
        self.mean = self.mean + gain @ (inverse @ innovation)
        left = self.covariance - gain @ inverse @ gain.T
        # What rounding leaves of a difference to the transpose would grow.
        self.covariance = (left + left.T) / 2
        return log(determinant) + innovation @ inverse @ innovation


def log_likelihood(
    kind: str, order: int, steps: int, diffusion: float, diagonal: bool = False
) -> Any:
    """Log p(y, z) - log p(z); both filters linearise as the data-free one does in fenrir."""
    with mp.workdps(DIGITS):
        theta, x0 = exact(PREDATOR_PREY), exact([5, 3])
        y, noise = exact(predator_prey_problem().records[0].y), mpf(1) / 100
        h, size = mpf(1) / 10 / steps, order + 1
        a, q = prior(order, h)
        q = q * mpf(diffusion) ** 2
        values, tops = [0, size], [1, size + 1]
        initial = start(x0, theta, order, h)
        conditioned, alone = Filter(initial), Filter(initial)
        selected = zeros(2, 2 * size)
        selected[[0, 1], values] = mpf(1)

        def linearised(mean: Exact) -> tuple[Exact, Exact]:
            """Matrix of the residual, and what is to be explained of it."""
            matrix = zeros(2, 2 * size)
            matrix[[0, 1], tops] = mpf(1)
            matrix[:, values] -= slopes(mean[values], theta, diagonal) * h
            return matrix, rates(mean[values], theta) * h - mean[tops]

        total = mpf(0)
        for k, sample in enumerate(y):
            for _ in range(steps if k else 0):
                conditioned.predict(a, q)
                alone.predict(a, q)
                free, unexplained = linearised(alone.mean)
                matrix, innovation = linearised(conditioned.mean)
                if kind == "fenrir":
                    ahead = conditioned.mean - alone.mean
                    matrix, innovation = free, unexplained - free @ ahead
                total += conditioned.given(matrix, innovation, 0)
                total -= alone.given(free, unexplained, 0)
            innovation = sample - conditioned.mean[values]
            total += conditioned.given(selected, innovation, noise) + 2 * log(2 * pi)
        return -total / 2


if __name__ == "__main__":
    kind, steps, diffusion = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    print(nstr(log_likelihood(kind, 5, steps, diffusion, "diagonal" in sys.argv), 16))
