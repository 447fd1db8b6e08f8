"""Candidate monomials for the tests of the search."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement

import casadi as ca
import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Monomials:
    """Products of states and inputs, named by their factors: "0 1" is x0 x1, "" the constant."""

    names: tuple[str, ...]
    allowed: NDArray[np.bool_]

    @property
    def degrees(self) -> tuple[int, ...]:
        return tuple(len(name.split()) for name in self.names)

    def graph(self, x: ca.SX, u: ca.SX, t: ca.SX) -> ca.SX:
        z = ca.vertcat(x, u)
        columns = []
        for name in self.names:
            term = ca.SX(1.0)
            for factor in name.split():
                term = term * z[int(factor)]
            columns.append(term)
        return ca.vertcat(*columns)

    def support(self, *terms: tuple[int, str]) -> NDArray[np.bool_]:
        """Support of the given equations and terms."""
        result = np.zeros(self.allowed.shape, dtype=bool)
        for i, name in terms:
            result[i, self.names.index(name)] = True
        return result


def monomials(n: int, degree: int, n_inputs: int = 0, known: tuple[int, ...] = ()) -> Monomials:
    """All up to a degree, but the constant, in all equations that are not known."""
    names = [
        " ".join(str(k) for k in factors)
        for d in range(1, degree + 1)
        for factors in combinations_with_replacement(range(n + n_inputs), d)
    ]
    allowed = np.ones((n, len(names)), dtype=bool)
    allowed[list(known)] = False
    return Monomials(tuple(names), allowed)
