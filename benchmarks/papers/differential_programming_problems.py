"""The systems of the differential programming papers, and data as the authors' code draws them.

Source: Yang, Bhouri and Perdikaris, *Bayesian differential programming for robust systems
identification under uncertainty* (2020). Lorenz and the sparse spiral are not in the code, nor
are their settings in print: those here are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.papers.fenrir_settings import trajectory
from smcpn import ODE, Library, Record

Array = NDArray[np.float64]

PAPER_SEED = 1234
"""Of the authors' draws, by numpy's legacy generator."""


@smcpn.ode
def spiral(x, y, *, a, b, c, e):
    """Damped oscillator of two cubic terms in each equation (20)."""
    return a * x**3 + b * y**3, c * x**3 + e * y**3


@smcpn.ode
def lotka_volterra(x, y, *, a, b, g, s):
    """Prey and predator (22)."""
    return a * x - b * x * y, -g * y + s * x * y


@smcpn.ode
def pendulum(x, v, *, a, b):
    """Damped pendulum (23)."""
    return v, -a * v - b * np.sin(x)


@smcpn.ode
def lorenz(x, y, z, *, sigma, rho, beta):
    """Lorenz's equations (26)."""
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


@smcpn.ode
def glycolysis(
    S1, S2, S3, S4, N2, A3, S4ex, *, J0, k1, k2, k3, k4, k5, k6, k, ka, q, KI, phi, N, A
):
    """Glycolysis of yeast (29, 30), of 14 rates."""
    J = ka * (S4 - S4ex)
    v1 = k1 * S1 * A3 / (1 + (A3 / KI) ** q)
    v2 = k2 * S2 * (N - N2)
    v3 = k3 * S3 * (A - A3)
    v4, v5, v6, v7 = k4 * S4 * N2, k5 * A3, k6 * S2 * N2, k * S4ex
    return (
        J0 - v1,
        2 * v1 - v2 - v6,
        v2 - v3,
        v3 - v4 - J,
        v2 - v4 - v6,
        -2 * v1 + 2 * v3 - v5,
        phi * J - v7,
    )


@dataclass(frozen=True, eq=False)
class Experiment:
    """One experiment: the system, its record, and the pairs of samples that are drawn from it.

    truth: Its parameters.
    start: Initial state.
    end, forecast: Of the record, and of the forecast.
    samples: Of the whole record.
    lag: Samples from the first of a pair to the second.
    pairs: Number of pairs.
    steps: Runge-Kutta steps of the authors from one to the other.
    noise: Standard deviation, in the units of ``noise_of``.
    noise_of: {"unit", "each", "largest"}, 1, the standard deviation of each state, or the largest
        of these.
    draw: {"rows", "columns", "burnt columns"}, order in which noise is drawn; the last draws all of
        it once before, and forgets it.
    library: Terms that are looked for; none where the equation is known.
    known: Equations that are known.
    coefficients: Those of the library that are not zero.
    ours: Whether the setting is ours, not the paper's.
    """

    ode: ODE
    truth: Mapping[str, float]
    start: tuple[float, ...]
    end: float
    forecast: float
    samples: int
    lag: int
    pairs: int
    steps: int
    noise: float
    noise_of: Literal["unit", "each", "largest"] = "each"
    draw: Literal["rows", "columns", "burnt columns"] = "rows"
    library: Library | None = None
    known: Mapping[str, str] = field(default_factory=dict)
    coefficients: Mapping[str, float] = field(default_factory=dict)
    ours: bool = False

    @cached_property
    def times(self) -> Array:
        """Of the whole record, (N,)."""
        return np.linspace(0.0, self.end, self.samples)

    @cached_property
    def exact(self) -> Array:
        """States without noise, (N, n)."""
        return self.states(self.times)

    @cached_property
    def scale(self) -> Array:
        """Standard deviation of each state, (n,), in which the authors normalise."""
        return self.exact.std(axis=0)

    @cached_property
    def deviation(self) -> Array:
        """Standard deviation of the noise of each state, (n,)."""
        units = {"unit": np.ones_like(self.scale), "each": self.scale}
        units["largest"] = np.full_like(self.scale, self.scale.max())
        return self.noise * units[self.noise_of]

    def states(self, times: Array, start: tuple[float, ...] | None = None) -> Array:
        """Exact states at times, (T, n)."""
        return trajectory(self.ode, list(self.truth.values()), start or self.start, times)

    def data(self, seed: int = PAPER_SEED) -> Data:
        """Draw noise and pairs."""
        rng, shape = np.random.RandomState(seed), self.exact.shape
        if self.draw == "burnt columns":
            rng.standard_normal(shape)
        rows = self.draw == "rows"
        noise = rng.standard_normal(shape) if rows else rng.standard_normal(shape[::-1]).T
        starts = rng.choice(np.arange(self.samples - self.lag - 1), self.pairs, replace=False)
        return Data(self, self.exact + self.deviation * noise, starts)

    def without_noise(self) -> Experiment:
        """The same with exact data."""
        return replace(self, noise=0.0)


@dataclass(frozen=True, eq=False)
class Data:
    """What one seed draws.

    y: (N, n), the whole record.
    starts: (S,), first samples of the pairs.
    """

    experiment: Experiment
    y: Array
    starts: NDArray[np.int64]

    @property
    def first(self) -> Array:
        """First samples of the pairs, (S, n)."""
        return self.y[self.starts]

    @property
    def second(self) -> Array:
        """Second samples of the pairs, (S, n)."""
        return self.y[self.starts + self.experiment.lag]

    @property
    def record(self) -> Record:
        """The samples that the pairs consist of as one trajectory, at irregular times."""
        chosen = np.unique([self.starts, self.starts + self.experiment.lag])
        return Record(y=self.y[chosen], t=self.experiment.times[chosen])


_SPIRAL = Experiment(
    ode=spiral,
    truth={"a": -0.1, "b": 2.0, "c": -2.0, "e": -0.1},
    start=(2.0, 0.0),
    end=20.0,
    forecast=40.0,
    samples=1001,
    lag=80,
    pairs=920,
    steps=19,
    noise=0.02,
    noise_of="unit",
    library=smcpn.polynomials(degree=3),
    coefficients={"x'[x^3]": -0.1, "x'[y^3]": 2.0, "y'[x^3]": -2.0, "y'[y^3]": -0.1},
)
EXPERIMENTS: Mapping[str, Experiment] = {
    "spiral, dense": _SPIRAL.without_noise(),
    "spiral, sparse": replace(_SPIRAL, samples=201, lag=16, pairs=184, noise=0.0, ours=True),
    "spiral, noisy": _SPIRAL,
    "lotka-volterra": Experiment(
        ode=lotka_volterra,
        truth={"a": 1.0, "b": 0.1, "g": 1.5, "s": 0.75},
        start=(5.0, 5.0),
        end=25.0,
        forecast=45.0,
        samples=16001,
        lag=320,
        pairs=1000,
        steps=19,
        noise=0.03,
        draw="columns",
        library=smcpn.polynomials(degree=3),
        coefficients={"x'[x]": 1.0, "x'[x y]": -0.1, "y'[y]": -1.5, "y'[x y]": 0.75},
    ),
    "pendulum": Experiment(
        ode=pendulum,
        truth={"a": 0.2, "b": 8.91},
        start=(-1.193, -3.876),
        end=20.0,
        forecast=40.0,
        samples=8001,
        lag=200,
        pairs=1000,
        steps=19,
        noise=0.02,
        library=smcpn.polynomials(degree=3) + smcpn.terms(np.sin, np.cos),
        coefficients={"x'[v]": 1.0, "v'[v]": -0.2, "v'[sin(x)]": -8.91},
        ours=True,
    ),
    "lorenz": Experiment(
        ode=lorenz,
        truth={"sigma": 10.0, "rho": 28.0, "beta": 8.0 / 3.0},
        start=(-8.0, 7.0, 27.0),
        end=10.0,
        forecast=15.0,
        samples=4001,
        lag=40,
        pairs=1000,
        steps=19,
        noise=0.02,
        noise_of="largest",
        library=smcpn.polynomials(degree=2),
        coefficients={
            "x'[x]": -10.0, "x'[y]": 10.0, "y'[x]": 28.0, "y'[y]": -1.0, "y'[x z]": -1.0,
            "z'[z]": -8.0 / 3.0, "z'[x y]": 1.0,
        },
        ours=True,
    ),
    "glycolysis": Experiment(
        ode=glycolysis,
        truth={
            "J0": 2.5, "k1": 100.0, "k2": 6.0, "k3": 16.0, "k4": 100.0, "k5": 1.28, "k6": 12.0,
            "k": 1.8, "ka": 13.0, "q": 4.0, "KI": 0.52, "phi": 0.1, "N": 1.0, "A": 4.0,
        },
        start=(0.5, 1.9, 0.18, 0.15, 0.16, 0.1, 0.064),
        end=5.0,
        forecast=10.0,
        samples=4000,
        lag=60,
        pairs=1000,
        steps=9,
        noise=0.02,
        draw="burnt columns",
    ),
}  # fmt: skip
