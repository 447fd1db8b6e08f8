"""Gaussian processes by sines on an interval, with learned length scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import pi
from typing import Annotated, Any

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy import stats
from typing_extensions import override

from smcpn.base.arguments import POSITIVE, Kind, Positive, checked, whole
from smcpn.errors import InputError
from smcpn.model.functions.unknown import (
    Intervals,
    Stretch,
    UnknownFunction,
    labels,
    one_interval_each,
)

BOUNDARY = 2.0
"""Half the interval of the sines over half of ``within``."""
SATURATED = 1.5
"""Place at which a variable far outside is taken to be."""
FEATURES = {1: 20, 2: 8}
MOST = 400
"""Parameters of a function of two variables."""
_TYPICAL = 0.4
"""Length scale over half of ``within``."""
_WIDE, _NARROW = 1.5, 0.5
"""Standard deviation of the log of the scale, and of a length scale."""


@dataclass(frozen=True)
class GaussianProcess(UnknownFunction):
    """f(v) = sum_j x_j sqrt(S(w_j) / L) sin(w_j (v - c + L)), w_j = j pi / 2 L.

    With x_j ~ N(0, scale^2) it is a Gaussian process of variance scale^2 and the kernel
    exp(-d^2 / 2 l^2), of spectral density S, well inside the interval from c - L to c + L (Solin
    and Sarkka, *Stat. Comput.* 30, 2020). That is twice ``within``, and the error of the covariance
    about a percent for l from 3.5 / features to 0.6 of half of ``within`` (Riutort-Mayol et al.,
    *Stat. Comput.* 33, 2023). Of two variables the functions are the products of two sines, x_jk
    with the first variable first. Beyond ``within`` the function becomes constant.

    Attributes
    ----------
    within : tuple of pairs of float
    features : int
        Number of sines of each variable.
    lengthscale : tuple of float
        Median of the prior of each length scale, in the unit of its variable.
    size : float
    """

    within: tuple[tuple[float, float], ...]
    features: int
    lengthscale: tuple[float, ...]
    size: float = 1.0

    @property
    @override
    def intervals(self) -> tuple[tuple[float, float], ...]:
        return self.within

    @property
    @override
    def scales(self) -> Mapping[str, str]:
        return {f"[{k}]": ".scale" for k in range(self.features ** len(self.arguments))}

    @property
    def stretches(self) -> Mapping[str, Stretch]:
        """Weights that a length multiplies, by the spectral density."""
        lengths = [name for name in self.priors if name.startswith(".lengthscale")]
        numbers = np.indices((self.features,) * len(lengths)).reshape(len(lengths), -1) + 1
        return {
            name: Stretch(tuple(self.scales), partial(_log_root, within, number**2))
            for name, within, number in zip(lengths, self.within, numbers, strict=True)
        }

    @override
    def graph(self, arguments: Sequence[ca.SX], parameters: ca.SX) -> ca.SX:
        variables = len(self.arguments)
        weights = ca.vertsplit(parameters[: self.features**variables])
        lengths = ca.vertsplit(parameters[-variables:])
        roots = [self._roots(*each) for each in zip(self.within, lengths, strict=True)]
        angles = [_angle(*each) for each in zip(self.within, arguments, strict=True)]
        if variables == 1:
            return _sine_sum([w * r for w, r in zip(weights, roots[0], strict=True)], angles[0])
        rows = [
            _sine_sum(
                [
                    weights[j * self.features + k] * roots[0][j] * roots[1][k]
                    for k in range(self.features)
                ],
                angles[1],
            )
            for j in range(self.features)
        ]
        return _sine_sum(rows, angles[0])

    @cached_property
    @override
    def priors(self) -> Mapping[str, Any]:
        weight = stats.norm()
        numbered = {f"[{k}]": weight for k in range(self.features ** len(self.arguments))}
        several = len(self.arguments) > 1
        lengths = {
            f".lengthscale[{k}]" if several else ".lengthscale": stats.lognorm(
                _NARROW, scale=typical
            )
            for k, typical in enumerate(self.lengthscale)
        }
        return numbered | {".scale": stats.lognorm(_WIDE, scale=self.size)} | lengths

    def _roots(self, within: tuple[float, float], length: ca.SX) -> list[ca.SX]:
        """Standard deviation of each sine of one variable."""
        half = BOUNDARY * (within[1] - within[0]) / 2
        first = ca.sqrt(length) * ((2 * pi) ** 0.25 / half**0.5)
        slope = -((length * (pi / (4 * half))) ** 2)
        return [first * ca.exp(j**2 * slope) for j in range(1, self.features + 1)]


def _log_root(
    within: tuple[float, float], squares: NDArray[np.int64], length: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithm of the standard deviations of sines, and its derivative by the length, (n, p).

    ``squares`` are those of their numbers, (p,).
    """
    half = BOUNDARY * (within[1] - within[0]) / 2
    slope = -((pi / (4 * half)) ** 2) * squares
    log_first = np.log((2 * pi) ** 0.25 / half**0.5) + 0.5 * np.log(length)
    value = log_first[:, None] + length[:, None] ** 2 * slope
    return value, 0.5 / length[:, None] + 2.0 * length[:, None] * slope


def _angle(within: tuple[float, float], v: ca.SX) -> ca.SX:
    """Argument of the first sine; twice continuously differentiable in the variable."""
    half = (within[1] - within[0]) / 2
    w = (v - (within[0] + within[1]) / 2) / half
    inside = ca.fmin(ca.fmax(w, -1.0), 1.0)
    beyond = SATURATED - 1.0
    taken = inside + beyond * ca.tanh((w - inside) / beyond)
    return taken * (pi / (2 * BOUNDARY)) + pi / 2


def _sine_sum(coefficients: Sequence[ca.SX], angle: ca.SX) -> ca.SX:
    """Sum of a_j sin(j angle), j = 1, 2, ... (Clenshaw)."""
    twice_cosine = 2.0 * ca.cos(angle)
    last, before = ca.SX(0), ca.SX(0)
    for coefficient in reversed(coefficients):
        last, before = coefficient + twice_cosine * last - before, last
    return last * ca.sin(angle)


def _read_lengths(value: Any) -> tuple[float, ...]:
    given = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return tuple(POSITIVE.read(one) for one in given)


Lengths = Annotated[Any, Kind("a number above 0, or one for each variable", _read_lengths)]


@checked
def gaussian_process(
    *arguments: str,
    within: Intervals,
    features: Annotated[int, whole(4, 100)] | None = None,
    lengthscale: Lengths | None = None,
    size: Positive = 1.0,
) -> GaussianProcess:
    """Return an unknown function of one or two variables as a Gaussian process of mean zero.

    Its standard deviation ``scale`` and its length scales, of a squared exponential kernel, are
    learned. It is smoother than a spline of as many parameters.

    Parameters
    ----------
    *arguments : str
        Labels of its variables.
    within : tuple of float, or a sequence of two such
        Interval of each variable, in its unit. Beyond it the function becomes constant.
    features : int, optional
        Number of sines of each variable, 20 of one and 8 of each of two: length scales from 3.5 /
        features of half the interval can be resolved.
    lengthscale : float or tuple of float, optional
        Median of the prior of each length scale, in the unit of its variable; the default is 0.4 of
        half the interval. ``prior={"f": {"lengthscale": distribution}}`` of a problem gives
        another.
    size : float
        Typical size of the values; see `smcpn.spline`.

    Raises
    ------
    InputError
        If there are not one or two variables with an interval each, or more than 400 sines.

    Examples
    --------
    >>> import smcpn
    >>> drag = smcpn.gaussian_process("v", "height", within=[(0, 30), (0, 10)])
    """
    names = labels("gaussian_process", arguments, len(FEATURES))
    one_interval_each("gaussian_process", names, within)
    number = FEATURES[len(names)] if features is None else features
    if number ** len(names) > MOST:
        raise InputError(
            f"features is {number}, so that {number ** len(names)} functions of two variables: "
            f"give at most {int(MOST**0.5)}",
            argument="features",
        )
    lengths = lengthscale
    if lengths is None:
        lengths = tuple(_TYPICAL * (upper - lower) / 2 for lower, upper in within)
    if len(lengths) != len(names):
        raise InputError(
            f"lengthscale has {len(lengths)} entries but gaussian_process {len(names)} arguments: "
            "give one for each",
            argument="lengthscale",
        )
    return GaussianProcess(names, within, number, lengths, size)
