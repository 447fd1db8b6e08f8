"""Solutions of the equations of studies for many draws: closed forms, Runge-Kutta steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = Mapping[str, Array]
Rate = Callable[[Sequence[Array], float], Sequence[Array]]


def two_compartments(t: Array, v: Values, dose: float) -> Array:
    """Concentrations (T, N) after a bolus, by the eigenvalues of the two compartments."""
    out, there, back = v["CL"] / v["V1"], v["Q"] / v["V1"], v["Q"] / v["V2"]
    total = out + there + back
    root = np.sqrt(total**2 - 4 * out * back)
    fast = (total + root) / 2
    # The product of both is out * back, so that nothing cancels.
    slow, t = out * back / fast, t[:, None]
    first, second = (fast - back) * np.exp(-fast * t), (back - slow) * np.exp(-slow * t)
    return dose / (v["V1"] * root) * (first + second)


def absorbed(t: Array, one: Array, other: Array) -> Array:
    """(exp(-one t) - exp(-other t)) / (other - one), (T, N), also where both are equal."""
    t, slow, gap = t[:, None], np.minimum(one, other), np.abs(one - other)
    near = gap < 1e-12
    return np.exp(-slow * t) * np.where(near, t, -np.expm1(-gap * t) / np.where(near, 1.0, gap))


def oral(t: Array, v: Values, dose: float) -> Array:
    """Concentrations (T, N) of one compartment after an oral dose."""
    return dose * v["ka"] / v["V"] * absorbed(t, v["ka"], v["ke"])


def chain(t: Array, v: Values) -> Array:
    """Second of two first-order reactions from one, (T, N)."""
    return v["kf"] * absorbed(t, v["kf"], v["ks"])


def integrated(
    rate: Callable[..., Sequence[Array]], initial: Sequence[Array], times: Array, longest: float
) -> list[Array]:
    """States at times as (T, N) each, by Runge-Kutta steps no longer than `longest`.

    rate: From the number of the interval and the states, (N,) each, to their slopes.
    initial: (N,)
    times: (T,)
    """
    x, found = np.array(initial), [np.array(initial)]
    with np.errstate(all="ignore"):
        for k, gap in enumerate(np.diff(times)):
            steps = int(np.ceil(gap / longest - 1e-9))
            h = gap / steps
            for _ in range(steps):
                k1 = np.array(rate(k, *x))
                k2 = np.array(rate(k, *(x + h / 2 * k1)))
                k3 = np.array(rate(k, *(x + h / 2 * k2)))
                x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + np.array(rate(k, *(x + h * k3))))
            found.append(x)
    return list(np.array(found).transpose(1, 0, 2))


def gaussian(y: Array, outputs: Array, sd: Array | float) -> Array:
    """Log density of samples (T,) about outputs (T, N), (N,)."""
    z = (y[:, None] - outputs) / sd
    return -(0.5 * np.square(z) + np.log(sd * np.sqrt(2 * np.pi))).sum(axis=0)


def log_normal(y: Array, outputs: Array, sd: Array | float) -> Array:
    """The same of samples whose logarithms are normal."""
    with np.errstate(all="ignore"):
        return gaussian(np.log(y), np.log(outputs), sd) - np.log(y).sum()
