"""Cubic B-splines on equally spaced knots, continued linearly outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
from scipy import stats

from smcpn.errors import InputError, real_number, whole_number
from smcpn.functions.unknown import UnknownFunction


@dataclass(frozen=True)
class Spline(UnknownFunction):
    """f(v) = sum_i w_i B_i(v), with w_i ~ N(0, scale^2) and an unknown scale.

    Attributes
    ----------
    knots : int
        Number of B-splines.
    within : tuple of float
        First and last knot.
    odd : bool
        f(-v) = -f(v).
    """

    knots: int
    within: tuple[float, float]
    odd: bool = False

    @property
    def priors(self) -> Mapping[str, Any]:
        """See `UnknownFunction.priors`."""
        number = self.knots // 2 if self.odd else self.knots
        weights = {f"[{k}]": stats.norm(0.0, 1.0) for k in range(number)}
        return weights | {".scale": stats.lognorm(1.0)}

    @property
    def scales(self) -> Mapping[str, str]:
        """See `UnknownFunction.scales`."""
        return dict.fromkeys(list(self.priors)[:-1], ".scale")

    def graph(self, arguments: Sequence[ca.SX], parameters: ca.SX) -> ca.SX:
        """See `UnknownFunction.graph`."""
        weights = parameters[:-1]
        if self.odd:
            last = weights[::-1]
            middle = [ca.SX(0)] if self.knots % 2 else []
            weights = ca.vertcat(-last, *middle, weights)
        return ca.dot(weights, self._basis(arguments[0]))

    def _basis(self, v: ca.SX) -> ca.SX:
        """Every B-spline at v, (knots, 1)."""
        lower, upper = self.within
        spacing = (upper - lower) / (self.knots - 3)
        inside = ca.fmin(ca.fmax(v, lower), upper)
        beyond = (v - inside) / spacing
        places = (inside - lower) / spacing - np.arange(-1, self.knots - 1)
        return _cubic(places) + beyond * _slope(places)


def _cubic(s: ca.SX) -> ca.SX:
    """Cubic B-spline of the knots -2 to 2."""
    near, far = ca.fmax(1.0 - ca.fabs(s), 0.0), ca.fmax(2.0 - ca.fabs(s), 0.0)
    return (far**3 - 4.0 * near**3) / 6.0


def _slope(s: ca.SX) -> ca.SX:
    """Derivative of `_cubic`."""
    near, far = ca.fmax(1.0 - ca.fabs(s), 0.0), ca.fmax(2.0 - ca.fabs(s), 0.0)
    return ca.sign(s) * (2.0 * near**2 - 0.5 * far**2)


def spline(
    *arguments: str, knots: int = 12, within: tuple[float, float], odd: bool = False
) -> Spline:
    """Return an unknown function of one variable as a cubic spline.

    Parameters
    ----------
    *arguments : str
        Label of its variable.
    knots : int
        Number of B-splines.
    within : tuple of float
        Where the knots are, in the unit of the variable; beyond, the spline goes on linearly.
    odd : bool
        Whether f(-v) = -f(v).

    Raises
    ------
    InputError
        If there is not one variable, fewer than four B-splines, or no interval.

    Examples
    --------
    >>> friction = spline("v", knots=12, within=(-1, 1), odd=True)
    """
    if len(arguments) != 1:
        raise InputError(f"spline has {len(arguments)} arguments: name the one variable")
    lower, upper = (real_number("within", bound) for bound in within)
    if not lower < upper:
        raise InputError(f"within is {within}: give a lower and a larger upper bound")
    return Spline(arguments, whole_number("knots", knots, 4), (lower, upper), odd)
