"""Splines on equally spaced knots, as expression graphs of their coefficients.

Lengths are in spacings, and the first knot is at 0: B-spline i of degree p lives on [i - p, i + 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

Array = NDArray[np.float64]

LINEAR, CONSTANT = "linear", "constant"
ODD, NEITHER, EVEN = -1, 0, 1
"""Parity about the middle."""


@dataclass(frozen=True)
class UniformSpline:
    """Splines whose first and last knot are 0 and knots - 1, and which go on at both ends.

    Beside the B-splines that do not vanish between these knots there is one more at each end. The
    coefficients after it are in a line with the last two, or equal to the last one; so the spline
    is a line, or constant, from `ends` on.

    Attributes
    ----------
    knots, degree : int
    below, above : {"linear", "constant"}
    """

    knots: int
    degree: int
    below: str = LINEAR
    above: str = LINEAR

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.knots + self.degree + 1

    @property
    def middle(self) -> float:
        """Centre between the first and the last knot."""
        return (self.knots - 1) / 2

    @property
    def ends(self) -> tuple[int, int]:
        """Knots at which the continuation begins."""
        below, above = (int(end == LINEAR) for end in (self.below, self.above))
        return below - self.degree, self.knots + self.degree - 1 - above

    def graph(self, w: ca.SX, coefficients: ca.SX, parity: int = NEITHER) -> ca.SX:
        """Value at a distance w from the middle, (1, 1), by truncated powers.

        They are summed from the middle outwards, which keeps them small. Of a spline that is odd or
        even about the middle those on one side are enough.
        """
        below, above = (end - self.middle for end in self.ends)
        slope_below, slope_above = ca.vertsplit(_product(self.slopes(), coefficients))
        size = ca.fabs(w) if parity else w
        inside = ca.fmin(size if parity else ca.fmax(size, below), above)
        first, *taylor = ca.vertsplit(_product(self.taylor(), coefficients))
        higher = self._higher(inside, taylor[1:], coefficients, parity)
        if parity == ODD:
            # The sign of w has no derivative at zero: the term of first degree goes without.
            beyond = (slope_above - taylor[0]) * (size - inside)
            return taylor[0] * w + ca.sign(w) * (higher + beyond)
        if parity == EVEN:
            return first + taylor[0] * inside + higher + slope_above * (size - inside)
        beyond = slope_above * ca.fmax(w - above, 0.0) + slope_below * ca.fmin(w - below, 0.0)
        return first + taylor[0] * inside + higher + beyond

    def _higher(self, w: ca.SX, taylor: Sequence[ca.SX], coefficients: ca.SX, parity: int) -> ca.SX:
        """All but the terms of degree 0 and 1 of the expansion about the middle."""
        total = ca.SX(0)
        for coefficient in reversed(taylor):
            total = (total + coefficient) * w
        total *= w
        places, matrix = self.jumps()
        jumps = ca.vertsplit(_product(matrix, coefficients))
        for place, jump in zip(places - self.middle, jumps, strict=True):
            if place > 0.0:
                total += jump * ca.fmax(w - place, 0.0) ** self.degree
            elif not parity:
                total -= jump * (-ca.fmax(place - w, 0.0)) ** self.degree
        return total

    def taylor(self) -> Array:
        """Matrix from the coefficients to f^(r) / r! at the middle, from its right."""
        p = self.degree
        splines = BSpline(np.arange(-1 - p, self.knots + p + 1.0), np.eye(self.size), p)
        return np.array([splines(self.middle, nu=r) / factorial(r) for r in range(p + 1)])

    def jumps(self) -> tuple[Array, Array]:
        """Knots, and the matrix from the coefficients to the jumps of f^(p) / p! there."""
        differences = np.diff(self._continued(), n=self.degree + 1, axis=0)
        every = np.arange(-self.degree, self.knots + self.degree)
        used = (every >= self.ends[0]) & (every <= self.ends[1])
        return every[used].astype(float), differences[used] / factorial(self.degree)

    def slopes(self) -> Array:
        """Matrix from the coefficients to the slopes of the two continuations."""
        wide = self._continued()
        return np.array([wide[1] - wide[0], wide[-1] - wide[-2]])

    def _continued(self) -> Array:
        """Matrix from the coefficients to these and ``degree`` more at each end."""
        wide = np.eye(self.size)
        for _ in range(self.degree):
            first = wide[0] if self.below == CONSTANT else 2.0 * wide[0] - wide[1]
            last = wide[-1] if self.above == CONSTANT else 2.0 * wide[-1] - wide[-2]
            wide = np.vstack([first, wide, last])
        return wide


def _product(matrix: Array, vector: ca.SX) -> ca.SX:
    """Product in which the zeros of the matrix take no operations."""
    return ca.densify(ca.sparsify(ca.DM(matrix)) @ vector)
