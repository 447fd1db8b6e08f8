"""Distributions of several libraries by duck typing: their draws, their support, their text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smcpn.errors import InputError

Array = NDArray[np.float64]


def draw(distribution: Any, rng: np.random.Generator, size: int) -> Array:
    """Draw ``size`` values, (size,), with the randomness of ``rng`` alone.

    A distribution of `scipy.stats` takes the generator. One of `particles.distributions` draws
    from numpy's global generator: that is seeded from ``rng`` for the call and put back after.

    Raises
    ------
    InputError
        If the draws are not ``size`` numbers.
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
    """Bounds of a distribution's support; the whole line where it does not tell.

    ``support()`` of `scipy.stats` is asked first, then the quantile function at 0 and 1, which
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
    """Lend numpy's global generator a seed, and leave it as it was."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
