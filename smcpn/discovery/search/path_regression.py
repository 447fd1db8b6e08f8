"""Regression of path and coefficients together, with a support that is selected or given."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from smcpn.base.stored import Share, Stored, finite, number, truths
from smcpn.discovery.search.linearisation import LibraryPaths
from smcpn.discovery.search.supports import BetaBinomial, SpikeAndSlab, Support, best_support
from smcpn.estimate.path_search.smoothing import Linear, smoothed
from smcpn.estimate.smoothed_outputs import Start
from smcpn.likelihood.gauss_newton import halved

Array = NDArray[np.float64]

INITIAL = 100.0
"""Standard deviation of an initial state about the first path's, in units of the noise."""
HALVINGS = 6
WORSE = 4.0
"""A step is halved where the sum of squares is larger than before, and larger by this factor than
the linear model has it."""
INTEGRATION = 0.1
"""Error of the flow over an interval, as a share of the model error, at most."""
LEAST_OWN = 1e-10
"""Share of a column that those before it cannot make up, at least."""
SHARPEST = 1e-2
"""Model error, as a share of the noise, below which the flow is not made more accurate."""


@dataclass(frozen=True)
class Point(Stored):
    """Path (T, n), coefficients (d,), and which of them are active (d,).

    Arrays are contiguous: from others sums may come out with another last digit.
    """

    path: Annotated[Array, finite("T", "n")]
    theta: Annotated[Array, finite("K")]
    support: Annotated[Support, truths("K")]

    def __post_init__(self) -> None:
        for name in ("path", "theta", "support"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name)))


@dataclass(frozen=True)
class ErrorModel(Stored):
    """Sizes of the errors that a path regression reckons with, as far as they are learned.

    variances: (q,), of the noise.
    deviation: (n,), standard deviation of what the noise is in the units of each state.
    share: Model error that a homotopy ends with, as a share of the noise.
    independent: Share of the data that is independent.
    told: Whether the noise is known, and not learned.
    """

    variances: Annotated[Array, finite("q", least=0.0)]
    deviation: Annotated[Array, finite("n", least=0.0)]
    share: Annotated[float, number(0.0)] = 0.0
    independent: Share = 1.0
    told: bool = False


@dataclass(frozen=True)
class LinearPoint:
    """A point with the regression of what the linear model leaves there.

    path: (T, n, 1 + d), most likely change of the path, affine in that of the coordinates of the
        coefficients.
    regression: Coefficients in units of their slab.
    error: (T, n), variances of the model error.
    log_determinant: Of the covariance of the outputs given the coefficients, in units of the noise.
    """

    point: Point
    path: Array
    regression: SpikeAndSlab
    error: Array
    log_determinant: float


class PathRegression:
    """Steps of path and coefficients.

    ``variances`` and ``least``, (q,), are of the noise, at first and at least; ``basis``, (d, d),
    triangular, leads from coefficients to orthonormal coordinates of the rate along the first path
    (`orthonormal`); ``groups``, (d,), are those of the prior of the support; ``signs``, (d,), 1 or
    -1 where a coefficient has a sign, else 0; and with ``told`` the noise is known, and not
    learned. ``share`` is the model error that a homotopy ends with, as a share of the noise, and
    ``independent`` the share of the data that is independent, by which log-likelihoods are
    multiplied.
    """

    def __init__(
        self,
        paths: LibraryPaths,
        start: Start,
        variances: Array,
        least: Array,
        basis: Array,
        groups: NDArray[np.int64],
        slabs: tuple[float, ...],
        signs: NDArray[np.int64],
        told: bool = False,
    ) -> None:
        self.paths, self.variances, self._start = paths, variances, start
        self._least, self._groups, self._slabs = least, groups, slabs
        self.signs, self._told = signs, told
        self._set_basis(basis)
        self.prior = BetaBinomial(groups)
        self.count = int(paths.counts.sum())
        self.share, self.independent = 0.0, 1.0

    @property
    def errors(self) -> ErrorModel:
        """Sizes of the errors in force."""
        deviation = self._start.deviation
        return ErrorModel(self.variances, deviation, self.share, self.independent, self._told)

    def with_errors(self, errors: ErrorModel) -> PathRegression:
        """Return a copy with other sizes of the errors."""
        result = copy(self)
        result.variances, result._told = errors.variances, errors.told
        result.share, result.independent = errors.share, errors.independent
        result._start = self._start._replace(deviation=errors.deviation)
        return result

    def detached(self) -> PathRegression:
        """Return a copy that can be pickled, to take steps in another process."""
        result = copy(self)
        result.paths = self.paths.detached()
        return result

    def restricted(self, columns: NDArray[np.intp]) -> PathRegression:
        """Return the same search with these coefficients only, by their columns."""
        result = copy(self)
        result.paths = self.paths.restricted(columns)
        result._groups = self._groups[columns]
        result.signs = self.signs[columns]
        result.prior = BetaBinomial(result._groups)
        result._set_basis(orthonormal(self._basis[:, columns]))
        return result

    def _set_basis(self, basis: Array) -> None:
        self._basis = basis
        self._to_theta = solve_triangular(basis, np.eye(len(basis)))

    @property
    def slab(self) -> Array:
        """Unit of the slab of each coefficient alone, (d,)."""
        return 1.0 / np.sqrt(np.sum(self._basis**2, axis=0))

    @property
    def speed(self) -> Array:
        """Root mean square of the rate of each state, (n,), as the data are smoothed."""
        return sizes(self._start.rate)

    @property
    def least(self) -> float:
        """Mean square of whitened residuals of an output, at least, the largest of all."""
        return float(np.max(self._least / self.variances))

    def path_at(self, linear: LinearPoint, theta: Array) -> Array:
        """Most likely path with these coefficients on a linear model."""
        change = self._basis @ (theta - linear.point.theta)
        return linear.point.path + linear.path[..., 0] + linear.path[..., 1:] @ change

    def refine(self, point: Point, share: float) -> None:
        """Take as many Runge-Kutta steps as a model error of this share of the noise asks for."""
        error = INTEGRATION * max(share, SHARPEST) * self._start.deviation
        self.paths.refine(point.path[None], point.theta[None], error)

    def linearised(self, point: Point, share: float) -> LinearPoint:
        """Linearise at a point, with a model error of this share of the noise.

        Raises `LinAlgError` or `ValueError` if the path is not determined, or not finite.
        """
        return self._regression(self._linear(point), point, self._error(point, share))

    def _linear(self, point: Point) -> Linear:
        path, theta, variances = point.path[None], point.theta[None], self.variances[None]
        return self.paths.linear(path, theta, variances)[0]

    def _regression(self, linear: Linear, point: Point, error: Array) -> LinearPoint:
        """Smooth a linear model, with a model error (T, n)."""
        by = (linear.b.reshape(point.path.size, len(self._basis)) @ self._to_theta).reshape(
            linear.b.shape
        )
        found = smoothed(linear._replace(b=by), error)
        least = float(self.paths.counts @ (self._least / self.variances))
        counted, count = self.independent, self.independent * self.count_at(point)
        residuals = np.sqrt(self.independent) * found.residuals
        regression = SpikeAndSlab(
            residuals[:, 0], residuals[:, 1:], self._basis @ point.theta, count,
            self.prior, self._slabs, counted * least, self.signs, self._basis,
        )  # fmt: skip
        return LinearPoint(point, found.path, regression, error, counted * found.log_determinant)

    def moved(self, linear: LinearPoint, support: Support) -> Point:
        """Most likely point with a support on the linear model, or part of the way there.

        The way is halved until the sum of squares is near what the linear model has, or less than
        it was.
        """
        point = linear.point
        theta = linear.regression.neighbourhood(support).theta
        path, change = self.path_at(linear, theta) - point.path, theta - point.theta
        before = self._square(point, linear.error)
        expected = linear.regression.square(theta) / self.independent
        result, after = point, np.inf

        def accepted(_: NDArray[np.intp], share: Array) -> NDArray[np.bool_]:
            nonlocal result, after
            result = Point(point.path + share * path, point.theta + share * change, support)
            after = self._square(result, linear.error)
            hoped = (1.0 - share) * before + share * expected
            return after <= np.maximum(np.minimum(before, WORSE * hoped), WORSE * expected)

        halved(accepted, 1, HALVINGS)
        return result if np.isfinite(after) else point

    def square(self, point: Point, share: float) -> float:
        """Sum of squares of residuals and model errors, whitened."""
        return self._square(point, self._error(point, share))

    def disturbed(self, point: Point, added: Array) -> Array:
        """Whitened residuals with their derivatives, (m, 1 + k + e).

        By the k coefficients of the support, and by those of rates (T, n, e) that are added, as
        trapezoids between samples.

        Raises `LinAlgError` or `ValueError` if the path is not determined, or not finite.
        """
        columns = np.flatnonzero(point.support)
        part = self.restricted(columns)
        linear = part._linear(replace(point, theta=point.theta[columns]))
        linear = _with_rates(linear, self.paths, added)
        return smoothed(linear, self._error(point, self.share)).residuals

    def extended(
        self, point: Point, added: Array, basis: Array, prior: BetaBinomial
    ) -> SpikeAndSlab:
        """Regression at a point on all coefficients and on those of rates that are added.

        ``added`` is (T, n, e), ``basis``, (d + e, d + e), triangular as that of the coefficients,
        and ``prior`` that of supports of d + e columns. A path that is not determined, or not
        finite, raises `LinAlgError` or `ValueError`.
        """
        linear = _with_rates(self._linear(point), self.paths, added)
        more, result = np.zeros(added.shape[2], dtype=np.int64), copy(self)
        result.signs, result.prior = np.append(self.signs, more), prior
        result._set_basis(basis)
        theta = np.append(point.theta, np.zeros(len(more)))
        point = Point(point.path, theta, np.append(point.support, more > 0))
        return result._regression(linear, point, self._error(point, self.share)).regression

    def evidence(self, linear: LinearPoint) -> float:
        """Log evidence of the best support on the linear model near that of its point."""
        regression = linear.regression
        support = best_support(regression, linear.point.support)
        return self.of_limits(linear.point) + (
            regression.neighbourhood(support).evidence - 0.5 * linear.log_determinant
        )

    def of_limits(self, point: Point) -> float:
        """Share of values known by limits in a log evidence, beyond that of the linear model.

        That is one of a common factor of the variances, over which its evidence is averaged.
        """
        more, count = self.paths.of_limits(point.path, self.variances)
        over = [gammaln(0.5 * n) + 0.5 * n * np.log(2.0) for n in (count, self.count)]
        return more + float(over[0] - over[1])

    def count_at(self, point: Point) -> float:
        """Numbers in the data, of which one known by its limits is less than one."""
        return self.paths.of_limits(point.path, self.variances)[1]

    def end_with(self, point: Point, share: float) -> None:
        """End with a model error of this share of the noise, in place of the least.

        Where it is more than the noise, the errors at a point are known, and they may last longer
        than a sampling interval: those of a solver do, which takes long steps. The data then count
        as so many as there are independent ones, and the noise is not learned from what a path
        leaves that may follow them.
        """
        self.share = share
        if share >= 1.0:
            self._told = True
            error = self._error(point, share)
            errors = smoothed(self._linear(point), error).residuals[-point.path.size :, 0]
            self.independent = 1.0 / _correlation_time(errors.reshape(point.path.shape))

    def _error(self, point: Point, share: float) -> Array:
        error = np.tile((share * self._start.deviation) ** 2, (len(point.path), 1))
        error[self.paths.begins] = (INITIAL * self._start.deviation) ** 2
        return error

    def finite(self, point: Point) -> bool:
        """True if the flow from every sample of a path is finite."""
        return np.isfinite(self._square(point, np.ones_like(point.path)))

    def _square(self, point: Point, error: Array) -> float:
        path, theta, variances = point.path[None], point.theta[None], self.variances[None]
        return 2.0 * float(self.paths.cost(path, theta, variances, error)[0])

    def with_noise_of(self, point: Point) -> PathRegression:
        """Copy with the noise, if it is not told, that the residuals of a path have."""
        if self._told:
            return self
        counts = self.paths.counts
        free = point.support.sum() + point.path.shape[1] * len(self.paths.begins)
        left = np.maximum(counts * (1.0 - free / counts.sum()), 1.0)
        learned = np.maximum(self.paths.squares(point.path) / left, self._least)
        result = copy(self)
        result.variances = np.where(self.paths.stated, self.variances, learned)
        factor = np.sqrt(np.mean(result.variances / self.variances))
        result._start = self._start._replace(deviation=factor * self._start.deviation)
        return result

    def noise_evidence(self, point: Point) -> float:
        """Share of the noise in the log evidence of data in units of it.

        That is the density in units of the outputs, and, of several outputs, what the noise of each
        being learned is better than one common factor; outputs of which it is stated have one. Each
        counts as if it had one more number, of the size of its noise.
        """
        counts, told = self.paths.counts, self._told
        found = -0.5 * float(counts @ np.log(self.variances))
        if told:
            return found
        squares, stated = self.paths.squares(point.path) / self.variances, self.paths.stated
        mean = (squares + 1.0) / (counts + 1.0)
        mean[stated] = (squares[stated].sum() + 1.0) / (counts[stated].sum() + 1.0)
        common = (squares.sum() + 1.0) / (counts.sum() + 1.0)
        return found + 0.5 * float(counts @ np.log(common / mean))


def sizes(values: Array) -> Array:
    """Root mean square of columns, one where that is zero."""
    size = np.sqrt(np.mean(values**2, axis=0))
    return np.where(size > 0.0, size, 1.0)


def orthonormal(columns: Array) -> Array:
    """Return the upper triangular factor R, (d, d), of columns (N, d) = Q R.

    A column that those before it make up, but for rounding, keeps a little of its own.
    """
    factor = np.zeros((columns.shape[1],) * 2)
    found = np.linalg.qr(columns, mode="r")
    factor[: len(found)] = found
    length = np.sqrt(np.sum(factor**2, axis=0))
    least = LEAST_OWN * np.where(length > 0.0, length, 1.0 / LEAST_OWN)
    own = np.diag(factor)
    np.fill_diagonal(factor, np.where(np.abs(own) < least, least, own))
    return factor


def _with_rates(linear: Linear, paths: LibraryPaths, added: Array) -> Linear:
    """Add rates (T, n, e), as trapezoids between samples, with coefficients of their own."""
    lasting = np.diff(paths.times, prepend=paths.times[:1])
    lasting[paths.begins] = 0.0
    before = np.concatenate([added[:1], added[:-1]])
    by = 0.5 * lasting[:, None, None] * (linear.a @ before + added)
    slopes = np.zeros((*linear.slopes.shape[:2], linear.b.shape[2] + by.shape[2]))
    return linear._replace(b=np.concatenate([linear.b, by], axis=2), slopes=slopes)


def _correlation_time(values: Array) -> float:
    """Integrated autocorrelation time, in rows, of the columns of (T, n) together; at least 1.

    The sum ends before the first autocorrelation that is negative.
    """
    length = len(values)
    spectrum = np.abs(np.fft.rfft(values, 2 * length, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[:length].sum(axis=1)
    negative = np.flatnonzero(covariance < 0.0)
    end = negative[0] if len(negative) else length
    return float(2.0 * covariance[:end].sum() / covariance[0] - 1.0) if covariance[0] else 1.0
