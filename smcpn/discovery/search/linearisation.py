"""A candidate system linearised about paths of records: its rate with derivatives, for arrays.

dx/dt = f0(x, u, t) + G(x, u, t) phi,    G_ik = sum over j of w_ijk f_j

The terms f_j are few, and evaluated once. A weight w is 1 but for constraints, by which one
coefficient stands before several terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from typing_extensions import override

from smcpn.codegen.arrays import ArrayFunction
from smcpn.codegen.tangent import derived
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.errors import InputError, listed
from smcpn.estimate.path_search.linearisation import (
    Entering,
    GaussianMeasurements,
    Intervals,
    LimitedMeasurements,
)
from smcpn.estimate.path_search.paths import Paths
from smcpn.estimate.smoothed_outputs import Equations
from smcpn.model.expression import ExpressionTable
from smcpn.model.record import Record, beside

Array = NDArray[np.float64]

_TRACED = ("_symbols", "_graphs", "_value", "_all")
"""Attributes of a `LibraryRate` that its graphs tell."""


class LibraryRate:
    """Right-hand side whose values are some of the free coefficients; the others are zero.

    Of a scaled system (`CandidateSystem.scaled`) the states are the scaled ones, the inputs the
    physical ones, and the values phi / ``unit``, coefficients of scaled terms.

    Parameters of the known part have their defaults; one without is refused. ``unit``, (d,), is
    that of each value, and ``known``, (n,), tells the equations without a free coefficient.
    """

    def __init__(self, system: CandidateSystem) -> None:
        candidates, freedom = system.candidates, system.freedom
        self.states, self._n = candidates.states, len(candidates.states)
        x, t = ca.SX.sym("x", self._n), ca.SX.sym("t")
        u = ca.SX.sym("u", len(candidates.inputs))
        self._symbols = ca.vertcat(x, u, t)
        inputs, free = u / ca.DM(candidates.scale[self._n :]), ca.SX(len(system.coefficients), 1)
        known = system.rate(x, inputs, t, _defaults(system), free)
        graph = ca.densify(ca.vertcat(known, candidates.graph(x, inputs, t)))
        self._graphs = [graph, *(derived(graph, x[k], ca.SX(1.0))[1] for k in range(self._n))]
        units = candidates.units
        self.unit = units[tuple(system.places.T)]
        basis = freedom.basis.tocoo()
        self._equation, self._term = freedom.places[basis.row].T
        self._column = np.asarray(basis.col, dtype=np.intp)
        self._weight = basis.data * self.unit[basis.col] / units[self._equation, self._term]
        self.known = ~np.isin(np.arange(self._n), self._equation)
        self._trace()

    def _trace(self) -> None:
        """Make functions of arrays, of the terms that have a coefficient."""
        used, row = np.unique(self._term, return_inverse=True)
        rows = [*(self._n + used).tolist(), *range(self._n)]
        graph, *slopes = (graph[rows] for graph in self._graphs)
        self._value = ArrayFunction(self._symbols, graph)
        self._all = ArrayFunction(self._symbols, ca.vertcat(graph, *slopes))
        self._used, self._row, d = len(used), row, len(self.unit)
        place = row * self._n + self._equation, self._column
        self._spread = sparse.csr_array((self._weight, place), shape=(self._used * self._n, d))
        _, first = np.unique(self._equation * d + self._column, return_index=True)
        self._first = first, np.setdiff1d(np.arange(len(row)), first)

    def __getstate__(self) -> dict[str, Any]:
        graphs = ca.Function("graphs", [self._symbols], [ca.densify(one) for one in self._graphs])
        kept = {name: one for name, one in vars(self).items() if name not in _TRACED}
        return kept | {"table": ExpressionTable.of(graphs)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        graphs = state.pop("table").function("graphs")
        vars(self).update(state)
        self._symbols = graphs.sx_in(0)
        found = graphs(self._symbols)
        self._graphs = list(found) if isinstance(found, tuple) else [found]
        self._trace()

    def restricted(self, columns: NDArray[np.intp]) -> LibraryRate:
        """Return the same rate with these coefficients only, by their columns."""
        result = copy(self)
        kept = np.isin(self._column, columns)
        result._equation, result._term = self._equation[kept], self._term[kept]
        result._weight = self._weight[kept]
        result._column = np.searchsorted(columns, self._column[kept])
        result.unit = self.unit[columns]
        result._trace()
        return result

    def equations(self) -> Equations:
        """Return the equations with no coefficient but those of the known part."""
        rate = self.restricted(np.array([], dtype=np.intp))
        return Equations(self.states, rate, np.zeros(0), self.known)

    def columns(self, x: Array, u: Array, t: Array) -> tuple[Array, Array]:
        """G (K, n, d), and known part (K, n), at states (K, n), inputs (K, m) and times (K,)."""
        found = _stacked(self._value(_columns(x[None], u, t)), (1, len(x)))[0]
        by = np.zeros((*x.shape, len(self.unit)))
        self._place(found[:, : self._used], by)
        return by, found[:, self._used :]

    def value(self, x: Array, u: Array, t: Array, values: Array) -> Array:
        """Rates at points, by the library."""
        found, used = _stacked(self._value(_columns(x, u, t)), x.shape[:2]), self._used
        return found[..., used:] + found[..., :used] @ self._coefficients(values)

    def with_derivatives(self, x: Array, u: Array, t: Array, values: Array) -> tuple[Array, Array]:
        """Rates at points and their slopes, by the library."""
        n, used, rows = self._n, self._used, self._used + self._n
        found = _stacked(self._all(_columns(x, u, t)), x.shape[:2])
        terms, known = found[..., :used], found[..., used:rows]
        slopes = found[..., rows:].reshape(*x.shape[:2], n, rows)
        coefficients = self._coefficients(values)
        by = np.zeros((*x.shape, n + len(self.unit)))
        by_x = slopes[..., :used] @ coefficients[:, None] + slopes[..., used:]
        by[..., :n] = by_x.swapaxes(2, 3)
        self._place(terms, by[..., n:])
        return known + terms @ coefficients, by

    def _place(self, terms: Array, by: Array) -> None:
        """Fill G (..., n, d), zero before, with terms (..., used)."""
        first, others = self._first
        by[..., self._equation[first], self._column[first]] = (
            terms[..., self._row[first]] * self._weight[first]
        )
        for k in others.tolist():
            by[..., self._equation[k], self._column[k]] += (
                terms[..., self._row[k]] * self._weight[k]
            )

    def _coefficients(self, values: Array) -> Array:
        """Coefficients of the terms in use, (S, terms, n)."""
        return (self._spread @ values.T).T.reshape(len(values), self._used, self._n)


def _defaults(system: CandidateSystem) -> ca.SX:
    """Defaults of the parameters of the known part."""
    known = system.known
    missing = [name for name in known.parameters if name not in known.defaults]
    if missing:
        raise InputError(
            f"known has parameters without a value ({listed(missing)}): give each a default, as "
            f"{missing[0]}=1.0, or let the library have its term",
            argument="known",
        )
    return ca.SX(ca.DM([known.defaults[name] for name in known.parameters]))


def _columns(x: Array, u: Array, t: Array) -> list[Array]:
    states = [x[:, :, i] for i in range(x.shape[2])]
    return [*states, *(u[:, i] for i in range(u.shape[1])), t]


def _stacked(columns: list[Array], shape: tuple[int, ...]) -> Array:
    result = np.empty((len(columns), *shape))
    for k, column in enumerate(columns):
        result[k] = column
    return np.moveaxis(result, 0, -1)


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


def measured_values(
    records: Sequence[Record], relative: bool, sd: Array | None
) -> GaussianMeasurements:
    """Measurements of the outputs, or of their logarithms; ``sd`` as of `LibraryPaths`."""
    y, lower, upper = (
        np.concatenate([beside(record, name) for record in records])
        for name in ("y", "y_lower", "y_upper")
    )
    if any(record.limits for record in records):
        return LimitedMeasurements(y, lower, upper, sd)
    return GaussianMeasurements(np.log(y) if relative else y, sd)


class LibraryPaths(Paths):
    """Outputs ``observe @ x`` of records whose equations have a library's terms.

    ``initial``, (T, n), is the prior mean of the state at the first sample of each record, and not
    read elsewhere; with ``relative`` noise multiplies: the logarithms of the outputs are measured.
    ``sd``, (T, q), are standard deviations of values in units of those of their outputs, NaN where
    none is stated, and ``entering`` are doses.

    stated: (q,), outputs of which some are.
    """

    def __init__(
        self,
        records: Sequence[Record],
        rate: LibraryRate,
        observe: Array,
        initial: Array,
        relative: bool = False,
        sd: Array | None = None,
        entering: Entering | None = None,
    ) -> None:
        y = np.concatenate([record.y for record in records])
        self._measured = measured_values(records, relative, sd)
        outputs = LinearOutputs(observe, relative)
        super().__init__(records, Intervals(rate, records, entering), outputs, self._measured)
        self.rate = rate
        self._initial = initial[self.begins]
        self.counts = np.isfinite(y).sum(axis=0)
        self.stated = np.isfinite(np.full(y.shape, np.nan) if sd is None else sd).any(axis=0)

    @override
    def initial_states(self, theta: Array) -> list[tuple[Array, Array]]:
        nothing = np.zeros((1, self._initial.shape[1], self._initial.shape[1] + theta.shape[1]))
        return [(state[None], nothing) for state in self._initial]

    def restricted(self, columns: NDArray[np.intp]) -> LibraryPaths:
        """Return the same paths with these coefficients only, by their columns."""
        result = copy(self)
        result.rate = self.rate.restricted(columns)
        result._intervals = self._intervals.with_rate(result.rate)
        return result

    def detached(self) -> LibraryPaths:
        """Return the same paths without the records, which may not be pickled, for fixed steps."""
        result = copy(self)
        result._intervals = self._intervals.detached()
        return result

    def squares(self, path: Array) -> Array:
        """Sums (q,) of the squares of what outputs, or their logarithms, are less those of a path.

        They are in units of ``sd``.
        """
        return self._measured.squares(self.expected(path[None], np.empty((1, 0))))[0]

    def of_limits(self, path: Array, variances: Array) -> tuple[float, float]:
        """Log density of a path's values less that of their linear model, and their number.

        The number is that by which a common factor of the ``variances``, (q,), is as well known.
        """
        expected = self.expected(path[None], np.empty((1, 0)))
        residual, weight = self._measured.expansion(expected, variances[None])
        cost = self._measured.cost(expected, variances[None])
        more = 0.5 * float(np.sum(weight * residual**2)) - float(cost[0])
        return more, float(self._measured.counts(expected, variances[None])[0])

    def columns(self, path: Array) -> tuple[Array, Array]:
        """Derivatives of the rate by the coefficients, (T, n, d), and its known part, (T, n)."""
        return self.rate.columns(path, self._u, self.times)
