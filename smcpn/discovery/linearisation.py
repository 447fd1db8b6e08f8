"""An equation that is linear in its coefficients, with its derivatives, for arrays.

    dx_i/dt = known_i(x, u, t) + sum over j of theta_ij phi_j(x, u, t)

The candidate terms phi are the same for all equations, each of which may have some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Protocol

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.arrays import ArrayFunction
from smcpn.codegen.tangent import derived

Array = NDArray[np.float64]
Graph = Callable[[ca.SX, ca.SX, ca.SX], ca.SX]
"""A column of expressions, of states, inputs and time."""


class Candidates(Protocol):
    """Terms that may stand in the equations of n states."""

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each of the p terms."""
        ...

    @property
    def degrees(self) -> tuple[int, ...]:
        """Terms of one degree share the prior probability of standing in an equation."""
        ...

    @property
    def allowed(self) -> NDArray[np.bool_]:
        """Which terms each equation may have, (n, p)."""
        ...

    def graph(self, x: ca.SX, u: ca.SX, t: ca.SX) -> ca.SX:
        """Terms, (p, 1), of states (n, 1), inputs (m, 1) and time."""
        ...


class LibraryRate:
    """Right-hand side whose values are the coefficients of some terms; the others are zero.

    Parameters
    ----------
    candidates : Candidates
    n_inputs : int
    known : callable, optional
        Part of the equation without unknown coefficients, (n, 1); zero if not given.

    Attributes
    ----------
    equation, term : ndarray of int, (d,)
        Place of each coefficient, at first of all that are allowed.
    """

    def __init__(self, candidates: Candidates, n_inputs: int, known: Graph | None = None) -> None:
        self.equation, self.term = np.nonzero(candidates.allowed)
        self._n, self._p = candidates.allowed.shape
        x, u, t = ca.SX.sym("x", self._n), ca.SX.sym("u", n_inputs), ca.SX.sym("t")
        self._symbols = x, u, t
        self._known = ca.SX.zeros(self._n, 1) if known is None else known(x, u, t)
        self._terms = ca.densify(candidates.graph(x, u, t))
        self._trace()

    def _trace(self) -> None:
        """Make functions of arrays, of the terms that have a coefficient."""
        self._used, self._row = np.unique(self.term, return_inverse=True)
        graph = ca.densify(ca.vertcat(self._terms[self._used.tolist()], self._known))
        x, symbols = self._symbols[0], ca.vertcat(*self._symbols)
        slopes = [derived(graph, x[k], ca.SX(1.0))[1] for k in range(self._n)]
        self._value = ArrayFunction(symbols, graph)
        self._all = ArrayFunction(symbols, ca.vertcat(graph, *slopes))

    def restricted(self, columns: NDArray[np.intp]) -> LibraryRate:
        """The same with some of the coefficients only."""
        result = copy(self)
        result.equation, result.term = self.equation[columns], self.term[columns]
        result._trace()
        return result

    def placed(self, values: Array) -> Array:
        """Numbers (d,) of the coefficients in their places, (n, p); zero elsewhere."""
        result = np.zeros((self._n, self._p))
        result[self.equation, self.term] = values
        return result

    def terms(self, x: Array, u: Array, t: Array) -> tuple[Array, Array]:
        """Terms of the coefficients (K, d) and known part (K, n) at states (K, n), u (K, m), t."""
        found = _stacked(self._value(_columns(x[None], u, t)), (1, len(x)))[0]
        return found[:, self._row], found[:, len(self._used) :]

    def value(self, x: Array, u: Array, t: Array, values: Array) -> Array:
        """See `smcpn.estimate.lifted.linearisation.Rate`."""
        found, used = _stacked(self._value(_columns(x, u, t)), x.shape[:2]), len(self._used)
        return found[..., used:] + found[..., :used] @ self._coefficients(values)

    def with_derivatives(self, x: Array, u: Array, t: Array, values: Array) -> tuple[Array, Array]:
        """See `smcpn.estimate.lifted.linearisation.Rate`."""
        n, used, rows = self._n, len(self._used), len(self._used) + self._n
        found = _stacked(self._all(_columns(x, u, t)), x.shape[:2])
        terms, known = found[..., :used], found[..., used:rows]
        slopes = found[..., rows:].reshape(*x.shape[:2], n, rows)
        coefficients = self._coefficients(values)
        by = np.zeros((*x.shape, n + len(self.term)))
        by_x = slopes[..., :used] @ coefficients[:, None] + slopes[..., used:]
        by[..., :n] = by_x.swapaxes(2, 3)
        by[:, :, self.equation, n + np.arange(len(self.term))] = terms[..., self._row]
        return known + terms @ coefficients, by

    def _coefficients(self, values: Array) -> Array:
        """Coefficients of the terms in use, (S, terms, n)."""
        result = np.zeros((len(values), len(self._used), self._n))
        result[:, self._row, self.equation] = values
        return result


def _columns(x: Array, u: Array, t: Array) -> list[Array]:
    states = [x[:, :, i] for i in range(x.shape[2])]
    return [*states, *(u[:, i] for i in range(u.shape[1])), t]


def _stacked(columns: list[Array], shape: tuple[int, ...]) -> Array:
    result = np.empty((len(columns), *shape))
    for k, column in enumerate(columns):
        result[k] = column
    return np.moveaxis(result, 0, -1)
