"""Lynx and hare, a pendulum whose velocity is hidden, and a Duffing oscillator that is driven."""

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
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from smcpn.datasets.inventory import require_file

Array = NDArray[np.float64]

LOTKA_VOLTERRA = ("hare'[hare]", "hare'[hare lynx]", "lynx'[lynx]", "lynx'[hare lynx]")
SEEDS, QUICK_SEEDS = 20, 2
NOISE = 0.05
"""Standard deviation of the noise, as a share of that of the position."""


@study("lynx-hare")
def lynx_hare(quick: bool) -> Iterator[Row]:
    """Pelts in thousands of the years 1900 to 1920, all monomials up to degree 2.

    Errors of counts are in proportion to them. Additive noise is there for comparison.
    """
    path = require_file("lynx_hare", "lynx_hare.csv", "as columns year, hare and lynx")
    data = np.loadtxt(path, delimiter=",", skiprows=1)
    record = smcpn.Record(y=data[:, 1:], t=data[:, 0] - data[0, 0])
    for noise in ("relative", "unknown"):
        found = answer(record, library=smcpn.polynomials(2), states=("hare", "lynx"), noise=noise)
        name = {"relative": "relative noise", "unknown": "additive noise"}[noise]
        for place, (terms, share) in enumerate(
            zip(found.models[:3], found.probabilities, strict=False), start=1
        ):
            yield Row(f"{name}: probability of model {place}", share, note=", ".join(sorted(terms)))
        rank = found.rank(LOTKA_VOLTERRA)
        note = "not found" if rank is None else f"probability {found.probabilities[rank - 1]:.3f}"
        place = float("inf") if rank is None else rank
        if noise == "relative":
            yield at_most(f"{name}: place of Lotka-Volterra", place, 3, note)
        else:
            yield Row(f"{name}: place of Lotka-Volterra", place, note=note)
        yield at_most(f"{name}: s", found.seconds, 20.0)


@dataclass(frozen=True)
class Hidden:
    """An oscillator of which the position alone is measured.

    force: v' of time and states.
    library: Of no arguments.
    input: Of time.
    """

    force: Callable[[float, Array], float]
    truth: frozenset[str]
    library: Callable[[], smcpn.Library]
    start: tuple[float, float]
    t: Array
    input: Callable[[Array], Array] | None = None

    def record(self, seed: int) -> smcpn.Record:
        """Position with noise."""
        found = solve_ivp(
            lambda t, s: [s[1], self.force(t, s)],
            (0.0, self.t[-1]),
            self.start,
            t_eval=self.t,
            rtol=1e-10,
            atol=1e-12,
        )
        x = found.y[0]
        noise = np.random.default_rng(FIRST_SEED + seed).normal(size=len(x))
        return smcpn.Record(u=self.input, y=x + NOISE * x.std() * noise, t=self.t)


def _drive(t: Array) -> Array:
    return 0.8 * np.cos(1.1 * t) + 0.3 * np.sin(2.7 * t)


HIDDEN: Mapping[str, Hidden] = {
    "pendulum": Hidden(
        force=lambda t, s: -0.2 * s[1] - 8.91 * np.sin(s[0]),
        truth=frozenset({"v'[v]", "v'[sin(x)]"}),
        library=lambda: smcpn.polynomials(3) + smcpn.terms(np.sin),
        start=(-1.193, -3.876),
        t=np.linspace(0.0, 10.0, 501),
    ),
    "Duffing": Hidden(
        force=lambda t, s: float(_drive(np.asarray(t))) - 0.3 * s[1] + s[0] - s[0] ** 3,
        truth=frozenset({"v'[u]", "v'[v]", "v'[x]", "v'[x^3]"}),
        library=lambda: smcpn.polynomials(3),
        start=(1.0, 0.0),
        t=np.linspace(0.0, 20.0, 401),
        input=_drive,
    ),
}
"""That of the paper's pendulum, and a double well that jumps under two tones."""


def _found(task: tuple[str, int]) -> Answer:
    system = HIDDEN[task[0]]
    return answer(
        system.record(task[1]),
        library=system.library(),
        states=("x", "v"),
        known={"x": "v"},
        observe=["x"],
    )


def _hidden(name: str, quick: bool) -> Iterator[Row]:
    truth = HIDDEN[name].truth
    answers = list(each(_found, [(name, k) for k in range(QUICK_SEEDS if quick else SEEDS)]))
    exact = float(np.mean([one.best == truth for one in answers]))
    note = f"{len(answers)} seeds, position only, {100 * NOISE:g} % noise{wrong(answers, truth)}"
    yield at_least("exact support", exact, 1.0, note)
    yield Row("s", float(np.median([one.seconds for one in answers])))


@study("hidden-pendulum")
def pendulum(quick: bool) -> Iterator[Row]:
    """Known is x' = v, hidden is v: 12 terms: monomials up to degree 3, and sines."""
    return _hidden("pendulum", quick)


@study("forced-duffing")
def duffing(quick: bool) -> Iterator[Row]:
    """The same with an input: 20 terms of position, velocity and input."""
    return _hidden("Duffing", quick)
