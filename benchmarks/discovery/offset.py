"""States far from zero, as in kelvin, bar or counts: the same laws about an offset.

Each law holds about the offset, so that its equations have the terms that the offset brings, and
these cancel: of 1000 +- 1 all monomials are nearly the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import smcpn
from benchmarks.discovery.answers import Answer, answer, wrong
from benchmarks.discovery.systems import FIRST_SEED
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, least_of
from benchmarks.study import study

Array = NDArray[np.float64]

OFFSETS = (0.0, 3.0, 10.0, 30.0, 300.0, 1000.0)
QUICK_OFFSETS = (0.0, 30.0, 1000.0)
SEEDS, QUICK_SEEDS = 5, 1
TARGET = 85.0 / 90.0


@dataclass(frozen=True)
class Law:
    """An equation about an offset that is added to all of its states.

    rate: Of the states without the offset.
    at_zero, elsewhere: Terms with no offset, and those with any.
    start: Without the offset.
    noise: Standard deviation.
    """

    states: tuple[str, ...]
    rate: Callable[[Array], list[float]]
    at_zero: frozenset[str]
    elsewhere: frozenset[str]
    start: tuple[float, ...]
    t: Array
    noise: float

    def truth(self, offset: float) -> frozenset[str]:
        """Names of the coefficients that are not zero."""
        return self.elsewhere if offset else self.at_zero

    def record(self, offset: float, seed: int) -> smcpn.Record:
        """All states with noise."""
        span = (self.t[0], self.t[-1])
        rhs = lambda _, x: self.rate(x)  # noqa: E731
        x = solve_ivp(rhs, span, self.start, t_eval=self.t, rtol=1e-10, atol=1e-12).y.T
        noise = np.random.default_rng(FIRST_SEED + seed).normal(size=x.shape)
        return smcpn.Record(y=offset + x + self.noise * noise, t=self.t)


LAWS: Mapping[str, Law] = {
    "oscillator": Law(
        states=("x", "v"),
        rate=lambda s: [s[1], -4.0 * s[0] - 0.2 * s[1]],
        at_zero=frozenset({"x'[v]", "v'[x]", "v'[v]"}),
        elsewhere=frozenset({"x'[1]", "x'[v]", "v'[1]", "v'[x]", "v'[v]"}),
        start=(1.0, 0.0),
        t=np.linspace(0.0, 15.0, 301),
        noise=0.05,
    ),
    "cooling": Law(
        states=("T",),
        rate=lambda s: [-0.3 * s[0]],
        at_zero=frozenset({"T'[T]"}),
        elsewhere=frozenset({"T'[1]", "T'[T]"}),
        start=(5.0,),
        t=np.linspace(0.0, 12.0, 201),
        noise=0.05,
    ),
    "Lotka-Volterra": Law(
        states=("x", "y"),
        rate=lambda s: [s[0] - 0.5 * s[0] * s[1], 0.4 * s[0] * s[1] - 0.8 * s[1]],
        at_zero=frozenset({"x'[x]", "x'[x y]", "y'[y]", "y'[x y]"}),
        elsewhere=frozenset(f"{s}'[{term}]" for s in "xy" for term in ("1", "x", "y", "x y")),
        start=(4.0, 1.0),
        t=np.linspace(0.0, 20.0, 401),
        noise=0.05,
    ),
}  # fmt: skip
"""A damped oscillator, a body that cools, and predators with prey."""


def _found(task: tuple[str, float, int]) -> Answer:
    name, offset, seed = task
    law = LAWS[name]
    return answer(law.record(offset, seed), library=smcpn.polynomials(3), states=law.states)


@study("offset", full=(OFFSETS, SEEDS), quick=(QUICK_OFFSETS, QUICK_SEEDS))
def offset(size: tuple[tuple[float, ...], int]) -> Iterator[Row]:
    """How often the most probable model is exact, by law and offset, and over all."""
    offsets, seeds = size
    cells = [(name, value) for name in LAWS for value in offsets]
    runs = each(_found, [(*cell, seed) for cell in cells for seed in range(seeds)])
    exact: list[bool] = []
    for name, value in cells:
        truth = LAWS[name].truth(value)
        found = [next(runs) for _ in range(seeds)]
        own = [one.best == truth for one in found]
        exact += own
        included = sum(one.included == truth for one in found)
        seconds = float(np.median([one.seconds for one in found]))
        note = f"by inclusion > .5: {included}; {seconds:.1f} s{wrong(found, truth)}"
        yield Row(f"{name} at {value:g} exact, of {seeds}", sum(own), note=note)
    note, least = f"{sum(exact)} of {len(exact)}", least_of(TARGET, len(exact), 90)
    yield at_least("exact support", float(np.mean(exact)), least, note)
