"""Gaussians whose covariance is kept as L D L': predict, condition, smooth.

L is unit lower triangular and D diagonal. For x ~ N(m, P), P = L D L',

    predict     x+ = F x + w, w ~ N(0, Q):  m+ = F m,  P+ = F P F' + Q           (`predicted`;
                by `moved` where F and Q are diagonal)
    condition   y = h' x + e, e ~ N(0, r):  s = h' P h + r,  k = P h / s,
                m+ = m + k (y - h' m),  P+ = P - k s k'                          (`downdate`)
    smooth      x given x+:  G = P F' (P+)^-1,  m + G (x+ - m+),  P - G P+ G'    (`smoothing_gain`),
                and given N(m*, P*) of x+:  m + G (m* - m+),  P + G (P* - P+) G'       (`smoothed`)
    compare     v' P^-1 v (`squared_mahalanobis`), D^-1/2 L^-1 v (`whitened`), det P (`determinant`)

A filter that subtracts k s k' from its covariance loses its digits where the noise is small against
what is not yet known. The factors keep them, in straight-line arithmetic without a square root: a
prediction is a weighted Gram-Schmidt orthogonalisation of the rows of [F L, Q^1/2] (Thornton), an
output with noise a rank-one downdate (Bierman), and none subtracts from a variance (Bierman 1977,
Factorization methods for discrete sequential estimation, chapters V and VII).

Entries are graphs, or arrays that hold one number for each of many Gaussians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import truediv
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.codegen.memory import STRAIGHT, Row, StraightLine

Quotient = Callable[[Any, Any], Any]
"""Of a number and a pivot: `truediv` where no pivot is zero."""

Moments = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Means and covariances of many Gaussians, (n, N) and (n, n, N)."""

LEAST_PIVOT = 1e-290
"""Below it a variance counts as none, and what depends on it as uncorrelated."""
SINGULAR = 1e-13
"""Share of its variance below which what is left of a state counts as known exactly."""


@dataclass(frozen=True)
class Factor:
    """Covariance L D L'.

    rows: L, any number of rows, each as long as ``pivots``. The first are unit lower triangular;
        those beyond are combinations of the first.
    pivots: Diagonal of D.
    """

    rows: list[Row]
    pivots: Row


@dataclass(frozen=True)
class Gaussian:
    """Graphs of a mean and of a covariance L D L'."""

    mean: ca.SX
    factor: Factor

    @property
    def covariance(self) -> ca.SX:
        """L D L', (n, n)."""
        lower = matrix_of(self.factor.rows)
        return lower @ ca.diag(ca.vertcat(*self.factor.pivots)) @ lower.T


def matrix_of(rows: Sequence[Row]) -> ca.SX:
    """Rows of graphs as a matrix."""
    return ca.vertcat(*[ca.horzcat(*row) for row in rows])


def divided(value: ca.SX, pivot: ca.SX) -> ca.SX:
    """A quotient by a pivot, 0 where the pivot is: a state may have no noise of its own."""
    return ca.SX(0) if value.is_zero() else value * (1.0 / ca.fmax(pivot, LEAST_PIVOT))


def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Sum of the products of graphs."""
    return sum((x * y for x, y in zip(a, b, strict=True)), ca.SX(0.0))


def factorised(matrix: Any, divide: Quotient = truediv, scale: Any = None) -> Factor:
    """L D L' of a symmetric matrix, of which the lower triangle is read.

    matrix: (n, n) or (n, n, ...)
    divide: Quotient of what is left of an entry and a pivot.
    scale: (n, ...), variances: a pivot of `SINGULAR` times one of them or less is none.
    """
    n = matrix.shape[0]
    rows = [[matrix[i, j] * 0.0 + float(i == j) for j in range(n)] for i in range(n)]
    pivots: Row = []
    for i in range(n):
        for j in range(i):
            value = matrix[i, j]
            for k in range(j):
                value = value - rows[i][k] * rows[j][k] * pivots[k]
            rows[i][j] = divide(value, pivots[j])
        pivot = matrix[i, i]
        for k in range(i):
            pivot = pivot - rows[i][k] ** 2 * pivots[k]
        known = scale is None
        pivots.append(pivot if known else np.where(pivot > SINGULAR * scale[i], pivot, 0.0))
    return Factor(rows, pivots)


def substituted(rows: Sequence[Row], right: Sequence[Any]) -> Row:
    """L^-1 right, for unit lower triangular rows."""
    found: Row = []
    for row, value in zip(rows, right, strict=True):
        for slope, before in zip(row, found, strict=False):
            value = value - slope * before
        found.append(value)
    return found


def whitened(factor: Factor, right: ca.SX) -> ca.SX:
    """D^-1/2 L^-1 right: columns of covariance I, where those of ``right`` have P."""
    rows = zip(substituted(factor.rows, ca.vertsplit(right)), factor.pivots, strict=True)
    return ca.vertcat(*[row / ca.sqrt(pivot) for row, pivot in rows])


def squared_mahalanobis(factor: Factor, vector: Sequence[Any]) -> Any:
    """Squared Mahalanobis distance of a vector from zero, v' P^-1 v."""
    pairs = zip(substituted(factor.rows, vector), factor.pivots, strict=True)
    return sum((w * w / pivot for w, pivot in pairs), ca.SX(0.0))


def determinant(factor: Factor) -> Any:
    """Determinant of P."""
    return prod(factor.pivots, start=ca.SX(1.0))


def orthogonalised(
    rows: Sequence[Row],
    weights: Row,
    divide: Quotient = truediv,
    algebra: StraightLine = STRAIGHT,
) -> Factor:
    """Factor L D L' = W diag(weights) W' with L unit lower triangular, by modified Gram-Schmidt.

    rows: (m, c)
    weights: (c,)
    divide: Quotient of a product and a pivot, for a W whose rank may be less than m.
    algebra: Or `Memory`, for a W that is too large for one graph.
    """
    return orthogonalised_in(algebra, algebra.keep(rows), weights, divide)


def orthogonalised_in(
    algebra: StraightLine, remaining: Any, weights: Row, divide: Quotient = truediv
) -> Factor:
    """Factor as of `orthogonalised`, of rows that an algebra keeps."""
    ratio = _ratio if divide is truediv else partial(_ratio, divide=divide)
    size, kept = len(remaining), algebra.keep([weights])[0]
    found: list[tuple[Any, Any]] = []
    while len(remaining):
        row, others = remaining[0], remaining[1:]
        weighted = algebra.made(_weighted, kept, row)
        ratios = algebra.made_each(ratio, others, weighted)
        found.append((weighted, ratios))
        remaining = algebra.change_each(less, others, ratios, row)
    lower = [[ca.SX(float(i == j)) for j in range(size)] for i in range(size)]
    pivots: Row = []
    for j, (weighted, ratios) in enumerate(found):
        pivots.append(algebra.values(weighted)[-1])
        for i in range(j + 1, size):
            lower[i][j] = algebra.values(ratios[i - j - 1])[0]
    return Factor(lower, pivots)


def _weighted(weights: Row, row: Row) -> Row:
    """A row times the weights, and with it the sum of its weighted squares."""
    weighted = [w * v for w, v in zip(weights, row, strict=True)]
    return [*weighted, dot(weighted, row)]


def _ratio(row: Row, weighted: Row, divide: Quotient = truediv) -> Row:
    """Multiple of another row that is part of a row."""
    return [divide(dot(weighted[:-1], row), weighted[-1])]


def less(row: Row, multiple: Row, other: Row) -> Row:
    """A row less a multiple of another."""
    return [v - multiple[0] * w for v, w in zip(row, other, strict=True)]


def predicted(factor: Factor, jacobian: ca.SX, noise: ca.SX, error: ca.SX) -> Factor:
    """Factor of F P F' + B B' + E, by weighted Gram-Schmidt (Thornton).

    jacobian, noise: F (n, n) and B (n, k).
    error: Diagonal of E, (n, 1).
    """
    n, k = noise.shape
    columns = ca.densify(ca.horzcat(jacobian @ matrix_of(factor.rows), noise, ca.SX.eye(n)))
    weights = [*factor.pivots, *[ca.SX(1)] * k, *ca.vertsplit(error)]
    used = [j for j, weight in enumerate(weights) if not weight.is_zero()]
    rows = [[columns[i, j] for j in used] for i in range(n)]
    return orthogonalised(rows, [weights[j] for j in used], divided)


def moved(gaussian: Gaussian, share: ca.SX, variance: ca.SX) -> Gaussian:
    """Gaussian of c x + e, of which every entry is a share of itself and independent noise.

    share, variance: (n, 1), c, and the variances of e.
    """
    factor = moved_factor(gaussian.factor, share, variance)
    return Gaussian(share * gaussian.mean, factor)


def moved_factor(factor: Factor, share: ca.SX, variance: ca.SX) -> Factor:
    """Factor as of `moved`.

    What stands before the first entry that changes does not depend on the columns from there on,
    and stays; rows beyond the first n do too, and must not depend on them either.
    """
    size = len(factor.pivots)
    changed = [k for k in range(size) if not (share[k].is_one() and variance[k].is_zero())]
    if not changed:
        return factor
    first = changed[0]
    own = Factor([row[first:] for row in factor.rows[first:size]], factor.pivots[first:])
    slopes = share[first:]
    own = predicted(own, ca.diag(slopes), ca.SX(size - first, 0), variance[first:])
    rows = [
        [*(slope * value for value in row[:first]), *new]
        for slope, row, new in zip(
            ca.vertsplit(slopes), factor.rows[first:size], own.rows, strict=True
        )
    ]
    rows = [*factor.rows[:first], *rows, *factor.rows[size:]]
    return Factor(rows, [*factor.pivots[:first], *own.pivots])


def downdate(
    factor: Factor, sensitivity: Sequence[ca.SX], noise: ca.SX
) -> tuple[Factor, Row, ca.SX, ca.SX]:
    """Condition on a scalar output with noise (Bierman).

    sensitivity: Derivative of the output by the first rows; the others do not enter.
    noise: Variance of the output's noise.

    Returns factor; gain: one entry per row of the factor; variance: of the innovation: output and
    noise; spread: of the output without its noise.
    """
    n_values = len(sensitivity)
    rows, pivots = [list(row) for row in factor.rows], list(factor.pivots)
    gain: Row = [ca.SX(0.0)] * len(rows)
    variance, spread = noise, ca.SX(0.0)
    for j in reversed(range(n_values)):
        f = dot([row[j] for row in rows[:n_values]], sensitivity)
        carried = factor.pivots[j] * f
        total = variance + carried * f
        spread += carried * f
        pivots[j] = factor.pivots[j] * (variance / total)
        shift = f / variance
        for i, row in enumerate(rows):
            old = row[j]
            row[j] = old - shift * gain[i]
            gain[i] = gain[i] + carried * old
        variance = total
    return Factor(rows, pivots), [g / variance for g in gain], variance, spread


def over_pivot(value: Any, pivot: Any) -> Any:
    """Quotients of arrays by pivots, 0 where a pivot is."""
    known = pivot > 0.0
    return np.where(known, value / np.where(known, pivot, 1.0), 0.0)


def square_root(covariance: Any, scale: Any) -> Any:
    """L D^1/2 of many covariances at once, (n, n, ...), with ``scale`` as of `factorised`."""
    factor = factorised(covariance, over_pivot, scale)
    roots = [np.sqrt(pivot) for pivot in factor.pivots]
    return np.stack(
        [np.stack([v * r for v, r in zip(row, roots, strict=True)]) for row in factor.rows]
    )


def smoothing_gain(ahead: Any, cross: Any) -> tuple[Any, Any]:
    """G = C (P+)^-1 and G C' of many Gaussians at once, (n, n, ...), by P+ = L D L'.

    ahead: (n, n, ...), P+, the predicted covariance.
    cross: (n, n, ...), C = P F', of the state (rows) and that predicted (columns).
    """
    n = len(ahead)
    factor = factorised(ahead, over_pivot, [ahead[i, i] for i in range(n)])
    whitened = substituted(factor.rows, cross.swapaxes(0, 1))
    gain = [over_pivot(w, pivot) for w, pivot in zip(whitened, factor.pivots, strict=True)]
    explained = sum(w[:, None] * g[None] for w, g in zip(whitened, gain, strict=True))
    for j in reversed(range(n)):
        for k in range(j + 1, n):
            gain[j] = gain[j] - factor.rows[k][j] * gain[k]
    return np.stack(gain, axis=1), explained


def smoothed(before: Moments, ahead: Moments, after: Moments, gain: Any) -> Moments:
    """Moments of many Gaussians at once given those of the state that follows.

    before, ahead, after: (n, N) and (n, n, N), mean and covariance of a state, of the next one as
        predicted from it, and of that one given all that is known.
    """
    (mean, covariance), (expected, predicted), (known, left) = before, ahead, after
    change = np.einsum("ijn,jkn->ikn", gain, left - predicted)
    covariance = covariance + np.einsum("ikn,jkn->ijn", change, gain)
    return mean + applied(gain, known - expected), covariance


def applied(matrix: Any, vector: Any) -> Any:
    """Products of many matrices (n, m, N) and vectors (m, N)."""
    return np.einsum("ijn,jn->in", matrix, vector)
