"""Densities of outputs with coloured noise: by a dense covariance, and by plain filters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


def increments(
    t: Array, residual: Array, sd: float, rho: float, interval: float, error: Array | None = None
) -> Array:
    """Log density of each residual given those before, (T,); 0 where it is NaN.

    Noise at times s and t has the covariance sd^2 rho^(|s - t| / interval). ``error`` (T,) is the
    variance of an error that is independent from sample to sample.
    """
    error = np.zeros(len(t)) if error is None else error
    distance = np.round(np.abs(t[:, None] - t) / interval, 9)
    covariance = sd**2 * rho**distance + np.diag(error)
    totals = [0.0]
    for end in range(1, len(t) + 1):
        seen = np.flatnonzero(np.isfinite(residual[:end]))
        if not len(seen):
            totals.append(0.0)
            continue
        normal = stats.multivariate_normal(np.zeros(len(seen)), covariance[np.ix_(seen, seen)])
        totals.append(float(normal.logpdf(residual[seen])))
    return np.diff(totals)


def conditioned_increments(
    record: Any, rate: float, noise: tuple[float, float, float], steps: int, *, jacobian: bool
) -> tuple[Array, Array]:
    """Increments of y, and of y and z less those of z alone, for x' = u - rate x, x_0 = 1; (T,).

    A filter of x, x', x'' under a twice integrated Wiener process of unit diffusion, which meets
    the ODE at the end of every step and starts its derivatives anew at every sample, and of the
    noise of y = x + e behind them, of standard deviation, rho and interval ``noise``.
    """
    seen, with_data = _conditioned(record, rate, noise, steps, jacobian, data=True)
    _, alone = _conditioned(record, rate, noise, steps, jacobian, data=False)
    return seen, seen + with_data - alone


def _conditioned(
    record: Any,
    rate: float,
    noise: tuple[float, float, float],
    steps: int,
    jacobian: bool,
    *,
    data: bool,
) -> tuple[Array, Array]:
    t, u, y, a = record.t, record.u[:, 0], record.y[:, 0], rate
    sd, rho, interval = noise
    slope, sees = (a if jacobian else 0.0), np.array([1.0, 0.0, 0.0, 1.0])
    bends = np.array([[1, 0, 0, 0], [-slope, 0, 0, 0], [slope**2, 0, 0, 0], [0, 0, 0, 1.0]])
    m = np.array([1.0, u[0] - a, (u[1] - u[0]) / (t[1] - t[0]) - a * (u[0] - a), 0.0])
    P = np.diag([0.0, 0.0, 0.0, sd**2])
    of_y, of_z = np.zeros(len(t)), np.zeros(len(t))
    for k in range(len(t)):
        if data and np.isfinite(y[k]):
            m, P, of_y[k] = _given(m, P, sees, y[k] - sees @ m)
        if k + 1 == len(t):
            break
        gap = t[k + 1] - t[k]
        phi, rise = rho ** (gap / interval), (u[k + 1] - u[k]) / gap
        if k > 0:
            first = u[k] - a * m[0]
            m, P = np.array([m[0], first, rise - a * first, m[3]]), bends @ P @ bends.T
        scale = np.diag([1.0, 1.0, 1.0, phi])
        m, P = scale @ m, scale @ P @ scale.T
        P[3, 3] += sd**2 * (1.0 - phi**2)
        h = gap / steps
        F = np.array([[1, h, h**2 / 2, 0], [0, 1, h, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
        Q = np.zeros((4, 4))
        Q[:3, :3] = [
            [h**5 / 20, h**4 / 8, h**3 / 6], [h**4 / 8, h**3 / 3, h**2 / 2],
            [h**3 / 6, h**2 / 2, h],
        ]  # fmt: skip
        for step in range(1, steps + 1):
            m, P = F @ m, F @ P @ F.T + Q
            z = u[k] + rise * step * h - a * m[0] - m[1]
            m, P, log_density = _given(m, P, np.array([slope, 1.0, 0.0, 0.0]), z)
            of_z[k + 1] += log_density
    return of_y, of_z


def _given(m: Array, P: Array, h: Array, innovation: float) -> tuple[Array, Array, float]:
    """Mean and covariance given h'x without noise, and the log density of the innovation."""
    s = h @ P @ h
    k = P @ h / s
    log_density = -0.5 * (innovation**2 / s + np.log(2 * np.pi * s))
    return m + k * innovation, P - np.outer(k, k) * s, float(log_density)
