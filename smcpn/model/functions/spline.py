"""B-splines on equally spaced knots, under a prior on their roughness whose scale is learned.

Lengths are in spacings, and the first knot is at 0: B-spline i of degree p lives on [i - p, i + 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Annotated, Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.interpolate import BSpline
from scipy.linalg import cholesky, eigh, solve_triangular
from typing_extensions import override

from smcpn.base.arguments import Kind, Positive, UnfitError, checked, whole
from smcpn.errors import InputError, one_of
from smcpn.model.functions.unknown import Interval, UnknownFunction, labels, softplus

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

    below, above: {"linear", "constant"}
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

    straight: (m, l), coefficients of the level, which is 1, and of the line, whose mean square is
        1; those that the parity allows.
    curved: (m, c), coefficients of the rest, times their standard deviations under the prior of
        which they have a mean square of 1 together; the smoothest first.
    step: Standard deviation of a second difference under this prior.
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


INCREASING, DECREASING = "increasing", "decreasing"
_TAILS = 3
"""Degrees of freedom of the prior of level and slope, whose tails forgive a wrong size."""
_WIDE, _NARROW = 1.5, 1.0
"""Standard deviation of the log of the scale: of values, and of logarithms."""
_ORDERS = 2.0
"""Standard deviation of the logarithm of a positive level, or of a mean increment."""


@dataclass(frozen=True)
class Spline(UnknownFunction):
    """f(v) = sum_i c_i B_i(v), whose coefficients are an integrated random walk.

    With ``w`` the variable from -1 to 1 over the interval, and x_k the parameters ``[k]``,
    f is the sum of a level x_0, a line sqrt(3) w x_1, curved functions that are orthogonal to these
    and to one another, the smoothest first, and what the random walk adds beyond the lower and the
    upper bound. The x_k of these two are N(0, scale^2), and ``scale`` is the root mean square of
    the curved part that this prior expects. See `SmoothBasis`.

    An odd function has no level, an even one no line, and either has one parameter less beyond.
    Of a monotone function this is the logarithm of the increments of c, after a parameter for its
    value at the middle. A positive one is ``size`` times the exponential of such a function, which
    is constant beyond; increments are then log(1 + e^x) in place of e^x.

    Attributes
    ----------
    knots : int
    within : tuple of float
        First and last knot.
    degree : int
    odd, even, positive : bool
    monotone : {"", "increasing", "decreasing"}
    size : float
    """

    knots: int
    within: tuple[float, float]
    degree: int = 3
    odd: bool = False
    even: bool = False
    monotone: str = ""
    positive: bool = False
    size: float = 1.0

    @property
    @override
    def intervals(self) -> tuple[tuple[float, float], ...]:
        return (self.within,)

    @cached_property
    @override
    def priors(self) -> Mapping[str, Any]:
        standard, orders = stats.norm(), stats.norm(scale=_ORDERS)
        heavy = stats.t(_TAILS, scale=self.size)
        lines = self._basis.straight.shape[1]
        first = [orders, standard][:lines] if self._of_logarithms else [heavy] * lines
        if self._has_level:
            first.insert(0, orders if self.positive else heavy)
        last = [standard] * (self._basis.curved.shape[1] + self._beyond)
        scale = stats.lognorm(_NARROW)
        if not self._of_logarithms:
            scale = stats.lognorm(_WIDE, scale=self.size)
        numbered = {f"[{k}]": prior for k, prior in enumerate(first + last)}
        return numbered | {".scale": scale}

    @property
    @override
    def scales(self) -> Mapping[str, str]:
        first = int(self._has_level) + self._basis.straight.shape[1]
        return {f"[{k}]": ".scale" for k in range(first, len(self.priors) - 1)}

    @override
    def graph(self, arguments: Sequence[ca.SX], parameters: ca.SX) -> ca.SX:
        lower, upper = self.within
        spacing = (upper - lower) / (self.knots - 1)
        distance = (arguments[0] - (lower + upper) / 2) / spacing
        value = self._spline.graph(distance, self._coefficients(parameters), self._parity)
        return self.size * ca.exp(value) if self.positive else value

    @property
    def _parity(self) -> int:
        return ODD if self.odd else EVEN if self.even else NEITHER

    @property
    def _of_logarithms(self) -> bool:
        """True if the random walk is that of logarithms."""
        return self.positive or bool(self.monotone)

    @property
    def _has_level(self) -> bool:
        """True if a parameter beside the increments says where the function is."""
        return bool(self.monotone) and not self.odd

    @property
    def _beyond(self) -> int:
        return 1 if self._parity else 2

    @cached_property
    def _spline(self) -> UniformSpline:
        beyond = CONSTANT if self.positive else LINEAR
        return UniformSpline(self.knots, self.degree, beyond, beyond)

    @cached_property
    def _basis(self) -> SmoothBasis:
        if self.monotone:
            return SmoothBasis.of(self.knots, self.degree - 1, EVEN if self.odd else NEITHER)
        return SmoothBasis.of(self.knots, self.degree, self._parity)

    def _coefficients(self, parameters: ca.SX) -> ca.SX:
        """Of every B-spline, (knots + degree + 1, 1)."""
        own = ca.vertsplit(parameters[:-1])
        if not self.monotone:
            return self._walk(own)
        level = own.pop(0) if self._has_level else ca.SX(0)
        walk = self._walk(own)
        # Of a logarithm the increments do not grow exponentially with the walk.
        rises = softplus(walk) if self.positive else self.size * ca.exp(walk)
        rises = rises / (self.knots - 1) * (1 if self.monotone == INCREASING else -1)
        heights = ca.vertcat(0, ca.cumsum(rises))
        return heights - ca.DM(self._spline.taylor()[[0]]) @ heights + level

    def _walk(self, own: Sequence[ca.SX]) -> ca.SX:
        """The integrated random walk, or, of logarithms, one whose ends do not run away."""
        basis = self._basis
        inner = ca.DM(np.hstack([basis.straight, basis.curved])) @ ca.vertcat(*own[: -self._beyond])
        first, last = own[-self._beyond], own[-1]
        below, above = inner[0], inner[-1]
        if self._of_logarithms:
            step = basis.rise
        else:
            step, below, above = basis.step, 2 * below - inner[1], 2 * above - inner[-2]
        turned = -1 if self._parity == ODD and not self._of_logarithms else 1
        before = turned * last if self._parity else first
        return ca.vertcat(below + step * before, inner, above + step * last)


def _read_monotone(value: Any) -> str | None:
    if isinstance(value, (str, type(None))):
        return value
    raise UnfitError


MONOTONE = Kind(f"'{INCREASING}', '{DECREASING}' or None", _read_monotone)


@checked
def spline(
    argument: str,
    *,
    knots: Annotated[int, whole(4, 100)] = 12,
    within: Interval,
    degree: Annotated[int, whole(1, 3)] = 3,
    odd: bool = False,
    even: bool = False,
    monotone: Annotated[str | None, MONOTONE] = None,
    positive: bool = False,
    size: Positive = 1.0,
) -> Spline:
    """Return an unknown function of one variable as a spline with a smoothness prior.

    Its roughness, the parameter ``scale``, is learned. Beyond the interval the function goes on
    in a line whose uncertainty the prior says: cubic splines are twice continuously differentiable
    everywhere.

    Parameters
    ----------
    argument : str
        Label of its variable.
    knots : int
        Number of equally spaced knots. A cubic spline has four parameters more, or half as many in
        all where it is odd or even.
    within : tuple of float
        First and last knot, in the unit of the variable.
    degree : int
        Of the pieces, 1 to 3.
    odd, even : bool
        Whether f(-v) = -f(v), or f(-v) = f(v); then ``within`` is symmetric about 0.
    monotone : {"increasing", "decreasing"}, optional
    positive : bool
        Whether f(v) > 0.
    size : float
        Typical size of the values, in their unit. The priors are so wide that a factor of 100 does
        not matter where the data say more.

    Raises
    ------
    InputError
        If there is no interval, or no function has all these properties.

    Examples
    --------
    >>> import smcpn
    >>> friction = smcpn.spline("v", knots=12, within=(-1, 1), odd=True)
    """
    names = labels("spline", [argument], 1)
    chosen = one_of("monotone", monotone, (INCREASING, DECREASING)) if monotone is not None else ""
    for first, second in ((odd, even), (odd, positive), (even, bool(chosen))):
        if first and second:
            given = {"odd": odd, "even": even, "positive": positive, "monotone": bool(chosen)}
            both = " and ".join(name for name, one in given.items() if one)
            raise InputError(f"spline is {both}, as no function but a constant is: leave one out")
    if (odd or even) and within[0] != -within[1]:
        raise InputError(
            f"within is {within}: give (-a, a), since an odd or even spline is symmetric about 0",
            argument="within",
        )
    return Spline(names, knots, within, degree, odd, even, chosen, positive, size)
