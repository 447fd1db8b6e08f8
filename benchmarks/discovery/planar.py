"""Trajectories of many systems of two states whose rates are monomials, all at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STATES = ("x", "y")
POWERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (0, 3))
"""Of the states in each term, in the order of the library; the first six are up to degree 2."""
INTERVAL, SAMPLES = 0.05, 201
LARGEST, LEAST_SPREAD, LARGEST_STEP = 3.0, 0.3, 0.3
"""Of kept trajectories: most of any state, least standard deviation of each state, and most rms
step between samples as a share of it."""
EXACT = 20
"""Runge-Kutta steps in a sampling interval of records."""


def terms(x: Array, count: int) -> Array:
    """Values (..., count) at states (..., 2)."""
    return np.stack([x[..., 0] ** a * x[..., 1] ** b for a, b in POWERS[:count]], axis=-1)


def rate(theta: Array, x: Array) -> Array:
    """Derivatives (..., N, 2) at states (..., N, 2) with coefficients (N, K), by equation."""
    first, second = np.split(theta, 2, axis=1)
    values = terms(x, first.shape[1])
    return np.stack([np.sum(values * own, axis=-1) for own in (first, second)], axis=-1)


def simulated(theta: Array, start: Array, substeps: int = 1) -> Array:
    """Trajectories (T, N, 2) by Runge-Kutta steps; those that leave the bounds stand still."""
    result = np.empty((SAMPLES, *start.shape))
    result[0] = x = start
    h = INTERVAL / substeps
    for k in range(1, SAMPLES):
        inside = np.flatnonzero(np.all(np.abs(x) <= LARGEST, axis=1))
        z, own = x[inside], theta[inside]
        with np.errstate(all="ignore"):
            for _ in range(substeps):
                a = rate(own, z)
                b = rate(own, z + 0.5 * h * a)
                c = rate(own, z + 0.5 * h * b)
                z = z + h / 6.0 * (a + 2.0 * (b + c) + rate(own, z + h * c))
        x = x.copy()
        x[inside] = np.where(np.isfinite(z), z, np.inf)
        result[k] = x
    return result


def kept(path: Array) -> NDArray[np.bool_]:
    """Whether trajectories (T, N, 2) stay bounded, move, and are sampled often enough, (N,)."""
    bounded = np.all(np.abs(path) <= LARGEST, axis=(0, 2))
    with np.errstate(invalid="ignore", over="ignore"):
        spread = path.std(axis=0)
        step = np.sqrt(np.mean(np.diff(path, axis=0) ** 2, axis=0))
    moves = np.all((spread >= LEAST_SPREAD) & (step <= LARGEST_STEP * spread), axis=1)
    return bounded & moves
