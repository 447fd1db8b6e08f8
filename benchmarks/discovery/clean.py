"""Records that are exact, or nearly so: as simulations write them, to the last digit or rounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import smcpn
from benchmarks.discovery.answers import Answer, answer, difference
from benchmarks.discovery.systems import FIRST_SEED, GRIDS
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, least_of
from benchmarks.study import study

Array = NDArray[np.float64]

NOISE = (0.0, 1e-12, 1e-9, 1e-6, 1e-4)
"""Standard deviation as a share of the spread of each state."""
QUICK_NOISE = (0.0,)
TARGET = 48.0 / 50.0


@dataclass(frozen=True)
class Exact:
    """A system, and how it is sampled.

    rate: Of the states.
    degree: Of the library.
    """

    states: tuple[str, ...]
    rate: Callable[[Array], list[float]]
    truth: frozenset[str]
    start: tuple[float, ...]
    t: Array
    degree: int = 3

    def record(self, share: float) -> smcpn.Record:
        """All states with noise that is a share of the spread of each."""
        span = (self.t[0], self.t[-1])
        x = solve_ivp(
            lambda _, x: self.rate(x), span, self.start, "DOP853", self.t, rtol=1e-13, atol=1e-13
        ).y.T
        noise = np.random.default_rng(FIRST_SEED).normal(size=x.shape)
        return smcpn.Record(y=x + share * x.std(axis=0) * noise, t=self.t)


def _of_grid(name: str, duration: float) -> Exact:
    system = GRIDS[name]
    t = np.arange(0.0, duration + 0.5 * system.interval, system.interval)
    rate, truth = system.rhs, frozenset(system.truth)
    return Exact(system.states, lambda x: rate(0.0, x), truth, system.start, t, system.degree)


def _terms(**equations: str) -> frozenset[str]:
    """Names of coefficients from terms that commas part."""
    parts = ((state, term.strip()) for state, text in equations.items() for term in text.split(","))
    return frozenset(f"{state}'[{term}]" for state, term in parts)


SYSTEMS: Mapping[str, Exact] = {
    "quintic growth": Exact(
        ("x",), lambda s: [0.1 * s[0] + 0.04 * s[0] ** 3 - 0.001 * s[0] ** 5],
        _terms(x="x, x^3, x^5"), (1.0,), np.linspace(0.0, 10.0, 151), 5,
    ),
    "logistic growth": Exact(
        ("x",), lambda s: [0.8 * s[0] * (1.0 - s[0] / 75.0)],
        _terms(x="x, x^2"), (7.0,), np.linspace(0.0, 10.0, 151),
    ),
    "cooling": Exact(
        ("T",), lambda s: [-0.3 * (s[0] - 20.0)],
        _terms(T="1, T"), (90.0,), np.linspace(0.0, 10.0, 151),
    ),
    "oscillator": Exact(
        ("x", "v"), lambda s: [s[1], -4.0 * s[0] - 0.2 * s[1]],
        _terms(x="v", v="x, v"), (1.0, 0.0), np.linspace(0.0, 15.0, 301),
    ),
    "Duffing": Exact(
        ("x", "v"), lambda s: [s[1], s[0] - 0.1 * s[1] - s[0] ** 3],
        _terms(x="v", v="x, v, x^3"), (0.2, 0.0), np.linspace(0.0, 20.0, 401),
    ),
    "Lotka-Volterra": Exact(
        ("x", "y"), lambda s: [s[0] - 0.1 * s[0] * s[1], -1.5 * s[1] + 0.75 * s[0] * s[1]],
        _terms(x="x, x y", y="y, x y"), (5.0, 5.0), np.linspace(0.0, 10.0, 401),
    ),
    "FitzHugh-Nagumo": Exact(
        ("v", "w"),
        lambda s: [s[0] - s[0] ** 3 / 3.0 - s[1] + 0.5, 0.08 * s[0] + 0.056 - 0.064 * s[1]],
        _terms(v="1, v, w, v^3", w="1, v, w"), (-1.0, 0.0), np.linspace(0.0, 80.0, 801),
    ),
    "Lorenz": _of_grid("Lorenz", 4.0),
    "Roessler": _of_grid("Roessler", 20.0),
    "van der Pol": _of_grid("van der Pol", 8.0),
}  # fmt: skip
"""Ten, of one to three states."""


def _found(task: tuple[str, float]) -> Answer:
    name, share = task
    system = SYSTEMS[name]
    library = smcpn.polynomials(system.degree)
    return answer(system.record(share), library=library, states=system.states)


@study("clean", full=NOISE, quick=QUICK_NOISE)
def clean(shares: tuple[float, ...]) -> Iterator[Row]:
    """Whether the most probable model is exact, by system, and over all."""
    runs = each(_found, [(name, share) for name in SYSTEMS for share in shares])
    exact: list[bool] = []
    for name, system in SYSTEMS.items():
        found = [next(runs) for _ in shares]
        own = [one.best == system.truth for one in found]
        exact += own
        wrong = [
            f"{share:g}: {difference(one.best, system.truth)}"
            for share, one, right in zip(shares, found, own, strict=True)
            if not right
        ]
        seconds = float(np.median([one.seconds for one in found]))
        note = "; ".join([f"{seconds:.1f} s", *wrong])
        yield Row(f"{name} exact, of {len(shares)}", sum(own), note=note)
    note, least = f"{sum(exact)} of {len(exact)}", least_of(TARGET, len(exact), 50)
    yield at_least("exact support", float(np.mean(exact)), least, note)
