"""The likelihood of a scalar state with process noise, its density on a grid of nodes.

    x_{j+1} = F_h(x_j) + s sqrt(h) e_j,    y_k = x(t_k) + r v_k,

F_h one Runge-Kutta step of length h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def runge_kutta(rate: Callable[[Array], Array], x: Array, h: float) -> Array:
    """One classical step."""
    k1 = rate(x)
    k2 = rate(x + h / 2 * k1)
    k3 = rate(x + h / 2 * k2)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + h * k3))


def normal(x: Array, sd: float) -> Array:
    """Density of N(0, sd^2)."""
    return np.exp(-0.5 * np.square(x / sd)) / (sd * np.sqrt(2 * np.pi))


def log_likelihood(
    rate: Callable[[Array], Array],
    spread: float,
    noise: float,
    initial: Array,
    y: Array,
    interval: float,
    steps: int,
    nodes: Array,
) -> float:
    """Return the log-likelihood of samples, which the first begins.

    rate: Drift of the states (N,).
    spread, noise: s and r.
    initial: (N,), density of the first state at the nodes.
    y: (T,)
    interval: Between samples.
    steps: To a sample.
    nodes: (N,), evenly spaced, no further apart than the noise of a step.
    """
    h, width = interval / steps, nodes[1] - nodes[0]
    ahead = runge_kutta(rate, nodes, h)
    step = width * normal(nodes[:, None] - ahead, spread * np.sqrt(h))
    transition, density, total = np.linalg.matrix_power(step, steps), initial, 0.0
    for k, sample in enumerate(y):
        if k:
            density = transition @ density
        density = density * normal(sample - nodes, noise)
        mass = density.sum() * width
        total += np.log(mass)
        density = density / mass
    return float(total)
