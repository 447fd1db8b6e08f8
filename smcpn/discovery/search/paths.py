"""Paths of records, about which an equation of candidate terms is linearised."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from smcpn.discovery.search.linearisation import LibraryRate
from smcpn.estimate.path_search.linearisation import Intervals
from smcpn.estimate.path_search.measurements import Gaussian
from smcpn.estimate.path_search.paths import Paths
from smcpn.model.record import Record

Array = NDArray[np.float64]


class LinearOutputs:
    """Outputs ``observe @ x``, or their logarithms, with their derivatives."""

    def __init__(self, observe: Array, relative: bool) -> None:
        self._observe, self._relative = observe, relative

    def value(self, x: Array, u: Array, t: Array, values: Array) -> Array:
        """Outputs (S, T, q) of states (S, T, n)."""
        outputs = x @ self._observe.T
        with np.errstate(all="ignore"):
            return np.log(outputs) if self._relative else outputs

    def with_derivatives(self, x: Array, u: Array, t: Array, values: Array) -> tuple[Array, Array]:
        """Outputs, and their derivatives by x and the values, (S, T, q, n + d)."""
        (q, n), d = self._observe.shape, values.shape[1]
        by = np.zeros((*x.shape[:2], q, n + d))
        by[..., :n] = self._observe
        if self._relative:
            by[..., :n] /= (x @ self._observe.T)[..., None]
        return self.value(x, u, t, values), by


class LibraryPaths(Paths):
    """Outputs ``observe @ x`` of records whose equations have a library's terms.

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
        y = np.concatenate([record.y for record in records])
        measured = Gaussian(np.log(y) if relative else y)
        super().__init__(records, rate, LinearOutputs(observe, relative), measured)
        self._records, self.rate = records, rate
        self._initial = initial[self.begins]
        self.counts = np.isfinite(y).sum(axis=0)

    @override
    def initial_states(self, theta: Array) -> list[tuple[Array, Array]]:
        nothing = np.zeros((1, self._initial.shape[1], self._initial.shape[1] + theta.shape[1]))
        return [(state[None], nothing) for state in self._initial]

    def restricted(self, columns: NDArray[np.intp]) -> LibraryPaths:
        """Return the same paths with these coefficients only, by their columns."""
        result = copy(self)
        result.rate = self.rate.restricted(columns)
        result._intervals = Intervals(result.rate, self._records)
        result._intervals.steps = self._intervals.steps
        return result

    def residuals(self, path: Array) -> Array:
        """Outputs, or their logarithms, less those of a path (T, n), (T, q); zero where missing."""
        expected = self.expected(path[None], np.empty((1, 0)))
        return self._measurements.expansion(expected, np.ones((1, expected.shape[2])))[0][0]

    def columns(self, path: Array) -> tuple[Array, Array]:
        """Derivatives of the rate by the coefficients, (T, n, d), and its known part, (T, n)."""
        return self.rate.columns(path, self._u, self.times)
