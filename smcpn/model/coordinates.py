"""Unconstrained coordinates of parameters: smooth maps from the real line to a prior's support."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError, shown
from smcpn.model.distribution import Distribution, describe, draw, support

Array = NDArray[np.float64]


class Coordinate(Protocol):
    """A smooth one-to-one map between the real line and the support of a prior."""

    @property
    def name(self) -> str:
        """Name in ``coordinates``: "identity", "log" or "logit"."""
        ...

    def natural(self, z: Array) -> Array:
        """Map unconstrained values to parameter values."""
        ...

    def unconstrained(self, x: Array) -> Array:
        """Map parameter values to unconstrained values."""
        ...

    def inside(self, x: Array) -> Array:
        """Move values at a bound to the nearest one inside that has all its digits."""
        ...

    def log_jacobian(self, z: Array) -> Array | float:
        """Return log |dx/dz|."""
        ...

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """Return dx/dz and d2x/dz2."""
        ...


@dataclass(frozen=True)
class Identity:
    """x = z, for priors on the whole line."""

    name: str = "identity"

    def natural(self, z: Array) -> Array:
        return z

    def unconstrained(self, x: Array) -> Array:
        return x

    def inside(self, x: Array) -> Array:
        return x

    def log_jacobian(self, z: Array) -> float:
        return 0.0

    def slopes(self, z: Array) -> tuple[Array, Array]:
        return np.ones_like(z), np.zeros_like(z)


@dataclass(frozen=True)
class Log:
    """x = bound + sign exp(z), for priors on one side of ``bound``."""

    bound: float = 0.0
    sign: float = 1.0
    name: str = "log"

    def natural(self, z: Array) -> Array:
        return self.bound + self.sign * np.exp(z)

    def unconstrained(self, x: Array) -> Array:
        return np.log(self.sign * (x - self.bound))

    def inside(self, x: Array) -> Array:
        nearest = _nearest(self.bound, self.sign * np.inf)
        return np.where(self.sign * (x - nearest) > 0, x, nearest)

    def log_jacobian(self, z: Array) -> Array:
        return z

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = self.sign * np.exp(z)
        return slope, slope


@dataclass(frozen=True)
class Logit:
    """x = lower + (upper - lower) / (1 + exp(-z)), for priors on an interval."""

    lower: float
    upper: float
    name: str = "logit"

    def natural(self, z: Array) -> Array:
        return self.lower + (self.upper - self.lower) / (1.0 + np.exp(-z))

    def unconstrained(self, x: Array) -> Array:
        return np.log(x - self.lower) - np.log(self.upper - x)

    def inside(self, x: Array) -> Array:
        return np.clip(x, _nearest(self.lower, np.inf), _nearest(self.upper, -np.inf))

    def log_jacobian(self, z: Array) -> Array:
        return np.log(self.upper - self.lower) - np.logaddexp(0.0, z) - np.logaddexp(0.0, -z)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        slope = np.exp(self.log_jacobian(z))
        return slope, -slope * np.tanh(0.5 * z)


def _nearest(bound: float, towards: float) -> float:
    """Return the floating-point number next to a bound.

    Next to zero that is the smallest normal number: below, digits are lost and densities overflow.
    """
    adjacent = np.nextafter(bound, towards)
    return float(np.copysign(max(abs(adjacent), np.finfo(float).tiny), adjacent))


def coordinate_of(name: str, distribution: Distribution, wanted: str | None) -> Coordinate:
    """Return the coordinate that fits the support of a prior, or the one that is wanted."""
    methods = [getattr(distribution, method, None) for method in ("rvs", "logpdf")]
    # A family of scipy.stats, which can be frozen, has them too.
    if not all(map(callable, methods)) or hasattr(distribution, "freeze"):
        raise InputError(f"prior of '{name}' is {_unfit(distribution)}", argument=f"prior.{name}")
    lower, upper = _support(name, distribution)
    by_support: Coordinate
    if np.isfinite(lower) and np.isfinite(upper):
        by_support = Logit(lower, upper)
    elif np.isfinite(lower):
        by_support = Log(lower)
    elif np.isfinite(upper):
        by_support = Log(upper, sign=-1.0)
    else:
        by_support = Identity()
    if wanted is None or wanted == by_support.name:
        return by_support
    if wanted == "identity":
        return Identity()
    if wanted in ("log", "logit"):
        raise InputError(
            f"coordinate '{wanted}' of '{name}' does not fit its prior on ({lower:g}, {upper:g}): "
            "truncate the prior (scipy.stats.truncnorm) or choose 'identity'",
            argument=f"coordinates.{name}",
        )
    raise InputError(
        f"coordinate {shown(wanted)} of '{name}' is none of identity, log, logit",
        argument=f"coordinates.{name}",
    )


def _unfit(given: Any) -> str:
    """Sentence on a value that is no prior, and what to give instead."""
    frozen = "give a frozen scipy.stats distribution, such as stats.lognorm(0.5)"
    number = "or a number to fix the parameter"
    if hasattr(given, "freeze"):
        return f"the family stats.{given.name} without its arguments: {frozen}, {number}"
    if hasattr(getattr(given, "dist", None), "pmf"):
        return f"{describe(given)}, which is discrete: choose a continuous one, {number}"
    if isinstance(given, Mapping):
        return f"{shown(sorted(map(str, given)))} by name, but it is one number: {frozen}, {number}"
    return f"{shown(given)}, which is no frozen distribution: {frozen}, {number}"


def _support(name: str, distribution: Distribution) -> tuple[float, float]:
    """Return the bounds of the support of a distribution, checked to be that of one number."""
    remedy = "give a frozen scipy.stats distribution of one number, such as stats.lognorm(0.5)"
    density = np.empty(0)
    try:
        lower, upper = support(distribution)
        if lower < upper:
            with np.errstate(all="ignore"):
                draws = draw(distribution, np.random.default_rng(0), 2)
                density = np.asarray(distribution.logpdf(draws[:1]))
    except InputError as error:
        raise InputError(f"prior of '{name}': {error}", argument=f"prior.{name}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {shown(str(error))}"
        raise InputError(
            f"prior of '{name}' cannot be used ({why}): {remedy}", argument=f"prior.{name}"
        ) from error
    if not lower < upper:
        raise InputError(
            f"prior of '{name}' has no valid support: check its arguments",
            argument=f"prior.{name}",
        )
    if density.shape != (1,):
        raise InputError(
            f"prior of '{name}' has a density of shape {density.shape}: {remedy}",
            argument=f"prior.{name}",
        )
    return lower, upper
