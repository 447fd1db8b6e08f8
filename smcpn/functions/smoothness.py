"""Basis of splines in which a prior on their roughness has independent coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg import cholesky, eigh, solve_triangular

from smcpn.functions.uniform_spline import EVEN, ODD

Array = NDArray[np.float64]

_POINTS = 20
"""Points per interval at which functions are compared."""


@dataclass(frozen=True)
class SmoothBasis:
    """Splines between the first and last knot, by their roughness.

    Coefficients whose second differences are independent with one variance are those of an
    integrated random walk (P-splines: Eilers and Marx, *Stat. Sci.* 11, 1996; Lang and Brezger,
    *J. Comput. Graph. Stat.* 13, 2004). What has no second differences, level and slope, is left
    without prior. The basis is orthogonal on the interval and under this prior (Demmler and
    Reinsch, *Numer. Math.* 24, 1975).

    Attributes
    ----------
    straight : ndarray, (m, l)
        Coefficients of the level, which is 1, and of the line, whose mean square is 1; those that
        the parity allows.
    curved : ndarray, (m, c)
        Coefficients of the rest, times their standard deviations under the prior of which they
        have a mean square of 1 together; the smoothest first.
    step : float
        Standard deviation of a second difference under this prior.
    """

    straight: Array
    curved: Array
    step: float

    @property
    def rise(self) -> float:
        """Root mean square of the first differences of the curved part under this prior."""
        return float(np.sqrt((np.diff(self.curved, axis=0) ** 2).sum(axis=1).mean()))

    @classmethod
    def of(cls, knots: int, degree: int, parity: int) -> SmoothBasis:
        """Return the basis of the knots + degree - 1 B-splines on [0, knots - 1]."""
        count = knots + degree - 1
        allowed = _of_parity(count, parity)
        places = (np.arange(_POINTS * (knots - 1)) + 0.5) / _POINTS
        at_knots = np.arange(-degree, knots + degree, dtype=float)
        values = BSpline.design_matrix(places, at_knots, degree).toarray() @ allowed
        rough = np.diff(allowed, n=2, axis=0)
        # Coordinates in which the mean square over the interval is the sum of squares.
        root = cholesky(values.T @ values / len(places), lower=True)
        made = solve_triangular(root, rough.T @ rough, lower=True)
        penalty, turned = eigh(solve_triangular(root, made.T, lower=True))
        basis = allowed @ solve_triangular(root.T, turned)
        lines = 1 if parity else 2
        deviations = penalty[lines:] ** -0.5
        step = float(1.0 / np.sqrt((deviations**2).sum()))
        straight = [np.ones(count)] if parity != ODD else []
        if parity != EVEN:
            line = np.arange(count) - (count - 1) / 2
            straight.append(line * np.sqrt(12.0) / (knots - 1))
        # The last coefficient is positive, so that signs do not depend on who solves this.
        signs = np.sign(basis[-1, lines:])
        return cls(np.stack(straight, axis=1), basis[:, lines:] * (signs * step * deviations), step)


def _of_parity(count: int, parity: int) -> Array:
    """Coefficients that are odd or even about the middle, (count, independent)."""
    unit = np.eye(count)
    if not parity:
        return unit
    mirrored = unit + parity * unit[::-1]
    half = mirrored[:, : count // 2]
    odd_count = parity == EVEN and count % 2
    return np.hstack([half, unit[:, [count // 2]]]) if odd_count else half
