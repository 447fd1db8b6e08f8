"""Records with a path of their own, about which an equation of candidate terms is linearised."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from smcpn.discovery.search.linearisation import LibraryRate
from smcpn.estimate.lifted.linearisation import Intervals
from smcpn.estimate.lifted.smoothing import Linear
from smcpn.model.record import Record

Array = NDArray[np.float64]

MOST_STEPS = 64
"""Of Runge-Kutta, in a sampling interval."""


class LibraryPaths:
    """Outputs ``observe @ x`` of records, one after the other: T samples, n states, q outputs.

    Parameters
    ----------
    records : sequence of Record
    rate : LibraryRate
    observe : ndarray, (q, n)
    initial : ndarray, (T, n)
        Prior mean of the state at the first sample of each record; not read elsewhere.
    relative : bool
        Whether noise multiplies: the logarithms of the outputs are measured.
    """

    def __init__(
        self,
        records: Sequence[Record],
        rate: LibraryRate,
        observe: Array,
        initial: Array,
        relative: bool = False,
    ) -> None:
        self._records, self.rate, self._observe = records, rate, observe
        self._intervals, self._relative = Intervals(rate, records), relative
        self._y = np.concatenate([record.y for record in records])
        if relative:
            self._y = np.log(self._y)
        self._present = np.isfinite(self._y)
        self.begins = np.cumsum([0, *(len(record) for record in records[:-1])])
        self._initial = initial

    @property
    def steps(self) -> int:
        """Runge-Kutta steps of an interval."""
        return self._intervals.steps

    def restricted(self, columns: NDArray[np.intp]) -> LibraryPaths:
        """Return the same paths with these coefficients only, by their columns."""
        result = copy(self)
        result.rate = self.rate.restricted(columns)
        result._intervals = Intervals(result.rate, self._records)
        result._intervals.steps = self._intervals.steps
        return result

    def refine(self, path: Array, theta: Array, error: Array) -> None:
        """Double the steps until that changes the flow by less than an error, (n,), rms.

        Or until the flow has no end: long steps pass over where a solution grows without bounds.
        """
        intervals, x = self._intervals, path[None, self._intervals.begin]
        ends = intervals.ends(x, theta[None])
        while intervals.steps < MOST_STEPS:
            intervals.steps *= 2
            with np.errstate(all="ignore"):
                coarse, ends = ends, intervals.ends(x, theta[None])
                change = np.sqrt(np.mean((ends - coarse) ** 2, axis=(0, 1)))
            if (change < error).all() or not np.isfinite(change).all():
                intervals.steps //= 2
                break

    def residuals(self, path: Array) -> Array:
        """Outputs, or their logarithms, less those of a path, (T, q); zero where missing."""
        outputs = path @ self._observe.T
        if self._relative:
            with np.errstate(all="ignore"):
                outputs = np.log(outputs)
        return np.where(self._present, self._y - outputs, 0.0)

    def columns(self, path: Array) -> tuple[Array, Array]:
        """Derivatives of the rate by the coefficients, (T, n, d), and its known part, (T, n)."""
        inputs = np.concatenate([record.u for record in self._records])
        return self.rate.columns(path, inputs, self.times)

    @property
    def times(self) -> Array:
        """Of the samples of all records, (T,)."""
        return np.concatenate([record.t for record in self._records])

    @property
    def counts(self) -> NDArray[np.int64]:
        """Measured numbers of each output, (q,)."""
        return self._present.sum(axis=0)

    def square(self, path: Array, theta: Array, variances: Array, error: Array) -> float:
        """Sum of squares of whitened residuals and model errors; infinite where one is not finite.

        Parameters
        ----------
        variances : ndarray, (q,)
            Of the noise.
        error : ndarray, (T, n)
            Variances of the model error.
        """
        with np.errstate(all="ignore"):
            ends = self._intervals.ends(path[None, self._intervals.begin], theta[None])[0]
            gaps = self._gaps(path, ends)
            square = np.sum(self.residuals(path) ** 2 / variances) + np.sum(gaps**2 / error)
        return float(square) if np.isfinite(square) else np.inf

    def linear(self, path: Array, theta: Array, variances: Array) -> Linear:
        """The records linearised about a path and coefficients."""
        (samples, n), d, q = path.shape, len(theta), len(self._observe)
        h = np.broadcast_to(self._observe, (samples, q, n))
        if self._relative:
            h = h / (path @ self._observe.T)[..., None]
        flow = self._intervals.flow(path[None, self._intervals.begin], theta[None])
        slopes = np.zeros((samples, n, n + d))
        slopes[self._intervals.begin + 1] = flow.slopes[0]
        return Linear(
            a=slopes[..., :n],
            b=slopes[..., n:],
            gap=self._gaps(path, flow.end[0]),
            h=h,
            slopes=np.zeros((samples, q, d)),
            residual=self.residuals(path),
            weight=self._present / variances,
        )

    def _gaps(self, path: Array, ends: Array) -> Array:
        gaps = np.empty_like(path)
        gaps[self._intervals.begin + 1] = ends - path[self._intervals.begin + 1]
        gaps[self.begins] = self._initial[self.begins] - path[self.begins]
        return gaps
