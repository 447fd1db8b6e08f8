"""What the value of one output says: Gaussian noise, or any other density, as graphs."""

from __future__ import annotations

from math import log, pi
from typing import Protocol

import casadi as ca

from smcpn.likelihood.covariance import Gain
from smcpn.model.problem import Model

# ---- The Gaussian density of one sample, as an expression graph.


def gaussian_log_density(innovation: ca.SX, covariance: ca.SX, present: ca.SX) -> ca.SX:
    """Log N(innovation; 0, covariance) over the outputs that are present.

    Parameters
    ----------
    innovation : casadi.SX, (q, 1)
        Any finite value where an output is missing.
    covariance : casadi.SX, (q, q)
    present : casadi.SX, (q, 1)
        1 where the output was measured, 0 where it is missing: a missing output becomes a unit
        variance, independent of the rest, without a constant, so that it adds nothing.

    Notes
    -----
    By the factorisation S = L D L', in straight-line code with a single logarithm.
    """
    q = innovation.numel()
    masked = ca.SX.zeros(q, q)
    for i in range(q):
        for j in range(q):
            masked[i, j] = covariance[i, j] * present[i] * present[j]
        masked[i, i] += 1.0 - present[i]
    lower, pivots = _ldl(masked)
    quadratic, determinant = ca.SX(0), ca.SX(1)
    whitened: list[ca.SX] = []
    for i in range(q):
        w = innovation[i] * present[i]
        for j in range(i):
            w -= lower[i][j] * whitened[j]
        whitened.append(w)
        quadratic += w * w / pivots[i]
        determinant *= pivots[i]
    return -0.5 * (ca.log(determinant) + quadratic + log(2 * pi) * ca.sum1(present))


def _ldl(matrix: ca.SX) -> tuple[list[list[ca.SX]], list[ca.SX]]:
    q = matrix.shape[0]
    lower = [[ca.SX(0)] * q for _ in range(q)]
    pivots: list[ca.SX] = []
    for i in range(q):
        for j in range(i):
            value = matrix[i, j]
            for k in range(j):
                value -= lower[i][k] * lower[j][k] * pivots[k]
            lower[i][j] = value / pivots[j]
        pivot = matrix[i, i]
        for k in range(i):
            pivot -= lower[i][k] ** 2 * pivots[k]
        pivots.append(pivot)
    return lower, pivots


LEAST_INFORMATION = 1e-30
"""Information of a value that says nothing about its output: keeps its variance finite."""


class Measurement(Protocol):
    """One measured value, as a value with Gaussian noise about an expected output."""

    noise: ca.SX
    """Variance."""

    def residual(self) -> ca.SX:
        """What the value is off the expected output."""
        ...

    def log_density(self, gain: Gain) -> tuple[ca.SX, ca.SX]:
        """Log density of the value, without a part -log(d) / 2, and d."""
        ...


class GaussianMeasurement:
    """A value with noise of known variance; a missing one gets variance one and says nothing."""

    def __init__(self, expected: ca.SX, y: ca.SX, present: ca.SX, variance: ca.SX) -> None:
        self._innovation, self._present = (y - expected) * present, present
        self.noise = variance * present + (1.0 - present)

    def residual(self) -> ca.SX:
        """See `Measurement`."""
        return self._innovation

    def log_density(self, gain: Gain) -> tuple[ca.SX, ca.SX]:
        """See `Measurement`."""
        quadratic = self._innovation**2 / gain.variance
        return -0.5 * (quadratic + log(2 * pi) * self._present), gain.variance


class LaplaceMeasurement:
    """A value of any density: the Gaussian of its gradient and curvature (DALTON section 3.2).

    The density of the value is Laplace's approximation, see `tests.reference.likelihoods`.
    """

    def __init__(self, expected: ca.SX, y: ca.SX, present: ca.SX, model: Model, j: int) -> None:
        density = model.density
        assert density is not None
        self._density, self._j = density, j
        # In place of a missing value one that every density has.
        self._value = ca.if_else(present, y, 1.0)
        self._expected, self._present = expected, present
        gradient = self._at(density.expansion()[0][j], expected)
        information = self._at(density.information()[j], expected)
        self._gradient = gradient * present
        self._information = ca.fmax(information * present, LEAST_INFORMATION)
        self.noise = 1.0 / self._information

    def residual(self) -> ca.SX:
        """See `Measurement`."""
        return self._gradient / self._information

    def log_density(self, gain: Gain) -> tuple[ca.SX, ca.SX]:
        """See `Measurement`."""
        shrink = 1.0 + self._information * gain.spread
        shift = gain.spread * self._gradient / shrink
        log_density = self._at(self._density.log_density[self._j], self._expected + shift)
        return self._present * log_density - 0.5 * self._gradient * shift / shrink, shrink

    def _at(self, expression: ca.SX, output: ca.SX) -> ca.SX:
        density, j = self._density, self._j
        symbols = ca.vertcat(density.y[j], density.output[j])
        return ca.substitute(expression, symbols, ca.vertcat(self._value, output))


def measurement(model: Model, j: int, expected: ca.SX, y: ca.SX, present: ca.SX) -> Measurement:
    """The j-th output's value about what is expected of it."""
    if model.density is None:
        return GaussianMeasurement(expected, y, present, model.noise_variance[j])
    return LaplaceMeasurement(expected, y, present, model, j)
