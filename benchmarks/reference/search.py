"""Local maxima of a density from many starts at once, by Newton steps on finite differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Density = Callable[[Array], Array]

DIFFERENCE = 1e-4
LONGEST = 1.0
"""Step, in prior standard deviations."""
STEPS = 60
CLOSE = 0.5
"""Distance of two ends, in standard deviations there, below which they are one mode."""
LOWER = 15.0
"""Log density below the highest at which an end is of no interest."""


def derivatives(density: Density, z: Array) -> tuple[Array, Array, Array]:
    """Value (S,), gradient (S, d) and Hessian (S, d, d) at points (S, d)."""
    starts, d = z.shape
    h, unit, pairs = DIFFERENCE, np.eye(d), list(combinations(range(d), 2))
    moves = [np.zeros(d), *h * unit, *-h * unit]
    moves += [sign * h * (unit[i] + unit[j]) for i, j in pairs for sign in (1.0, -1.0)]
    points = (z[:, None, :] + np.array(moves)).reshape(-1, d)
    f = density(points).reshape(starts, len(moves))
    centre, up, down = f[:, 0], f[:, 1 : d + 1], f[:, d + 1 : 2 * d + 1]
    hessian = np.zeros((starts, d, d))
    second = (up + down - 2 * centre[:, None]) / h**2
    hessian[:, range(d), range(d)] = second
    for k, (i, j) in enumerate(pairs):
        both = f[:, 2 * d + 1 + 2 * k] + f[:, 2 * d + 2 + 2 * k] - 2 * centre
        hessian[:, i, j] = 0.5 * (both / h**2 - second[:, i] - second[:, j])
        hessian[:, j, i] = hessian[:, i, j]
    return centre, (up - down) / (2 * h), hessian


def climb(density: Density, starts: Array) -> tuple[Array, Array, Array]:
    """Ends (S, d) of damped Newton steps, their heights (S,) and precisions (S, d, d)."""
    z, damping = starts.copy(), np.full(len(starts), 1e-2)
    height = density(z)
    for _ in range(STEPS):
        _, slope, hessian = derivatives(density, z)
        known = np.isfinite(slope.sum(axis=1) + hessian.sum(axis=(1, 2)))
        slope, hessian = np.where(known[:, None], slope, 0.0), hessian.copy()
        hessian[~known] = np.eye(z.shape[1])
        curvature, vectors = np.linalg.eigh(hessian)
        along = np.einsum("sij,si->sj", vectors, slope) / (np.abs(curvature) + damping[:, None])
        step = np.einsum("sij,sj->si", vectors, along)
        length = np.linalg.norm(step, axis=1, keepdims=True)
        tried = z + step * np.minimum(1.0, LONGEST / np.maximum(length, LONGEST))
        there = density(tried)
        better = np.asarray(there > height)
        gained = np.where(better, there - height, 0.0)
        z[better], height = tried[better], np.where(better, there, height)
        damping = np.where(better, 0.2 * damping, 5.0 * damping + 1e-3)
        if gained.max() < 1e-7 and damping.min() > 1e-2:
            break
    return z, height, -derivatives(density, z)[2]


def modes(density: Density, starts: Array, most: int = 12) -> list[tuple[Array, Array]]:
    """Distinct maxima and their covariances, the highest first.

    Where the density is not concave at an end, the covariance is at most that of the prior.
    """
    ends, heights, precisions = climb(density, starts)
    found: list[tuple[Array, Array]] = []
    for one in np.argsort(-heights):
        if len(found) == most or not heights[one] > heights.max() - LOWER:
            break
        if not np.isfinite(precisions[one]).all():
            continue
        curvature, vectors = np.linalg.eigh(precisions[one])
        covariance = (vectors / np.maximum(curvature, 1.0)) @ vectors.T
        away = [
            np.sqrt((ends[one] - mode) @ np.linalg.solve(spread, ends[one] - mode))
            for mode, spread in found
        ]
        if not away or min(away) > CLOSE:
            found.append((ends[one], covariance))
    return found
