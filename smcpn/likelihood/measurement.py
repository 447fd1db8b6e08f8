"""Log density of measured outputs: several with Gaussian noise at once, or one of any density."""

from __future__ import annotations

from math import log, pi

import casadi as ca
from typing_extensions import override

from smcpn.likelihood.covariance import OutputGain
from smcpn.likelihood.lanes import SampleSymbols
from smcpn.pn.gaussian import determinant, factorised, squared_mahalanobis, whitened


def where_present(values: ca.SX, present: ca.SX) -> ca.SX:
    """Values where an output was measured, 0 elsewhere: there the output may be infinite."""
    return ca.if_else(present, values, 0.0)


def gaussian_log_density(innovation: ca.SX, covariance: ca.SX, present: ca.SX) -> ca.SX:
    """Log N(v; 0, S) = -(log det S + v' S^-1 v + q log 2 pi) / 2 over the outputs present, (1, 1).

    innovation: (q, 1), v; any value where an output is missing.
    covariance: (q, q), S.
    present: (q, 1), 1 where the output was measured, 0 where it is missing: a missing output
        becomes a unit variance, independent of the rest, without a constant, so that it adds
        nothing.

    By the factorisation S = L D L', in straight-line code with a single logarithm.
    """
    factor = factorised(masked_covariance(covariance, present))
    innovation = where_present(innovation, present)
    quadratic = squared_mahalanobis(factor, ca.vertsplit(innovation))
    return -0.5 * (ca.log(determinant(factor)) + quadratic + log(2 * pi) * ca.sum1(present))


def masked_covariance(covariance: ca.SX, present: ca.SX) -> ca.SX:
    """Covariance (q, q) in which a missing output has unit variance, independent of the rest."""
    return where_present(covariance, present @ present.T) + ca.diag(1.0 - present)


def whitening(covariance: ca.SX) -> ca.SX:
    """W = D^-1/2 L^-1 of S = L D L', so that W S W' = I, (q, q)."""
    return whitened(factorised(covariance), ca.SX.eye(covariance.shape[0]))


ROUNDING = 1e-6
"""Nats by which a log density may be beyond what is possible."""


def densest(variances: ca.SX, present: ca.SX) -> ca.SX:
    """Log density of the outputs present where the Gaussian noise is densest, (1, 1).

    No model of the state makes a measured value likelier than its noise does where it is zero.
    """
    return -0.5 * ca.sum1(where_present(ca.log(2 * pi * variances), present))


def possible(log_density: ca.SX, surplus: ca.SX) -> ca.SX:
    """A log density where ``surplus``, nats above what is possible, is none; not finite elsewhere.

    A solution that explodes leaves large numbers, whose difference may be anything.
    """
    return log_density / ca.if_else(surplus <= ROUNDING, 1.0, 0.0)


SILENT = 1e-14
"""Share of its variance that coloured noise has without memory, by which a pivot is divided."""
LEAST_INFORMATION = 1e-30
"""Information of a value that says nothing about its output: keeps its variance finite."""


class GaussianMeasurement:
    """A value as a filter sees it, with noise of known variance: log N(v; 0, s), s = H P H' + R.

    ``innovation`` is the measured value minus the predicted output, ``noise`` its variance.

    A missing value gets v = 0 and R = 1, and H = 0, so that it says nothing.
    """

    def __init__(self, expected: ca.SX, y: ca.SX, present: ca.SX, variance: ca.SX) -> None:
        self.innovation, self._present = where_present(y - expected, present), present
        self.noise = ca.if_else(present, variance, 1.0)

    def log_density(self, gain: OutputGain) -> tuple[ca.SX, ca.SX]:
        """Log density of the value given the past, as a and d of a - log(d) / 2.

        The logarithms of several values are one of the product of d.
        """
        quadratic = self.innovation**2 / gain.variance
        return -0.5 * (quadratic + log(2 * pi) * self._present), gain.variance


class LaplaceMeasurement:
    """A value of any density p(y | g), as a Gaussian pseudo-observation (DALTON section 3.2).

    With gradient d and information w (minus the curvature) of log p(y | g) at the predicted output
    g = m, the pseudo-observation m + d / w has the variance 1 / w. The density of the value is
    Laplace's approximation of the integral of p(y | g) N(g; m, v) over g. A Newton step from m, the
    mean of the Gaussian approximation, leads to g* = m + v d / (1 + w v), where

        log p(y) = log p(y | g*) - v d^2 / (2 (1 + w v)^2) - log(1 + w v) / 2.
    """

    def __init__(self, sample: SampleSymbols, j: int, expected: ca.SX) -> None:
        density = sample.model.density
        assert density is not None
        self._density, self._j, self._sample = density, j, sample
        self._expected, self._present = expected, sample.present[j]
        present = self._present
        gradient = self._at(density.expansion()[0][j], expected)
        information = self._at(density.information()[j], expected)
        self._gradient = where_present(gradient, present)
        self._information = ca.fmax(where_present(information, present), LEAST_INFORMATION)
        self.innovation = self._gradient / self._information
        self.noise = 1.0 / self._information

    def log_density(self, gain: OutputGain) -> tuple[ca.SX, ca.SX]:
        """Log density of the value given the past, as of `GaussianMeasurement`."""
        shrink = 1.0 + self._information * gain.spread
        shift = gain.spread * self._gradient / shrink
        log_density = self._at(self._density.log_density[self._j], self._expected + shift)
        log_density = where_present(log_density, self._present)
        return log_density - 0.5 * self._gradient * shift / shrink, shrink

    def _at(self, expression: ca.SX, output: ca.SX) -> ca.SX:
        """Expression of the density at the measured value and an output."""
        outputs = ca.SX(self._density.output)
        outputs[self._j] = output
        return self._sample.of_density(expression, outputs)


class IteratedMeasurement(LaplaceMeasurement):
    """`LaplaceMeasurement` about a point g* other than the predicted output m.

    With d and w of log p(y | g) at g*, and s = g* - m, the pseudo-observation is g* + d / w, and

        log p(y) = log p(y | g*) - s (d + w s / 2) + v (d + w s)^2 / (2 k) - log(k) / 2

    with k = 1 + w v is Laplace's approximation where g* is the mean given y too.
    """

    def __init__(self, sample: SampleSymbols, j: int, expected: ca.SX, about: ca.SX) -> None:
        super().__init__(sample, j, about)
        self._shift = where_present(about - expected, self._present)
        self.innovation += self._shift

    @override
    def log_density(self, gain: OutputGain) -> tuple[ca.SX, ca.SX]:
        d, w, s, v = self._gradient, self._information, self._shift, gain.spread
        shrink = 1.0 + w * v
        square = 0.5 * v * (d + w * s) ** 2 / shrink - s * (d + 0.5 * w * s)
        there = self._at(self._density.log_density[self._j], self._expected)
        return where_present(there, self._present) + square, shrink


def measurement(
    sample: SampleSymbols, j: int, expected: ca.SX, about: ca.SX | None = None
) -> GaussianMeasurement | LaplaceMeasurement:
    """Measured value of the j-th output, whose predicted value is ``expected``.

    about: Output about which a density is expanded, by default ``expected``; at which the variance
        of Gaussian noise is taken. Coloured noise counts as part of the output.
    """
    model, point = sample.model, expected if about is None else about
    variance = model.noise_variance[j] * (SILENT if j in model.coloured else 1.0)
    if model.density is not None:
        outputs = ca.SX(model.density.output)
        outputs[j] = point
        own = model.density.own_variance(j)
        if own is None and about is None:
            return LaplaceMeasurement(sample, j, expected)
        if own is None:
            return IteratedMeasurement(sample, j, expected, point)
        variance = sample.of_density(own, outputs)
    return GaussianMeasurement(expected, sample.y[j], sample.present[j], variance)
