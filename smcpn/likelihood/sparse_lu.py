"""Factors of a sparse matrix as graphs: straight-line code without a zero in it.

Pivots are taken on the diagonal, in the order of Markowitz (1957): each time the one whose row and
column have the fewest other entries left, r and c of them, by their product r c, which bounds the
new entries that eliminating it can make.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import casadi as ca

from smcpn.codegen.memory import StraightLine


class SparseLU:
    """L U of a square matrix of graphs, whose diagonal has no structural zero.

    pivots: What was left of each entry of the diagonal when it was eliminated.
    """

    def __init__(self, matrix: ca.SX) -> None:
        n = matrix.shape[0]
        rows: list[dict[int, ca.SX]] = [{} for _ in range(n)]
        for i, j in zip(*matrix.sparsity().get_triplet(), strict=True):
            rows[i][j] = matrix[i, j]
        columns = [{i for i in range(n) if j in rows[i]} for j in range(n)]
        self._order: list[int] = []
        self._lower: dict[int, list[tuple[int, ca.SX]]] = {}
        self._upper: dict[int, list[tuple[int, ca.SX]]] = {}
        self._inverses: dict[int, ca.SX] = {}
        self.pivots: dict[int, ca.SX] = {}
        left = set(range(n))
        while left:
            k = min(left, key=lambda k: ((len(rows[k]) - 1) * (len(columns[k]) - 1), k))
            left.remove(k)
            self._eliminate(k, rows, columns)

    def _eliminate(self, k: int, rows: list[dict[int, ca.SX]], columns: Sequence[set[int]]) -> None:
        self._order.append(k)
        self.pivots[k] = rows[k].pop(k)
        self._inverses[k] = 1.0 / self.pivots[k]
        self._upper[k], self._lower[k] = sorted(rows[k].items()), []
        for j in rows[k]:
            columns[j].discard(k)
        for i in sorted(columns[k] - {k}):
            factor = rows[i].pop(k) * self._inverses[k]
            self._lower[k].append((i, factor))
            for j, value in self._upper[k]:
                product = factor * value
                rows[i][j] = rows[i][j] - product if j in rows[i] else -product
                columns[j].add(i)

    @property
    def entries(self) -> int:
        """Number of entries of both factors."""
        off = (*self._lower.values(), *self._upper.values())
        return len(self.pivots) + sum(map(len, off))

    def bound(self, algebra: StraightLine) -> SparseLU:
        """Copy whose factors are computed once for all graphs that read them."""
        other, off = copy(self), (self._lower, self._upper)
        entries = [value for part in off for row in part.values() for _, value in row]
        numbers = iter(algebra.bound([*self._inverses.values(), *entries]))
        other._inverses = {k: next(numbers) for k in self._inverses}
        other._lower, other._upper = (
            {k: [(i, next(numbers)) for i, _ in row] for k, row in part.items()} for part in off
        )
        return other

    def solve(self, right: ca.SX) -> ca.SX:
        """Solution (n, 1) for a right-hand side (n, 1)."""
        x = ca.vertsplit(ca.densify(right))
        for k in self._order:
            for i, factor in self._lower[k]:
                x[i] = x[i] - factor * x[k]
        for k in reversed(self._order):
            for j, value in self._upper[k]:
                x[k] = x[k] - value * x[j]
            x[k] = x[k] * self._inverses[k]
        return ca.vertcat(*x)
