"""Noise densities: log p(y | output) of a measured value as expression graphs.

A density is given in ``noise=`` in place of a standard deviation: log p(y | g) of a measured
value y given an output g of the model, which ``observe`` has named; a function of y, g
and keyword-only parameters, traced once, does the same for any other density. Gaussian noise is a
density too where its standard deviation is another at every sample, or where a value may be known
by its limits alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import e, log, pi
from typing import Any, Protocol, cast, runtime_checkable

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, listed, real_number
from smcpn.model.measured import Y_SD, Beside
from smcpn.model.special_functions import (
    log_gamma,
    log_gamma_ratio,
    log_normal_cdf,
    log_normal_interval,
)
from smcpn.model.trace import argument_names, function_name, trace

Array = NDArray[np.float64]

Scale = float | str | Callable[..., Any]
"""A number, the name of a parameter or ``"y_sd"``, or a formula of the output."""
LEAST = 1e-300
"""Limits of a positive value that are no more than this are none."""
_REMEDY = "give a positive number, a parameter's name, or a function of the output"


@dataclass(frozen=True)
class Symbols:
    """Symbols of the numbers and parameters of a density.

    Attributes
    ----------
    parameter : callable
        Symbol of a parameter by its name; a second argument is its default.
    constant : callable
        Symbol of a known number, with a label.
    output : casadi.SX, optional
        Output that a formula is one of.
    known : mapping of str to casadi.SX
        Inputs and time by name, and ``"y_sd"``, which a formula may depend on.
    """

    parameter: Callable[..., ca.SX]
    constant: Callable[[float, str], ca.SX]
    output: ca.SX | None = None
    known: Mapping[str, ca.SX] = field(default_factory=dict[str, ca.SX])

    def number(self, value: Scale, label: str) -> ca.SX:
        """Symbol of a number, or of the parameter of this name; or the graph of a formula."""
        if callable(value):
            return self.formula(value)
        if value == Y_SD and Y_SD in self.known:
            return self.known[Y_SD]
        return self.parameter(value) if isinstance(value, str) else self.constant(value, label)

    def formula(self, function: Callable[..., Any]) -> ca.SX:
        """Graph of a function of the output, of what is known by name, and of parameters."""
        name, (positional, _) = function_name(function), argument_names(function)
        for one in positional[1:]:
            if one not in self.known:
                raise InputError(
                    f"noise function '{name}' takes '{one}': write the output, of "
                    f"{listed(self.known)} what it needs, and parameters behind a star",
                    argument="noise",
                )
        return self.traced(function, [self.output, *(self.known[one] for one in positional[1:])])

    def traced(self, function: Callable[..., Any], positional: list[Any]) -> ca.SX:
        """Graph of a function of ``positional`` and of keyword-only parameters, (1, 1)."""
        name, (places, keyword) = function_name(function), argument_names(function)
        values = {one: self.parameter(one, _default(one, d)) for one, d in keyword.items()}
        returned = trace(function, positional[: len(places)], values)
        if len(returned) != 1:
            raise InputError(
                f"noise function '{name}' returns {len(returned)} values: return one",
                argument="noise",
            )
        return returned[0]


@dataclass(frozen=True)
class Limits:
    """Symbols of the limits between which a value lies, and which of them there are, (1, 1)."""

    lower: ca.SX
    upper: ca.SX
    has_lower: ca.SX
    has_upper: ca.SX


@runtime_checkable
class Density(Protocol):
    """Protocol of a noise density: log p(y | output) of a measured value y."""

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        ...

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        ...


class NoiseDensity:
    """Noise that any values may have, and in whose text a formula is the name of its function."""

    def __repr__(self) -> str:
        shown_fields = [(one, getattr(self, one.name)) for one in fields(cast(Any, self))]
        texts = [
            f"{one.name}={function_name(value) if callable(value) else repr(value)}"
            for one, value in shown_fields
            if one.repr or value != one.default
        ]
        return f"{type(self).__name__}({', '.join(texts)})"

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        return None


@runtime_checkable
class LimitedDensity(Density, Protocol):
    """Protocol of a density by which a value may be known by its limits alone."""

    def log_probability(self, limits: Limits, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log probability that a value lies between its limits, (1, 1)."""
        ...


@dataclass(frozen=True, repr=False)
class Normal(NoiseDensity):
    """Gaussian noise whose standard deviation is a formula, or known for every sample.

    Parameters
    ----------
    sd : float, str or callable
        In the unit of the output: a number, the name of the parameter that holds it, ``"y_sd"`` for
        that of `Record`, or a function of the output and, by their names, of inputs, time ``t`` and
        ``y_sd``, with keyword-only parameters (a default holds unless a prior names one).

    Raises
    ------
    InputError
        If a number is not positive.

    Notes
    -----
    Where the solver's error or the disturbed states have a variance, the formula is taken at the
    mean of the output. Where it is not positive the data have no likelihood: write ``abs(y)`` for
    an output that changes its sign.

    Examples
    --------
    >>> noise = Normal(sd=lambda y, *, a, b: a + b * abs(y))
    """

    sd: Scale

    def __post_init__(self) -> None:
        _positive("sd", self.sd)

    @property
    def varies(self) -> bool:
        """True if the standard deviation is another at every sample."""
        return callable(self.sd) or self.sd == Y_SD

    def variance(self, symbols: Symbols) -> ca.SX:
        """Variance of the noise, (1, 1); not a number where a formula is not positive."""
        return _squared(self.sd, symbols)

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        return gaussian(y - output, self.variance(symbols))

    def log_probability(self, limits: Limits, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log probability that a value lies between its limits, (1, 1)."""
        sd = ca.sqrt(self.variance(symbols))
        return log_probability(limits, lambda limit: (limit - output) / sd)


def _squared(sd: Scale, symbols: Symbols) -> ca.SX:
    """Square of a standard deviation; not a number where a formula is not positive."""
    known = symbols.number(sd, f"sd={sd!r}")
    if callable(sd):
        # A constant that is no number would be taken for damage where a model is read again.
        known = ca.if_else(known > 0.0, known, ca.sqrt(known - 1.0))
    return known**2


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


@dataclass(frozen=True, repr=False)
class StudentT(NoiseDensity):
    """Noise with heavy tails, for outliers: y = output + scale t, with t of Student's distribution.

    Parameters
    ----------
    scale : float, str or callable
        In the unit of the output, as ``sd`` of `Normal`.
    degrees : float, str or callable
        Degrees of freedom.

    Raises
    ------
    InputError
        If a number is not positive.
    """

    scale: Scale
    degrees: Scale = 4.0

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


@dataclass(frozen=True, repr=False)
class NegativeBinomial(NoiseDensity):
    """Counts that scatter more than `Poisson`; the output of the model is their mean m.

    The variance is m + m^2 / size, so that a large ``size`` is near Poisson's.

    Parameters
    ----------
    size : float, str or callable
        As ``sd`` of `Normal`.

    Raises
    ------
    InputError
        If a number is not positive.
    """

    size: Scale

    def __post_init__(self) -> None:
        _positive("size", self.size)

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        size = symbols.number(self.size, f"size={self.size!r}")
        ways = log_gamma_ratio(size, y) - log_gamma(y + 1.0)
        # A mean below 0 is none; one of 0 makes no counts, and its logarithm does not matter then.
        mean = output / ca.if_else(output < 0.0, 0.0, 1.0)
        rate = ca.log(ca.if_else(y > 0.0, mean / (size + mean), 1.0))
        return ways + y * rate - size * ca.log1p(mean / size)

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        return Poisson().misfit(y)


@dataclass(frozen=True, repr=False)
class LogNormal(NoiseDensity):
    """Positive values with a relative error; the output of the model is their median.

    Parameters
    ----------
    sd : float, str or callable
        Standard deviation of the logarithm of y, as ``sd`` of `Normal`.
    base : float
        Base of that logarithm, e by default; the density is that of y, whatever the base.

    Raises
    ------
    InputError
        If a number is not positive, or the base not above 1.
    """

    sd: Scale
    base: float = field(default=e, repr=False)

    def __post_init__(self) -> None:
        _positive("sd", self.sd)
        real_number("base", self.base, "give a number above 1", above=1.0)

    def log_density(self, y: ca.SX, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log density or probability of y, (1, 1)."""
        return gaussian(ca.log(y) - ca.log(output), self._variance(symbols)) - ca.log(y)

    def log_probability(self, limits: Limits, output: ca.SX, symbols: Symbols) -> ca.SX:
        """Log probability that a value lies between its limits, (1, 1)."""
        sd = ca.sqrt(self._variance(symbols))
        return log_probability(
            limits, lambda limit: (ca.log(ca.fmax(limit, LEAST)) - ca.log(output)) / sd
        )

    def _variance(self, symbols: Symbols) -> ca.SX:
        """Variance of the natural logarithm, (1, 1)."""
        variance = _squared(self.sd, symbols)
        return variance if self.base == e else variance * log(self.base) ** 2

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
        return symbols.traced(self.function, [y, output])

    def misfit(self, y: Array) -> str | None:
        """Return why measured values cannot have this density, or None if they can."""
        return None


def _default(name: str, value: Any) -> float | None:
    if value is inspect.Parameter.empty:
        return None
    return real_number(f"noise function: default of parameter '{name}'", value, argument="noise")


@dataclass(frozen=True)
class OutputDensity:
    """Log density of every output's measurement, as graphs over symbols of its own.

    y, output: (q, 1), symbols of measured values and of outputs.
    log_density: (q, 1), entry j is a function of ``y[j]``, ``output[j]``, theta, and of ``beside``,
        inputs and time.
    beside: (5 q, 1), symbols of what is known of a sample beside its value, `Beside.column`; empty
        where no output depends on it.
    variance: (q, 1), variance of the noise of each output that is Gaussian, a function as of
        ``log_density``; infinite for the others, and empty where none is.
    """

    y: ca.SX
    output: ca.SX
    log_density: ca.SX
    beside: ca.SX = field(default_factory=lambda: ca.SX(0, 1))
    variance: ca.SX = field(default_factory=lambda: ca.SX(0, 1))

    @property
    def variances(self) -> ca.SX:
        """`variance`, infinite where no output is Gaussian."""
        return self.variance if self.variance.numel() else ca.SX.inf(self.y.numel(), 1)

    @property
    def normal(self) -> bool:
        """True if the noise of every output is Gaussian."""
        variances = ca.vertsplit(self.variance) if self.variance.numel() else []
        return bool(variances) and not any(map(_infinite, variances))

    @cached_property
    def gaussian(self) -> bool:
        """True if the noise of every output is Gaussian, and every value is measured itself."""
        return self.normal and not ca.depends_on(self.log_density, Beside.split(self.beside).flags)

    def own_variance(self, j: int) -> ca.SX | None:
        """Variance of the noise of the j-th output, None if it is not Gaussian or has limits."""
        if not self.variance.numel() or _infinite(self.variance[j]):
            return None
        limits = Beside.split(self.beside).flags
        return None if ca.depends_on(self.log_density[j], limits) else self.variance[j]

    def expansion(self) -> tuple[ca.SX, ca.SX]:
        """Gradient and curvature of each log density by its output, (q, 1) both."""
        parts = [
            (ca.gradient(one, g), ca.hessian(one, g)[0])
            for one, g in zip(
                ca.vertsplit(self.log_density), ca.vertsplit(self.output), strict=True
            )
        ]
        return ca.vertcat(*[g for g, _ in parts]), ca.vertcat(*[h for _, h in parts])

    def at(
        self, graph: ca.SX, y: ca.SX, output: ca.SX, beside: ca.SX, known: tuple[ca.SX, ca.SX]
    ) -> ca.SX:
        """A graph of the density at other values and outputs, and what is known of a sample.

        known: Symbols of inputs and time, and what takes their place.
        """
        symbols = ca.vertcat(self.y, self.output, self.beside, known[0])
        return ca.substitute(graph, symbols, ca.vertcat(y, output, beside, known[1]))

    def information(self) -> ca.SX:
        """Information of each measured value about its output, (q, 1), never negative.

        Where a log density is not concave, as in the tails of Student's t, its curvature is none.
        The squared gradient has the same mean over measurements, and with it no step exceeds one
        over the gradient.
        """
        gradient, curvature = self.expansion()
        return ca.if_else(curvature < 0.0, -curvature, gradient**2)


TAKEN_FOR: dict[str, str] = {
    Poisson.__name__: "logarithm of the mean of y, whose variance is that mean "
    "(if y scatters more, smcpn.NegativeBinomial takes the mean itself)",
    NegativeBinomial.__name__: "mean of y",
    Bernoulli.__name__: "log odds of a one of y",
    LogNormal.__name__: "median of y",
}
"""The number about which noise is that is not about a mean in the unit of y."""


def taken_for(label: Any) -> str:
    """Say what noise of this label, as a problem has it, takes the output for; else ""."""
    what = TAKEN_FOR.get(str(label).partition("(")[0])
    return f"{label} takes it for the {what}" if what else ""


def as_density(value: Any) -> Density | None:
    """The density that an entry of ``noise`` is; None for Gaussian noise of one variance."""
    if isinstance(value, type):
        raise InputError(f"noise is the class {value.__name__}: give an instance", argument="noise")
    if isinstance(value, Normal):
        return value if value.varies else None
    if isinstance(value, Density):
        return value
    if isinstance(value, str) and value == Y_SD:
        return Normal(value)
    return UserDensity(value) if callable(value) else None


def output_density(
    densities: list[Density], limited: bool, symbols: Symbols
) -> OutputDensity | None:
    """Put the densities of all outputs together; None where all are of constant variance.

    densities: Of every output.
    limited: Whether values may be known by their limits, where a density takes them.
    symbols: With the inputs and the time by name.
    """
    constant = (isinstance(one, Normal) and not one.varies for one in densities)
    if all(constant) and not limited:
        return None
    q = len(densities)
    y, output, beside = ca.SX.sym("y", q, 1), ca.SX.sym("output", q, 1), Beside.of(q)
    logs: list[ca.SX] = []
    variances: list[ca.SX] = []
    for j, density in enumerate(densities):
        known = {**symbols.known, Y_SD: beside.sd[j]}
        own = replace(symbols, output=output[j], known=known)
        value = density.log_density(y[j], output[j], own)
        if limited and isinstance(density, LimitedDensity):
            limits = Limits(*(getattr(beside, one.name)[j] for one in fields(Limits)))
            between = density.log_probability(limits, output[j], own)
            value = ca.if_else(beside.limited[j], between, value)
        logs.append(value)
        normal = isinstance(density, Normal)
        variances.append(density.variance(own) if normal else ca.SX(float("inf")))
    log_density, variance = ca.vertcat(*logs), ca.vertcat(*variances)
    used = ca.depends_on(ca.vertcat(log_density, variance), beside.column)
    return OutputDensity(
        y,
        output,
        log_density,
        beside.column if used else ca.SX(0, 1),
        variance if any(isinstance(one, Normal) for one in densities) else ca.SX(0, 1),
    )


def log_probability(limits: Limits, standardised: Callable[[ca.SX], ca.SX]) -> ca.SX:
    """Log probability of the limits of a value, of which ``standardised`` is standard normal."""
    both = limits.has_lower * limits.has_upper
    lower, upper = standardised(limits.lower), standardised(limits.upper)
    between = log_normal_interval(ca.if_else(both, lower, -1.0), ca.if_else(both, upper, 1.0))
    one = log_normal_cdf(ca.if_else(limits.has_upper, upper, -lower))
    return ca.if_else(both, between, one)


def _infinite(graph: ca.SX) -> bool:
    return graph.is_constant() and np.isinf(float(graph))


def gaussian(residual: ca.SX, variance: ca.SX) -> ca.SX:
    """Log density of a residual, (1, 1)."""
    return -0.5 * (residual**2 / variance + ca.log(2.0 * pi * variance))


def _positive(name: str, value: Scale) -> None:
    if isinstance(value, str) or (callable(value) and not isinstance(value, type)):
        return
    real_number(name, value, _REMEDY, above=0.0)
