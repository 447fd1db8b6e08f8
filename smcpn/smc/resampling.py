"""Resampling: indices drawn in proportion to the weights.

Every scheme has the same signature, never chooses a zero weight, and takes its uniforms from the
generator it is given. They differ in how far the number of copies n_i strays from size W_i.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Resample = Callable[[Array, np.random.Generator, int | None], NDArray[np.int64]]
"""``(weights (N,), rng, size) -> sorted indices (size,)``; the weights sum to one."""

_Scheme = TypeVar("_Scheme", bound=Resample)

ROUNDING = 1e-12
"""A fraction closer than this to 0 or 1 is whole."""
SCHEMES: dict[str, Resample] = {}
"""Every scheme by name."""


def scheme(function: _Scheme) -> _Scheme:
    """Register a resampling scheme under its name."""
    SCHEMES[function.__name__] = function
    return function


@scheme
def systematic(
    weights: Array, rng: np.random.Generator, size: int | None = None
) -> NDArray[np.int64]:
    """Systematic resampling: one uniform, |n_i - size w_i| < 1, zero weights never chosen.

    The indices, N or ``size``, are sorted; the weights are normalised.
    """
    size = len(weights) if size is None else size
    return _inverse(weights, (rng.random() + np.arange(size)) / size)


@scheme
def ssp(weights: Array, rng: np.random.Generator, size: int | None = None) -> NDArray[np.int64]:
    """Srinivasan's sampling process: |n_i - size w_i| < 1 and negatively associated copies.

    Fractions are pushed to 0 or 1 two at a time, each keeping its mean. Unlike systematic
    resampling it converges for any order of the particles.

    References
    ----------
    Gerber, M., Chopin, N., Whiteley, N. (2019). Negative association, ordering and convergence
    of resampling methods. Annals of Statistics 47.
    """
    size = len(weights) if size is None else size
    expected = size * weights / weights.sum()
    copies = np.floor(expected).astype(np.int64)
    rest = expected - copies
    broken = np.flatnonzero(rest)
    if len(broken):
        uniforms = rng.random(len(broken)).tolist()
        copies[broken] += _rounded(rest[broken].tolist(), uniforms, size - int(copies.sum()))
    return np.repeat(np.arange(len(weights)), copies)


@scheme
def stratified(
    weights: Array, rng: np.random.Generator, size: int | None = None
) -> NDArray[np.int64]:
    """Stratified resampling (Kitagawa 1996): one uniform in each of ``size`` strata."""
    size = len(weights) if size is None else size
    return _inverse(weights, (rng.random(size) + np.arange(size)) / size)


@scheme
def residual(
    weights: Array, rng: np.random.Generator, size: int | None = None
) -> NDArray[np.int64]:
    """Whole copies for certain, the rest multinomially (Liu and Chen 1998): n_i > size w_i - 1."""
    size = len(weights) if size is None else size
    expected = size * weights / weights.sum()
    copies = np.floor(expected).astype(np.int64)
    left = size - int(copies.sum())
    if left > 0:
        rest = expected - copies
        drawn = multinomial(rest / rest.sum(), rng, left)
        copies += np.bincount(drawn, minlength=len(weights))
    return np.repeat(np.arange(len(weights)), copies)


@scheme
def multinomial(
    weights: Array, rng: np.random.Generator, size: int | None = None
) -> NDArray[np.int64]:
    """Independent draws: the most variable scheme, and the one theory is written for."""
    size = len(weights) if size is None else size
    return _inverse(weights, np.sort(rng.random(size)))


def _rounded(fractions: list[float], uniforms: list[float], total: int) -> list[int]:
    """Round every fraction to 0 or 1, keeping means and their sum, ``total``."""
    raised = [0] * len(fractions)
    opened, a = 0, fractions[0]
    for j in range(1, len(fractions)):
        b = fractions[j]
        up, down = min(b, 1.0 - a), min(a, 1.0 - b)
        # With these odds the mean of both stays; either way one of the two becomes whole.
        if uniforms[j] * (up + down) < up:
            a, b = a - down, b + down
        else:
            a, b = a + up, b - up
        if ROUNDING < a < 1.0 - ROUNDING:
            raised[j] = round(b)
        else:
            raised[opened] = round(a)
            opened, a = j, b
    # The last one is whole up to rounding: the sum determines it.
    raised[opened] = total - sum(raised)
    return raised


def _inverse(weights: Array, points: Array) -> NDArray[np.int64]:
    """Invert the cumulative weights at sorted points of [0, 1)."""
    cumulative = np.cumsum(weights)
    # Rounding must neither leave a point beyond the last weight nor pick a zero weight at the end.
    cumulative /= cumulative[-1]
    return np.searchsorted(cumulative, points, side="right").clip(
        max=int(np.flatnonzero(weights)[-1])
    )
