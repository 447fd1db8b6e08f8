"""The response of linear models to a step of an input, exact at every time by matrix exponentials.

With z = (x, 1), z' = [[A, b], [0, 0]] z from the dead time of the input on, and y = [C, d] z.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from smcpn.arguments import Probability

if TYPE_CHECKING:
    from smcpn.simulation.state_space import Matrices

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

TIME_CONSTANTS = 7.0
"""Default length in time constants of the slowest pole, after which .1 % is left."""
POINTS = 200
"""Intervals of time."""
PER_PERIOD = 20
"""Intervals a period of the fastest oscillation."""
MOST = 4000
"""Bound of the intervals."""


@dataclass(frozen=True)
class StepResponse:
    """Response of every output to a step of one in every input, with that of every draw.

    Attributes
    ----------
    t : ndarray, (T,)
        Time since the step.
    response : ndarray, (T, q, m)
        Deviation of the outputs from the operating point, at the mean parameters.
    draws : ndarray, (N, T, q, m)
    t_unit : str
        Unit of time.
    """

    t: Array
    response: Array
    draws: Array = field(repr=False)
    t_unit: str = "s"

    def interval(self, level: Probability = 0.95) -> tuple[Array, Array]:
        """Lower and upper end of the central ``level`` of the draws, each (T, q, m)."""
        lower, upper = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return lower, upper


def duration_of(poles: Complex, delay: Array) -> float:
    """Return the time in which the slowest of the poles (n,) has settled, after the dead time."""
    rates = np.abs(poles.real)
    rates = rates[rates > 1e-12 * np.abs(poles).max(initial=0.0)]
    slowest = 1.0 / rates.min() if rates.size else 1.0
    return float(TIME_CONSTANTS * slowest + delay.max(initial=0.0))


def step_times(poles: Complex, duration: float) -> Array:
    """Return equally spaced times from 0, which show the fastest oscillation of poles (n,)."""
    periods = duration * np.abs(poles.imag).max(initial=0.0) / (2 * np.pi)
    number = int(np.clip(np.ceil(PER_PERIOD * min(periods, MOST)), POINTS, MOST))
    return np.linspace(0.0, duration, number + 1)


def step_responses(linear: Matrices, t: Array) -> Array:
    """Return the outputs (N, T, q, m) at equally spaced times (T,) from 0 on."""
    from scipy.linalg import expm

    N, n, m = linear.B.shape
    rate = np.zeros((N, m, n + 1, n + 1))
    rate[..., :n, :n] = linear.A[:, None]
    rate[..., :n, n] = np.swapaxes(linear.B, 1, 2)
    output = np.empty((N, m, linear.C.shape[1], n + 1))
    output[..., :n] = linear.C[:, None]
    output[..., n] = np.swapaxes(linear.D, 1, 2)
    h = t[1]
    begins = np.ceil(linear.delay / h - 1e-9)
    first = expm(rate * np.maximum(begins * h - linear.delay, 0.0)[..., None, None])[..., n]
    following = expm(rate * h)
    z = np.zeros((N, m, n + 1))
    result = np.empty((N, len(t), linear.C.shape[1], m))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(len(t)):
            z = np.where((begins == k)[..., None], first, (following @ z[..., None])[..., 0])
            result[:, k] = np.swapaxes((output @ z[..., None])[..., 0], 1, 2)
    return result
