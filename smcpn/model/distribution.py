"""Distributions of one number, those of `scipy.stats` and `particles.distributions` among them.

They are taken by duck typing: anything with ``rvs`` and ``logpdf``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError

Array = NDArray[np.float64]

INTERQUARTILE_RANGE = 1.3489795
"""That of a standard normal: the spread of a distribution is its own over this."""


class Distribution(Protocol):
    """Protocol of a prior: ``rvs`` and ``logpdf``, as of a frozen `scipy.stats` distribution."""

    def rvs(self, *, size: int) -> Any: ...
    def logpdf(self, x: Array, /) -> Any: ...


def draw(distribution: Any, rng: np.random.Generator, size: int) -> Array:
    """Draw ``size`` values, (size,), with the randomness of ``rng`` alone.

    A distribution of `scipy.stats` takes the generator. One of `particles.distributions` draws
    from numpy's global generator: that is seeded from ``rng`` for the call and put back after.
    """
    if _takes_generator(distribution.rvs):
        values = distribution.rvs(size=size, random_state=rng)
    else:
        with _global_generator(rng):
            values = distribution.rvs(size=size)
    values = np.asarray(values)
    if values.shape != (size,):
        raise InputError(
            f"prior {type(distribution).__name__} draws values of shape {values.shape[1:]}: "
            "give every parameter a distribution of its own, of one number"
        )
    if values.dtype.kind != "f":
        raise InputError(
            f"prior {type(distribution).__name__} is discrete: "
            "choose a continuous one, or a number to fix the parameter"
        )
    return values.astype(np.float64)


def support(distribution: Any) -> tuple[float, float]:
    """Return the bounds of a distribution's support; the whole line where they are not known.

    ``support()`` of `scipy.stats` is called first, then the quantile function at 0 and 1, which
    distributions of `particles` have.
    """
    method = getattr(distribution, "support", None)
    if callable(method):
        lower, upper = _pair(method)
        return lower, upper
    quantile = getattr(distribution, "ppf", None)
    if not callable(quantile):
        return -np.inf, np.inf
    try:
        with np.errstate(all="ignore"):
            lower, upper = sorted(_pair(lambda: (quantile(0.0), quantile(1.0))))
    except NotImplementedError:
        return -np.inf, np.inf
    return lower, upper


def describe(distribution: Any) -> str:
    """Short text of a prior: family and arguments of a frozen scipy distribution."""
    family = getattr(getattr(distribution, "dist", None), "name", None)
    if family is None:
        return type(distribution).__name__
    arguments = [f"{a:.4g}" for a in distribution.args]
    arguments += [f"{key}={value:.4g}" for key, value in distribution.kwds.items()]
    return f"{family}({', '.join(arguments)})"


def family_of(distribution: Any) -> tuple[Any, ...] | None:
    """Return the key of distributions whose densities one call of `scipy.stats` evaluates, or None.

    It is the name of the family and of the arguments given; their values may differ.
    """
    dist: Any = getattr(distribution, "dist", None)
    stats = sys.modules.get("scipy.stats")
    known: Any = getattr(stats, getattr(dist, "name", None) or "", None)
    # A class of the user's may bear the name of a family, or change its support.
    if known is None or type(known) is not type(dist) or (known.a, known.b) != (dist.a, dist.b):
        return None
    numbers = [*distribution.args, *distribution.kwds.values()]
    if any(np.ndim(number) for number in numbers):
        return None
    return dist.name, len(distribution.args), *distribution.kwds


def normal_moments(distribution: Any, of_logarithm: bool) -> tuple[float, float] | None:
    """Mean and variance of a normal distribution, or of the logarithm of a log-normal one.

    None for any other, and for a log-normal distribution that is shifted.
    """
    name = (family_of(distribution) or ("",))[0]
    if name != ("lognorm" if of_logarithm else "norm"):
        return None
    if not of_logarithm:
        return float(distribution.mean()), float(distribution.var())
    order = ("s", "loc", "scale")
    given = dict(zip(order, distribution.args, strict=False)) | dict(distribution.kwds)
    if given.get("loc", 0.0) != 0.0:
        return None
    return float(np.log(given.get("scale", 1.0))), float(given["s"]) ** 2


def joint_log_density(distributions: list[Any]) -> Callable[[Array], Array]:
    """Densities of one distribution, or of several of one family, each at its column."""
    one = distributions[0]
    if len(distributions) == 1:
        return lambda values: one.logpdf(values[:, 0])[:, None]
    args = [
        np.array(column, dtype=float)
        for column in zip(*(d.args for d in distributions), strict=True)
    ]
    kwds = {key: np.array([d.kwds[key] for d in distributions], dtype=float) for key in one.kwds}
    return lambda values: one.dist.logpdf(values, *args, **kwds)


def _pair(bounds: Callable[[], Any]) -> tuple[float, float]:
    lower, upper = bounds()
    return float(lower), float(upper)


def _takes_generator(rvs: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(rvs).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.name == "random_state" or p.kind is p.VAR_KEYWORD for p in parameters)


@contextmanager
def _global_generator(rng: np.random.Generator) -> Generator[None]:
    """Seed numpy's global generator from ``rng``, and restore its state at the end."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
