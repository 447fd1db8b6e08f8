"""Noise densities that are not Gaussian: log p(y | output) as expression graphs.

A density is given in ``noise=`` in place of a standard deviation: log p(y | g) of a measured
value y given an output g of the model, which ``observe`` has named; a function of y, g
and keyword-only parameters, traced once, does the same for any other density.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import Any, Protocol, runtime_checkable

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, real_number, shown
from smcpn.model.trace import argument_names, function_name, trace

Array = NDArray[np.float64]

STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
STIRLING_FROM = 8
"""Argument from which the terms above are exact to 1e-14."""


@dataclass(frozen=True)
class Symbols:
    """Symbols of the numbers and parameters of a density.

    Attributes
    ----------
    parameter : callable
        Symbol of a parameter by its name; a second argument is its default.
    constant : callable
        Symbol of a known number, with a label.
    """

    parameter: Callable[..., ca.SX]
    constant: Callable[[float, str], ca.SX]

    def number(self, value: float | str, label: str) -> ca.SX:
        """Symbol of a number, or of the parameter of this name."""
        return self.parameter(value) if isinstance(value, str) else self.constant(value, label)


@runtime_checkable
class Density(Protocol):
    """Protocol of a noise density: log p(y | output) of a measured value y."""

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        ...

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        ...


@dataclass(frozen=True)
class Poisson:
    """Counts; the output of the model is the logarithm of their mean.

    Examples
    --------
    >>> def log_rate(x, *, b0, b1):
    ...     return b0 + b1 * x
    >>> arguments = dict(observe=log_rate, noise=Poisson())
    """

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        return y * output - ca.exp(output) - log_gamma(y + 1.0)

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        wrong = (y < 0) | (y != np.round(y))
        return "counts must be whole numbers from 0" if wrong.any() else None


@dataclass(frozen=True)
class Bernoulli:
    """Zeros and ones; the output of the model is the log odds of a one.

    Examples
    --------
    >>> def log_odds(x, *, b0, b1):
    ...     return b0 + b1 * x
    >>> arguments = dict(observe=log_odds, noise=Bernoulli())
    """

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        # log(1 + exp(g)), without overflow.
        softplus = ca.fmax(output, 0.0) + ca.log1p(ca.exp(-ca.fabs(output)))
        return y * output - softplus

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        return "values must be 0 or 1" if ((y != 0) & (y != 1)).any() else None


@dataclass(frozen=True)
class StudentT:
    """Noise with heavy tails, for outliers: y = output + scale t, with t of Student's distribution.

    Parameters
    ----------
    scale : float or str
        In the unit of the output, or the name of the parameter that holds it.
    degrees : float or str
        Degrees of freedom.

    Raises
    ------
    InputError
        If a number is not positive.
    """

    scale: float | str
    degrees: float | str = 4.0

    def __post_init__(self) -> None:
        _positive("scale", self.scale)
        _positive("degrees", self.degrees)

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        scale = symbols.number(self.scale, f"scale={self.scale!r}")
        degrees = symbols.number(self.degrees, f"degrees={self.degrees!r}")
        normaliser = log_gamma((degrees + 1.0) / 2.0) - log_gamma(degrees / 2.0)
        square = ((y - output) / scale) ** 2 / degrees
        tail = -(degrees + 1.0) / 2.0 * ca.log1p(square)
        return normaliser - 0.5 * ca.log(degrees * pi) - ca.log(scale) + tail

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        return None


@dataclass(frozen=True)
class LogNormal:
    """Positive values with a relative error; the output of the model is their median.

    Parameters
    ----------
    sd : float or str
        Standard deviation of log y, or the name of the parameter that holds it.

    Raises
    ------
    InputError
        If a number is not positive.
    """

    sd: float | str

    def __post_init__(self) -> None:
        _positive("sd", self.sd)

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        variance = symbols.number(self.sd, f"sd={self.sd!r}") ** 2
        return gaussian(ca.log(y) - ca.log(output), variance) - ca.log(y)

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        return "values must be positive" if (y <= 0).any() else None


@dataclass(frozen=True)
class UserDensity:
    """A log density written as a function of y, the output, and keyword-only parameters."""

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        positional, _ = argument_names(self.function)
        if len(positional) != 2:
            raise InputError(
                f"noise function '{function_name(self.function)}' takes {len(positional)} "
                "positional arguments: write (y, output, *, parameters)",
                argument="noise",
            )

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        name = function_name(self.function)
        _, keyword = argument_names(self.function)
        values = {
            parameter: symbols.parameter(parameter, self._default(parameter, default))
            for parameter, default in keyword.items()
        }
        returned = trace(self.function, [y, output], values)
        if len(returned) != 1:
            raise InputError(
                f"noise function '{name}' returns {len(returned)} values: return one",
                argument="noise",
            )
        return returned[0]

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        return None

    @staticmethod
    def _default(name: str, value: Any) -> float | None:
        if value is inspect.Parameter.empty:
            return None
        return real_number(
            f"noise function: default of parameter '{name}'", value, argument="noise"
        )


@dataclass(frozen=True)
class OutputDensity:
    """Log density of every output's measurement, as graphs over symbols of its own.

    Attributes
    ----------
    y, output : casadi.SX, (q, 1)
        Symbols of measured values and of outputs.
    log_density : casadi.SX, (q, 1)
        Entry j is a function of ``y[j]``, ``output[j]`` and theta at most.
    """

    y: ca.SX
    output: ca.SX
    log_density: ca.SX

    def expansion(self) -> tuple[ca.SX, ca.SX]:
        """Gradient and curvature of each log density by its output, (q, 1) both."""
        parts = [
            (ca.gradient(one, g), ca.hessian(one, g)[0])
            for one, g in zip(
                ca.vertsplit(self.log_density), ca.vertsplit(self.output), strict=True
            )
        ]
        return ca.vertcat(*[g for g, _ in parts]), ca.vertcat(*[h for _, h in parts])

    def information(self) -> ca.SX:
        """Information of each measured value about its output, (q, 1), never negative.

        Where a log density is not concave, as in the tails of Student's t, its curvature is none.
        The squared gradient has the same mean over measurements, and with it no step exceeds one
        over the gradient.
        """
        gradient, curvature = self.expansion()
        return ca.if_else(curvature < 0.0, -curvature, gradient**2)


def as_density(value: Any) -> Density | None:
    """The density that an entry of ``noise`` is; None for Gaussian noise."""
    if isinstance(value, type):
        raise InputError(f"noise is the class {value.__name__}: give an instance", argument="noise")
    if isinstance(value, Density):
        return value
    return UserDensity(value) if callable(value) else None


def output_density(
    densities: list[Density | None], variances: ca.SX, symbols: Symbols
) -> OutputDensity | None:
    """Put the densities of all outputs together; None where all are Gaussian.

    Parameters
    ----------
    densities : list of Density or None
        None for a Gaussian output, of which ``variances`` (q, 1) has the entry.
    """
    if not any(densities):
        return None
    q = len(densities)
    y, output = ca.SX.sym("y", q, 1), ca.SX.sym("output", q, 1)
    logs = [
        gaussian(y[j] - output[j], variances[j])
        if density is None
        else density.log_density(y[j], output[j], symbols)
        for j, density in enumerate(densities)
    ]
    return OutputDensity(y, output, ca.vertcat(*logs))


def gaussian(residual: ca.SX, variance: ca.SX) -> ca.SX:
    """Log density of a residual, (1, 1)."""
    return -0.5 * (residual**2 / variance + ca.log(2.0 * pi * variance))


def log_gamma(x: ca.SX) -> ca.SX:
    """Logarithm of the gamma function for positive arguments, in arithmetic that compiles.

    By Stirling's series, after the recurrence has raised the argument.
    """
    product = ca.SX(1.0)
    for k in range(STIRLING_FROM):
        product *= x + k
    z = x + STIRLING_FROM
    series = sum((c / z ** (2 * k + 1) for k, c in enumerate(STIRLING)), ca.SX(0.0))
    return (z - 0.5) * ca.log(z) - z + 0.5 * np.log(2.0 * pi) + series - ca.log(product)


def _positive(name: str, value: float | str) -> None:
    if isinstance(value, str):
        return
    if not real_number(name, value, "give a positive number or a parameter's name") > 0.0:
        sentence = f"{name} is {shown(value)}: give a positive number or a parameter's name"
        raise InputError(sentence, argument=name)
