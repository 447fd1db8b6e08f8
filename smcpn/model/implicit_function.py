"""The solution z of equations 0 = g(z, p) as an operation of expression graphs.

Newton's iteration for it is a loop, and its k-th result one operation of graphs. Its derivative is
that of the implicit function theorem, a graph of z again, so that every derivative is exact.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.model.compiled_function import CALL, KNOWN, CalledFunction
from smcpn.model.expression import ExpressionTable

Array = NDArray[np.float64]

MOST = 40
"""Iterations at most."""


@dataclass(frozen=True, eq=False)
class ImplicitFunction(CalledFunction):
    """Solution z (n,) of equations with parameters p (m,), of arguments (b, p): b begins with it.

    iteration: Of (z, p): z after a step (n), and three numbers that are 1 or 0: whether the step is
        a good one, whether the next one would be of rounding only, and whether z then solves the
        equations.
    search: Of (z, p): z after the best of several steps, where that is no good one.
    moved: Of (z, p, d): derivative (n) of the solution where p moves along d.
    """

    iteration: ca.Function
    search: ca.Function
    moved: ca.Function

    def __post_init__(self) -> None:
        KNOWN.setdefault(self.operation, self)

    @cached_property
    def operation(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Name of the operation."""
        digest = hashlib.sha256(repr(MOST).encode())
        for one in fields(self):
            for numbers in ExpressionTable.of(getattr(self, one.name)).arrays().values():
                digest.update(repr(numbers.tolist()).encode())
        return CALL + digest.hexdigest()[:10]

    @property
    def n_results(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Number of unknowns."""
        return self.iteration.size1_in(0)

    @property
    def first(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """First of the parameters."""
        return self.n_results

    @property
    def n_arguments(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Numbers of the begin and of the parameters."""
        return self.n_results + self.iteration.size1_in(1)

    def solution(self, arguments: ca.SX) -> ca.SX:
        """Graphs of all results, (n, 1)."""
        return ca.vertcat(*(self.graph(k, 0.0, arguments) for k in range(self.n_results)))

    def along(self, k: ca.SX, interval: ca.SX, arguments: ca.SX, direction: ca.SX) -> ca.SX:
        """Derivative of the k-th result; where the iteration begins does not matter to it."""
        point, moving = arguments[self.n_results :], direction[self.n_results :]
        if moving.is_zero():
            return ca.SX(1, 1)
        (rates,) = self.moved.call([self.solution(arguments), point, moving], True, False)
        return rates[int(k)]

    def __call__(self, arguments: Array) -> Array:
        """Results (n, N) at arguments (m, N); NaN where the iteration finds none."""
        z, point = np.split(np.array(arguments, dtype=float), [self.n_results])
        settled = sound = np.zeros(z.shape[1], dtype=bool)
        for _ in range(MOST):
            (found,) = self._at(self.iteration, z, point)
            following, (good, now, right) = found[:-3], found[-3:] == 1.0
            if (stuck := ~settled & ~good).any():
                (best,) = self._at(self.search, z, point)
                following = np.where(stuck, best, following)
            z, sound = np.where(settled, z, following), np.where(settled, sound, right)
            settled = settled | now | ~np.isfinite(z).all(axis=0)
            if settled.all():
                break
        return np.where(sound, z, np.nan)

    @staticmethod
    def _at(function: ca.Function, *arguments: Array) -> list[Any]:
        return [np.array(one) for one in function.call([ca.DM(one) for one in arguments])]
