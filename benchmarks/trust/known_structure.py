"""Known structures whose states are all measured: seconds of `laplace`, and whether it is right."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.papers.fenrir_settings import fitzhugh_nagumo, trajectory
from benchmarks.rows import Row, at_least, at_most, reached
from benchmarks.study import study
from smcpn import ODE, Problem
from smcpn.datasets.models import lotka_volterra

SEEDS, QUICK_SEEDS, FIRST_SEED = 40, 1, 7000
SECONDS = 1.0
SAME = 0.05
"""Nats below the highest end known that count as the same."""
LONG = 20
"""Draws from the prior that the long search begins at, beside the truth."""
RATE: Any = stats.lognorm(1.0)
SLOPE: Any = stats.norm(0.0, 1.0)


@smcpn.ode
def terms_of_fitzhugh_nagumo(V, R, *, p1, p2, p3, p4, p5, p6):
    """Linear in the coefficient of every term."""
    return p1 * V + p2 * V**3 + p3 * R, p4 + p5 * V + p6 * R


@dataclass(frozen=True)
class Structure:
    """An equation, the values behind the data, and the prior.

    begin: State at the first sample.
    prior: Of every parameter.
    initial: Priors of the states at the first sample, or their values.
    samples: Over 20 units of time.
    """

    ode: ODE
    truth: Mapping[str, float]
    begin: tuple[float, float]
    prior: Any
    initial: Sequence[Any]
    noise: float
    samples: int

    def problem(self, seed: int) -> Problem:
        """Both states are measured with noise that is not known."""
        t, values = np.linspace(0.0, 20.0, self.samples), list(self.truth.values())
        clean = trajectory(self.ode, values, self.begin, t)
        y = clean + self.noise * np.random.default_rng(FIRST_SEED + seed).normal(size=clean.shape)
        sigma: Any = stats.lognorm(1.0, scale=0.1)
        prior = {name: self.prior for name in self.truth} | {"sigma": sigma}  # noqa: C420
        return Problem(
            self.ode, smcpn.Record(t=t, y=y), observe=list(self.ode.states), noise="sigma",
            prior=prior, initial=list(self.initial),
        )  # fmt: skip


def _normal(*means: float) -> list[Any]:
    return [stats.norm(mean, 1.0) for mean in means]


_SPIKES = {"a": 0.2, "b": 0.2, "c": 3.0}
_TERMS = {"p1": 3.0, "p2": -1.0, "p3": 3.0, "p4": 0.2 / 3, "p5": -1 / 3, "p6": -0.2 / 3}
_CYCLE = {"birth": 1.0, "predation": 0.4, "growth": 0.1, "death": 0.5}
STRUCTURES: Mapping[str, Structure] = {
    "Lotka-Volterra": Structure(
        lotka_volterra, _CYCLE, (5.0, 3.0), RATE, _normal(5.0, 3.0), 0.1, 101
    ),
    "FitzHugh-Nagumo": Structure(
        fitzhugh_nagumo, _SPIKES, (-1.0, 1.0), RATE, _normal(-1.0, 1.0), 0.05, 201
    ),
    "FitzHugh-Nagumo, all terms": Structure(
        terms_of_fitzhugh_nagumo, _TERMS, (-1.0, 1.0), SLOPE, (-1.0, 1.0), 0.05, 201
    ),
}


def _outcome(name: str, seed: int) -> tuple[float, float, bool]:
    """Processor seconds of `laplace`, nats below the long search, and whether it is warned of."""
    structure = STRUCTURES[name]
    problem = structure.problem(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        found = smcpn.laplace(problem, seed=seed, threads=1).maximum
        seconds = time.process_time() - begin
        starts: tuple[Any, ...] = (structure.truth, LONG)
        best = max(
            smcpn.maximise(
                problem, solver=found.solver, starts=one, seed=seed, threads=1
            ).log_density
            for one in starts
        )
    return seconds, best - found.log_density, bool(found.warnings)


@study("known-structure", full=SEEDS, quick=QUICK_SEEDS)
def known_structure(seeds: int) -> Iterator[Row]:
    """Compiled before; the long search is by the same steps."""
    for name in STRUCTURES:
        run: Callable[[int], tuple[float, float, bool]] = partial(_outcome, name)
        smcpn.laplace(STRUCTURES[name].problem(SEEDS), seed=SEEDS, threads=1)
        found = np.array(list(each(run, range(seeds))))
        seconds, below, warned = found.T
        note = f"most {seconds.max():.2g} s"
        row = at_most(f"{name}: processor seconds", float(np.median(seconds)), SECONDS, note)
        yield reached(row, 2.0) if seeds < SEEDS else row
        note = f"of {len(found)}, at most {below.max():.2g} nats below, {int(warned.sum())} warned"
        yield at_least(f"{name}: at the maximum", int(np.sum(below < SAME)), len(found), note)
