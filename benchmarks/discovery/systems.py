"""The field's systems, with the coefficients of their equations and noisy records of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import smcpn

Array = NDArray[np.float64]

FIRST_SEED = 20_000
"""Of the noise; the seeds that the search was made with are all below."""


@dataclass(frozen=True, eq=False)
class System:
    """Equations that a polynomial library can write, and how they are sampled.

    rhs: Of time and states.
    truth: Coefficients that are not zero.
    degree: Of the library.
    start: State at time 0.
    interval: Between samples.
    spread: What the noise is a share of.
    """

    states: tuple[str, ...]
    rhs: Callable[[float, Array], list[float]]
    truth: Mapping[str, float]
    degree: int
    start: tuple[float, ...]
    interval: float
    spread: float

    @property
    def library(self) -> smcpn.Library:
        """All monomials up to the degree."""
        return smcpn.polynomials(self.degree)

    def record(self, duration: float, share: float, seed: int) -> smcpn.Record:
        """All states with independent noise of one standard deviation."""
        x = self.trajectory(duration)
        noise = np.random.default_rng(FIRST_SEED + seed).normal(size=x.shape)
        return smcpn.Record(y=x + share * self.spread * noise, dt=self.interval)

    @cache  # noqa: B019
    def trajectory(self, duration: float) -> Array:
        """States (T, n) without noise."""
        t = self.interval * np.arange(round(duration / self.interval) + 1)
        found = solve_ivp(self.rhs, (0.0, t[-1]), self.start, t_eval=t, rtol=1e-10, atol=1e-12)
        return found.y.T


def _lorenz(degree: int, start: tuple[float, float, float], spread: float) -> System:
    return System(
        states=("x", "y", "z"),
        rhs=lambda t, s: [
            10 * (s[1] - s[0]),
            s[0] * (28 - s[2]) - s[1],
            s[0] * s[1] - 8 / 3 * s[2],
        ],
        truth={
            "x'[x]": -10.0, "x'[y]": 10.0, "y'[x]": 28.0, "y'[y]": -1.0, "y'[x z]": -1.0,
            "z'[z]": -8 / 3, "z'[x y]": 1.0,
        },
        degree=degree,
        start=start,
        interval=0.01,
        spread=spread,
    )  # fmt: skip


LORENZ = _lorenz(5, (-8.0, 7.0, 27.0), 15.98)
"""Of Fasel et al. (2022), E-SINDy: 165 coefficients; noise is a share of the rms."""

GRIDS = {
    "Lorenz": _lorenz(2, (-8.0, 8.0, 27.0), 12.75),
    "Roessler": System(
        states=("x", "y", "z"),
        rhs=lambda t, s: [-s[1] - s[2], s[0] + 0.2 * s[1], 0.2 + s[2] * (s[0] - 5.7)],
        truth={
            "x'[y]": -1.0, "x'[z]": -1.0, "y'[x]": 1.0, "y'[y]": 0.2, "z'[1]": 0.2,
            "z'[x z]": 1.0, "z'[z]": -5.7,
        },
        degree=2,
        start=(-6.0, 5.0, 0.0),
        interval=0.05,
        spread=4.47,
    ),
    "van der Pol": System(
        states=("x", "y"),
        rhs=lambda t, s: [s[1], 0.5 * (1.0 - s[0] ** 2) * s[1] - s[0]],
        truth={"x'[y]": 1.0, "y'[x]": -1.0, "y'[y]": 0.5, "y'[x^2 y]": -0.5},
        degree=3,
        start=(-2.0, 1.0),
        interval=0.01,
        spread=1.45,
    ),
}  # fmt: skip
"""Of Fung et al. (2025), ODR-BINDy; noise is a share of the pooled standard deviation."""
