"""Probabilistic ODE solvers as the textbook writes them, in fifty digits.

Covariances are full matrices in plain coordinates, (x, x', x'', ...) by blocks of derivatives, as
in Saerkkae's *Bayesian Filtering and Smoothing* and in eqs. (5) to (13) of Bosch, Hennig, Tronarp
(2021), 'Calibrated adaptive probabilistic ODE solvers'. Nothing is factorised, preconditioned or
shared, so that nothing here can be wrong in the way of the solver it judges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from mpmath import factorial, fsum, log, matrix, mp, mpf, pi

from tests.reference.wiener import process_noise, transition

DIGITS = 50
Matrix = Any
"""Numpy array of mpmath numbers."""


@dataclass(frozen=True)
class Field:
    """A polynomial vector field and its Jacobian, in whatever arithmetic its arguments bring."""

    rate: Callable[..., Sequence[Any]]
    jacobian: Callable[..., Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Marginals:
    """Means (N + 1, d) and covariances (N + 1, d, d) of the states on the grid."""

    mean: np.ndarray
    covariance: np.ndarray


@dataclass(frozen=True)
class Textbook:
    """Moments and log-likelihood of a solution."""

    filtered: Marginals
    smoothed: Marginals
    log_likelihood: float


class Series:
    """Truncated power series in time, enough to differentiate a polynomial field."""

    def __init__(self, coefficients: Sequence[Any]) -> None:
        self.coefficients = list(coefficients)

    def __add__(self, other: Any) -> Series:
        return Series([a + b for a, b in zip(self.coefficients, self._lift(other), strict=True)])

    def __mul__(self, other: Any) -> Series:
        a, b = self.coefficients, self._lift(other)
        return Series([fsum(a[j] * b[k - j] for j in range(k + 1)) for k in range(len(a))])

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Series:
        return self * -1

    def __sub__(self, other: Any) -> Series:
        return self + other * -1

    def _lift(self, other: Any) -> list[Any]:
        if isinstance(other, Series):
            return other.coefficients
        return [mpf(other)] + [mpf(0)] * (len(self.coefficients) - 1)


def numbers(values: Any) -> Matrix:
    """Array of fifty-digit numbers."""
    return np.vectorize(mpf, otypes=[object])(values)


def initial_derivatives(field: Field, x0: Sequence[float], order: int) -> Matrix:
    """x, x', ..., x^(order) at the begin, by blocks: the coefficients of the power series."""
    series = [[mpf(value)] + [mpf(0)] * order for value in x0]
    for k in range(order):
        rates = field.rate(*[Series(part) for part in series])
        for part, rate in zip(series, rates, strict=True):
            part[k + 1] = rate.coefficients[k] / (k + 1)
    return np.concatenate([[part[k] * factorial(k) for part in series] for k in range(order + 1)])


def inverse(a: Matrix) -> Matrix:
    """Inverse of a square matrix."""
    return np.array(mp.inverse(matrix(a.tolist())).tolist(), dtype=object).reshape(a.shape)


def log_density(z: Matrix, s: Matrix) -> Any:
    """log N(z; 0, s)."""
    determinant = mp.det(matrix(s.tolist()))
    return -(z @ inverse(s) @ z + log(determinant) + len(z) * log(2 * pi)) / 2


def textbook(
    field: Field,
    x0: Sequence[float],
    times: Sequence[float],
    order: int,
    *,
    linearised: str,
    diffusion: str | float,
) -> Textbook:
    """Filter and smoother on a fixed grid.

    field: The ODE.
    x0: State at the first time, known.
    times: The grid.
    order: Integrations of the Wiener process.
    linearised: {"no", "full", "diagonal"}, EKF0, EKF1, EKF1 with the diagonal of the Jacobian.
    diffusion: A standard deviation, or the quasi maximum likelihood of `smcpn.EKF0`.
    """
    with mp.workdps(DIGITS):
        run = _Filter(field, x0, order, linearised, diffusion)
        for begin, end in pairwise(times):
            run.step(mpf(end) - mpf(begin))
        run.calibrate()
        return Textbook(
            run.marginals(run.means, run.covariances),
            run.marginals(*run.smoothed()),
            float(run.log_likelihood()),
        )


class _Filter:
    def __init__(
        self, field: Field, x0: Sequence[float], order: int, linearised: str, diffusion: str | float
    ) -> None:
        self.field, self.order, self.d = field, order, len(x0)
        self.linearised, self.diffusion = linearised, diffusion
        self.unit = numbers(np.eye(self.d))
        size = self.d * (order + 1)
        self.means = [initial_derivatives(field, x0, order)]
        self.covariances = [numbers(np.zeros((size, size)))]
        self.transitions: list[Matrix] = []
        self.predicted: list[tuple[Matrix, Matrix]] = []
        self.innovations: list[tuple[Matrix, Matrix]] = []

    def step(self, h: Any) -> None:
        a = np.kron(transition(self.order, h), self.unit)
        mean = a @ self.means[-1]
        x = mean[: self.d]
        z = numbers(np.array(self.field.rate(*x), dtype=object)) - mean[self.d : 2 * self.d]
        H = self.observation(x)
        q = np.kron(process_noise(self.order, h), self.local_diffusion(h, z, H))
        covariance = a @ self.covariances[-1] @ a.T + q
        s = H @ covariance @ H.T
        gain = covariance @ H.T @ inverse(s)
        self.transitions.append(a)
        self.predicted.append((mean, covariance))
        self.innovations.append((z, s))
        self.means.append(mean + gain @ z)
        self.covariances.append(covariance - gain @ s @ gain.T)

    def observation(self, x: Matrix) -> Matrix:
        """H of the residual x' - f(x), (d, d (order + 1))."""
        H = numbers(np.zeros((self.d, self.d * (self.order + 1))))
        H[:, self.d : 2 * self.d] = self.unit
        jacobian = numbers(np.array(self.field.jacobian(*x), dtype=object))
        if self.linearised == "full":
            H[:, : self.d] = -jacobian
        elif self.linearised == "diagonal":
            H[:, : self.d] = -self.unit * jacobian
        return H

    def local_diffusion(self, h: Any, z: Matrix, H: Matrix) -> Matrix:
        """Diffusion of this step: eqs. (21) and (23) where it is dynamic."""
        if self.diffusion not in ("dynamic", "dynamic-diagonal"):
            known = 1.0 if isinstance(self.diffusion, str) else self.diffusion
            return self.unit * mpf(known) ** 2
        q = np.kron(process_noise(self.order, h), self.unit)
        if self.diffusion == "dynamic":
            return self.unit * (z @ inverse(H @ q @ H.T) @ z) / self.d
        if self.linearised == "full":
            # No diagonal matrix explains z through a full H: (23) as it stands, with E_1.
            return np.diag(z**2) / q[self.d, self.d]
        return np.diag(z**2 / np.diag(H @ q @ H.T))

    def calibrate(self) -> None:
        """Scale by the quasi-MLE of a fixed diffusion, eqs. (16) and (17)."""
        if self.diffusion == "fixed":
            terms = [z @ inverse(s) @ z / self.d for z, s in self.innovations]
            self.rescale(self.unit * fsum(terms) / len(terms))
        elif self.diffusion == "fixed-diagonal":
            terms = [z**2 / np.diag(s) for z, s in self.innovations]
            self.rescale(np.diag(sum(terms) / len(terms)))

    def rescale(self, diffusion: Matrix) -> None:
        """Sigma_0 is zero, so every covariance is that of unit diffusion, scaled by state."""
        root = np.array([mp.sqrt(value) for value in np.diag(diffusion)], dtype=object)
        full = np.outer(np.tile(root, self.order + 1), np.tile(root, self.order + 1))
        self.covariances = [full * covariance for covariance in self.covariances]
        self.predicted = [(mean, full * covariance) for mean, covariance in self.predicted]
        self.innovations = [(z, np.outer(root, root) * s) for z, s in self.innovations]

    def log_likelihood(self) -> Any:
        return fsum(log_density(z, s) for z, s in self.innovations)

    def smoothed(self) -> tuple[list[Matrix], list[Matrix]]:
        """Rauch, Tung and Striebel, eq. (13)."""
        means, covariances = self.means[-1:], self.covariances[-1:]
        for n in reversed(range(len(self.transitions))):
            mean, covariance = self.predicted[n]
            gain = self.covariances[n] @ self.transitions[n].T @ inverse(covariance)
            means.insert(0, self.means[n] + gain @ (means[0] - mean))
            spread = gain @ (covariances[0] - covariance) @ gain.T
            covariances.insert(0, self.covariances[n] + spread)
        return means, covariances

    def marginals(self, means: list[Matrix], covariances: list[Matrix]) -> Marginals:
        d = self.d
        return Marginals(
            np.array([mean[:d] for mean in means], dtype=float),
            np.array([covariance[:d, :d] for covariance in covariances], dtype=float),
        )
