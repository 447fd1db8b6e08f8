"""Supports led to their own maxima, with their Laplace evidence: each by itself, so by workers."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.codegen.threads import one_blas_thread
from smcpn.discovery.search.path_regression import LinearPoint, PathRegression, Point
from smcpn.discovery.search.state import SupportMaximum
from smcpn.discovery.search.supports import Support
from smcpn.likelihood.contract import Arrays, Batch, Batchable

Array = NDArray[np.float64]

NOT_FINITE = (ValueError, np.linalg.LinAlgError)
"""What `PathRegression.linearised` raises where trajectories leave all bounds."""
SETTLED = 0.05
"""Change of coefficients, in standard deviations, that ends Gauss-Newton steps."""
POLISHING = 6
"""Most Gauss-Newton steps with one support."""
UNLIKE = 0.2
"""Difference of a log variance of noise from a model's own, from which it has its own."""


def polished(
    steps: PathRegression, point: Point, most: int = POLISHING
) -> tuple[Point, LinearPoint]:
    """Lead a point to the maximum of its support; with what is left there, by its terms."""
    columns = np.flatnonzero(point.support)
    part = steps.restricted(columns)
    inside = Point(point.path, point.theta[columns], np.ones(len(columns), dtype=bool))
    linear = part.linearised(inside, steps.share)
    for _ in range(most):
        inside = part.moved(linear, inside.support)
        deviation = np.sqrt(np.diag(linear.regression.moments(inside.support)[1]))
        if np.all(np.abs(inside.theta - linear.point.theta) < SETTLED * deviation):
            break
        linear = part.linearised(inside, steps.share)
    theta = np.zeros(len(point.theta))
    theta[columns] = inside.theta
    return Point(inside.path, theta, point.support), linear


def maximum(
    steps: PathRegression, linear: LinearPoint, support: Support, most: int = POLISHING
) -> SupportMaximum | None:
    """Return the maximum of a support, from where a linear model has it; None where it has none."""
    theta = linear.regression.neighbourhood(support).theta
    try:
        start = Point(steps.path_at(linear, theta), theta, support)
        point, there = polished(steps, start, most)
        own = steps.with_noise_of(point)
        if np.any(np.abs(np.log(own.variances / steps.variances)) > UNLIKE):
            steps = own
            point, there = polished(steps, point, most)
    except NOT_FINITE:
        return None
    if np.any(steps.signs[support] * point.theta[support] < 0.0):
        return None
    whole = np.ones(support.sum(), dtype=bool)
    covariance = there.regression.moments(whole)[1]
    evidence = _log_evidence(steps, point, there)
    prior = steps.prior.log_probability(support)
    return SupportMaximum(point, steps.errors, covariance, evidence, prior)


def _log_evidence(steps: PathRegression, point: Point, there: LinearPoint) -> float:
    """Laplace's log evidence at a maximum, by the linear model of its terms there."""
    whole = np.ones(point.support.sum(), dtype=bool)
    evidence = there.regression.neighbourhood(whole).evidence - 0.5 * there.log_determinant
    return float(evidence + steps.noise_evidence(point) + steps.of_limits(point))


def further(steps: PathRegression, found: SupportMaximum) -> float:
    """Return the score after further steps from a maximum, of which there is next to no change."""
    point, there = polished(steps, found.point)
    return _log_evidence(steps, point, there) + steps.prior.log_probability(point.support)


class Maxima(Batchable):
    """Maxima of many supports, each from where the linear model at one point has it."""

    batches: ClassVar[tuple[str, ...]] = ("packed",)
    lanes = n_samples = 1

    def __init__(self, steps: PathRegression, linear: LinearPoint) -> None:
        self._steps, self._point = steps, linear.point
        self.linear = linear

    @cached_property
    def linear(self) -> LinearPoint:
        """The linear model, made again where it did not travel."""
        return self._steps.linearised(self._point, self._steps.share)

    @override
    def detached(self) -> Maxima:
        result = copy(self)
        result._steps = self._steps.detached()
        del result.linear
        return result

    @override
    def work(self, batch: Batch) -> float:
        return batch.arguments["most"]

    @override
    def trial(self, batch: Batch) -> Batch:
        return batch.with_arguments(most=1)

    def packed(self, values: NDArray[np.bool_], most: int = POLISHING) -> Arrays:
        """Maxima of supports (N, K), at most so many steps away, as arrays; see `unpacked`.

        These are path (T, n, N), theta (K, N), covariance (K, K, N), zero outside of the support,
        variances (q, N), deviation (n, N), and evidence (1, N), NaN where there is no maximum.
        """
        with one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
            found = [self._row(support, most) for support in values]
        return tuple(np.stack(column, axis=-1) for column in zip(*found, strict=True))

    def _row(self, support: Support, most: int) -> Arrays:
        end, errors = maximum(self._steps, self.linear, support, most), self._steps.errors
        covariance = np.zeros((len(support),) * 2)
        point, evidence = self._point, np.nan
        if end is not None:
            covariance[np.ix_(support, support)] = end.covariance
            point, errors, evidence = end.point, end.errors, end.log_evidence
        sizes = errors.variances, errors.deviation
        return point.path, point.theta, covariance, *sizes, np.array([evidence])

    def unpacked(
        self, supports: NDArray[np.bool_], found: Arrays
    ) -> tuple[SupportMaximum | None, ...]:
        """Return the maxima that `packed` returned, None where a support has none."""
        return tuple(
            self._of(support, *(one[..., k] for one in found)) for k, support in enumerate(supports)
        )

    def _of(
        self, support: Support, path: Array, theta: Array, covariance: Array, *others: Any
    ) -> SupportMaximum | None:
        variances, deviation, evidence = others
        if np.isnan(evidence[0]):
            return None
        return SupportMaximum(
            point=Point(path, theta, support),
            errors=replace(
                self._steps.errors,
                variances=np.ascontiguousarray(variances),
                deviation=np.ascontiguousarray(deviation),
            ),
            covariance=covariance[np.ix_(support, support)],
            log_evidence=float(evidence[0]),
            log_prior=self._steps.prior.log_probability(support),
        )
