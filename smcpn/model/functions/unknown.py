"""An unknown function in an equation: a family of functions with parameters that have priors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Annotated, Any, ClassVar

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from smcpn.base.arguments import Count, Kind, Numbers, Seed, UnfitError, checked
from smcpn.errors import InputError, real_number, shown


def softplus(x: ca.SX) -> ca.SX:
    """Return log(1 + e^x), without overflow and with all digits for x far below zero."""
    return ca.fmax(x, 0.0) + ca.log1p(ca.exp(-ca.fabs(x)))


Array = NDArray[np.float64]


def _read_interval(value: Any) -> tuple[float, float]:
    if not _is_list(value) or len(value) != 2:
        raise UnfitError
    try:
        lower, upper = (real_number("within", bound) for bound in value)
    except InputError:
        raise UnfitError from None
    if not lower < upper or not np.isfinite(upper - lower):
        raise UnfitError
    return lower, upper


def _read_intervals(value: Any) -> tuple[tuple[float, float], ...]:
    with suppress(UnfitError):
        return (_read_interval(value),)
    if not _is_list(value):
        raise UnfitError
    return tuple(_read_interval(one) for one in value)


def _is_list(value: Any) -> bool:
    return isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim > 0)


INTERVAL = Kind("a lower and a larger upper bound, such as (-1, 1)", _read_interval)
INTERVALS = Kind(f"{INTERVAL.noun}, or one such pair for each variable", _read_intervals)
Interval = Annotated[Any, INTERVAL]
Intervals = Annotated[Any, INTERVALS]
"""Of one variable, or of each; a function receives a tuple of pairs."""


def one_interval_each(
    family: str, names: Sequence[str], within: Sequence[tuple[float, float]]
) -> None:
    """Refuse intervals that are not one for each variable."""
    if len(within) != len(names):
        raise InputError(
            f"within has {len(within)} intervals but {family} has {len(names)} arguments: "
            "give a lower and an upper bound for each",
            argument="within",
        )


def labels(family: str, arguments: Sequence[Any], most: int) -> tuple[str, ...]:
    """Return the labels of the variables of a function, at least one."""
    if not 1 <= len(arguments) <= most:
        raise InputError(f"{family} has {len(arguments)} arguments: name one to {most} variables")
    for one in arguments:
        if not isinstance(one, str) or not one:
            raise InputError(f"{family} has the argument {shown(one)}: give the name of a variable")
    return tuple(str(one) for one in arguments)


@dataclass(frozen=True)
class Stretch:
    """Parameters that a function takes only multiplied by positive factors r(l) of a length l.

    names: (p,)
    log_factor: From l (n,) to log r (n, p) and its derivative by l, (n, p).
    """

    names: tuple[str, ...]
    log_factor: Callable[[Array], tuple[Array, Array]]

    def of(self, function: str, names: Sequence[str]) -> Stretch:
        """Copy with the names that parameters have in a problem, of those that it has."""
        kept = [k for k, one in enumerate(self.names) if function + one in names]

        def log_factor(length: Array) -> tuple[Array, Array]:
            value, slope = self.log_factor(length)
            return value[:, kept], slope[:, kept]

        return Stretch(tuple(function + self.names[k] for k in kept), log_factor)


@checked
@dataclass(frozen=True)
class UnknownFunction(ABC):
    """A function of one or more variables that is known up to a vector of parameters.

    As an argument of a model, ``friction(v)`` puts its graph there, and its parameters become
    parameters of the model: ``friction[0]``, ``friction[1]``, ..., ``friction.scale``.

    Attributes
    ----------
    arguments : tuple of str
        Labels of its variables, for figures and messages.
    """

    arguments: tuple[str, ...]

    @cached_property
    @abstractmethod
    def priors(self) -> Mapping[str, Any]:
        """Default prior of each parameter; ``[0]`` or ``.scale`` follows the function's name."""

    @property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """Interval of each variable that the family was laid out for; empty for any value."""
        return ()

    @property
    def scales(self) -> Mapping[str, str]:
        """Parameters whose prior is that of x / s, with the parameter s."""
        return {}

    @property
    def stretches(self) -> Mapping[str, Stretch]:
        """Parameters that each length multiplies, where it does nothing else."""
        return {}

    gaussian_given_scales: ClassVar[bool] = True
    """True if the posterior of its parameters given their scales may be near to a Gaussian."""

    @property
    def remark(self) -> str:
        """Remark that a result makes on it beside its name, if any."""
        return ""

    @abstractmethod
    def graph(self, arguments: Sequence[ca.SX], parameters: ca.SX) -> ca.SX:
        """Value at scalar arguments for parameters (p, 1) in the order of `priors`, (1, 1)."""

    def values(self, arguments: Numbers, parameters: Numbers) -> Array:
        """Values (n, m) of n functions at m points.

        Parameters
        ----------
        arguments : array_like, (m,) or (m, variables)
        parameters : array_like, (n, p)
            In the order of `priors`.
        """
        variables, p = len(self.arguments), len(self.priors)
        points = np.asarray(arguments, dtype=float)
        points = points[:, None] if points.ndim == 1 else points
        given = np.asarray(parameters, dtype=float)
        for name, array, columns in (("arguments", points, variables), ("parameters", given, p)):
            if array.ndim != 2 or array.shape[1] != columns:
                raise InputError(
                    f"{name} has shape {array.shape}: give {columns} columns", argument=name
                )
        if not len(points) or not np.isfinite(points).all():
            raise InputError(
                "arguments is empty, or holds NaN or infinity: give finite numbers",
                argument="arguments",
            )
        rows = self._evaluated.map(len(points))
        return np.array([np.asarray(rows(points.T, one)).ravel() for one in given]).reshape(
            len(given), len(points)
        )

    def sample(self, arguments: Numbers, n: Count = 100, seed: Seed = 0) -> Array:
        """Draw functions from the default prior: their values at m points, (n, m).

        Parameters
        ----------
        arguments : array_like, (m,) or (m, variables)
        n : int
            Number of functions.
        seed : int

        Examples
        --------
        >>> import smcpn
        >>> friction = smcpn.spline("v", within=(-1, 1), odd=True)
        >>> friction.sample([-0.5, 0.0, 0.5], n=4).shape
        (4, 3)
        """
        rng = np.random.default_rng(seed)
        drawn = {name: prior.rvs(size=n, random_state=rng) for name, prior in self.priors.items()}
        for name, scale in self.scales.items():
            drawn[name] = drawn[name] * drawn[scale]
        return self.values(arguments, np.stack(list(drawn.values()), axis=1))

    @cached_property
    def _evaluated(self) -> ca.Function:
        """Value as a function of the arguments (variables, 1) and the parameters (p, 1)."""
        at, of = ca.SX.sym("at", len(self.arguments)), ca.SX.sym("of", len(self.priors))
        return ca.Function("values", [at, of], [self.graph(ca.vertsplit(at), of)])

    def __getstate__(self) -> dict[str, Any]:
        # Cached properties are made again.
        return {field.name: getattr(self, field.name) for field in fields(self)}
