"""A continuous-discrete extended Kalman filter as textbooks write it, in plain numpy.

Jazwinski (1970), section 8.3; Sarkka and Svensson (2023), algorithm 7.4. The mean takes steps of
Runge and Kutta, the covariance is a full matrix, and Jacobians come from complex steps, which are
exact to rounding. The noise of a step is given as a covariance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Function = Callable[..., np.ndarray]


@dataclass(frozen=True)
class Disturbed:
    """A disturbed system with numbers for its parameters.

    rate, outputs: f(x, u, t) and g(x, u, t), of complex x too.
    covariance: Of the noise over a step, Q(x, u, t, h), (n, n).
    noise: (q,), variances of the outputs.
    initial: (n,)
    spread: (n, n), covariance of the first state, none by default.
    """

    rate: Function
    outputs: Function
    covariance: Function
    noise: np.ndarray
    initial: np.ndarray
    spread: np.ndarray | None = None


@dataclass(frozen=True)
class Filtered:
    """Increments (T,), and moments of the states given the samples before and with each."""

    increments: np.ndarray
    predicted: np.ndarray
    predicted_covariance: np.ndarray
    filtered: np.ndarray
    covariance: np.ndarray
    transitions: np.ndarray


def jacobian(function: Function, x: np.ndarray) -> np.ndarray:
    """Derivative by complex steps."""
    tiny = 1e-40
    moved = [function(x + 1j * tiny * e) for e in np.eye(len(x))]
    return np.column_stack([np.imag(value) / tiny for value in moved])


def runge_kutta(rate: Function, h: float, t: float, inputs: np.ndarray) -> Function:
    """Step of length h from t, with inputs at its begin, middle and end."""
    begin, middle, end = inputs

    def step(x: np.ndarray) -> np.ndarray:
        k1 = rate(x, begin, t)
        k2 = rate(x + h / 2 * k1, middle, t + h / 2)
        k3 = rate(x + h / 2 * k2, middle, t + h / 2)
        k4 = rate(x + h * k3, end, t + h)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return step


def extended_kalman(
    system: Disturbed, t: np.ndarray, y: np.ndarray, inputs: Function, steps: int
) -> Filtered:
    """Filter samples y (T, q), NaN where missing, at times t, in so many steps between two.

    inputs: Input (m,) in interval k, the share w of the way from its begin to its end.
    """
    m, n = system.initial, len(system.initial)
    covariance = np.zeros((n, n)) if system.spread is None else system.spread
    parts: list[list[np.ndarray]] = [[] for _ in range(6)]
    for k, values in enumerate(y):
        transition = np.eye(n)
        for s in range(steps if k else 0):
            h = (t[k] - t[k - 1]) / steps
            points = np.array([inputs(k - 1, (s + w) / steps) for w in (0.0, 0.5, 1.0)])
            begin = t[k - 1] + s * h
            step = runge_kutta(system.rate, h, begin, points)
            slope, noise = jacobian(step, m), system.covariance(m, points[1], begin + h / 2, h)
            m, covariance = step(m), slope @ covariance @ slope.T + noise
            transition = slope @ transition
        predicted = m, covariance
        u = inputs(min(k, len(t) - 2), 0.0 if k < len(t) - 1 else 1.0)
        seen = np.isfinite(values)
        increment = np.zeros(())
        if seen.any():
            h_slope = jacobian(lambda x, u=u, at=t[k]: system.outputs(x, u, at), m)[seen]
            innovation = (values - system.outputs(m, u, t[k]))[seen]
            spread = h_slope @ covariance @ h_slope.T + np.diag(system.noise[seen])
            gain = np.linalg.solve(spread, h_slope @ covariance).T
            square = innovation @ np.linalg.solve(spread, innovation)
            increment = -0.5 * (square + np.linalg.slogdet(2 * np.pi * spread)[1])
            m = m + gain @ innovation
            covariance = covariance - gain @ spread @ gain.T
        for part, value in zip(
            parts, (increment, *predicted, m, covariance, transition), strict=True
        ):
            part.append(value)
    return Filtered(*map(np.array, parts))
