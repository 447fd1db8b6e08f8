"""What the value of one output says: Gaussian noise, or any other density, as graphs."""

from __future__ import annotations

from math import log, pi
from typing import Protocol

import casadi as ca

from smcpn.likelihood.covariance import Gain
from smcpn.problem import Model

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

    The density of the value is Laplace's approximation, see `smcpn.pn.likelihoods.measurement`.
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
