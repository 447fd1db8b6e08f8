"""Records that no equation of the library explains: whether a law is printed without a doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

import smcpn
from benchmarks.discovery.systems import FIRST_SEED
from benchmarks.executors import each
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from smcpn.errors import InputError

Array = NDArray[np.float64]

RECORDS, QUICK_RECORDS = 40, 1
SILENT = 1
"""Laws, at most, with a probability above a half and no warning."""
CORRELATIONS = (0.3, 0.95)
"""Of successive errors, drawn from this range."""


def _constant(rng: np.random.Generator) -> smcpn.Record:
    y = rng.normal(size=2) + rng.uniform(0.05, 0.5, size=2) * rng.normal(size=(201, 2))
    return smcpn.Record(y=y, dt=0.05)


def _autocorrelated(rng: np.random.Generator) -> smcpn.Record:
    """Two autoregressions of first order about constants."""
    by, noise = rng.uniform(*CORRELATIONS, size=2), rng.normal(size=(201, 2))
    for k in range(1, len(noise)):
        noise[k] = by * noise[k - 1] + np.sqrt(1.0 - by**2) * noise[k]
    return smcpn.Record(y=rng.normal(size=2) + rng.uniform(0.05, 0.5, size=2) * noise, dt=0.05)


def _solved(
    rate: Callable[[float, Array], list[float]], start: list[float], t: Array, noise: Array
) -> smcpn.Record:
    """States of an equation, with noise (T, n) as a share of the spread of each."""
    x = solve_ivp(rate, (t[0], t[-1]), start, t_eval=t, rtol=1e-8, atol=1e-10).y.T
    return smcpn.Record(y=x + noise * x.std(axis=0), t=t)


def _monod(rng: np.random.Generator, flow: float = 0.0) -> smcpn.Record:
    """Growth of cells that saturates with the substrate, in a batch or under a flow, 1 % noise."""
    fastest, half, given = rng.uniform(0.3, 0.6), rng.uniform(0.1, 0.4), rng.uniform(0.4, 0.6)

    def rate(_: float, x: Array) -> list[float]:
        growth = fastest * x[0] / (half + x[0]) * x[1]
        return [flow * (2.0 - x[0]) - growth / given, growth - flow * x[1]]

    noise = 0.01 * rng.normal(size=(201, 2))
    begin = [2.0 if flow == 0.0 else rng.uniform(0.5, 1.0), rng.uniform(0.05, 0.2)]
    return _solved(rate, begin, np.linspace(0.0, 12.0, 201), noise)


def _chemostat(rng: np.random.Generator) -> smcpn.Record:
    return _monod(rng, flow=rng.uniform(0.05, 0.2))


def _coulomb(rng: np.random.Generator) -> smcpn.Record:
    """Mass on a spring with dry friction, let go, 2 % noise.

    From one turn to the next it is a harmonic oscillation about the place where friction holds the
    spring; it stays where it turns nearer than that.
    """
    frequency, held = rng.uniform(1.7, 2.5), rng.uniform(0.02, 0.08)
    t, turn, begin = np.linspace(0.0, 12.0, 301), rng.uniform(1.0, 1.5), 0.0
    x = np.zeros((len(t), 2))
    while begin <= t[-1] and abs(turn) > held:
        later, middle = t >= begin, np.copysign(held, turn)
        phase = frequency * (t[later] - begin)
        x[later, 0] = middle + (turn - middle) * np.cos(phase)
        x[later, 1] = -frequency * (turn - middle) * np.sin(phase)
        turn, begin = 2.0 * middle - turn, begin + np.pi / frequency
        x[t >= begin] = turn, 0.0
    return smcpn.Record(y=x + 0.02 * x.std(axis=0) * rng.normal(size=x.shape), t=t)


NO_SIGNAL: dict[str, Callable[[np.random.Generator], smcpn.Record]] = {
    "constant": _constant,
    "autocorrelated": _autocorrelated,
}
WRONG_LIBRARY: dict[str, Callable[[np.random.Generator], smcpn.Record]] = {
    "Monod": _monod,
    "chemostat": _chemostat,
    "Coulomb": _coulomb,
}


@dataclass(frozen=True)
class Said:
    """Probability of the best model, 0 where there is none, and whether there is a warning."""

    probability: float
    doubted: bool


def record(name: str, seed: int) -> smcpn.Record:
    """One of the records of a name."""
    return (NO_SIGNAL | WRONG_LIBRARY)[name](np.random.default_rng(FIRST_SEED + seed))


def said(task: tuple[str, int]) -> Said:
    """What is said of a record with all monomials up to degree 3."""
    try:
        found = smcpn.discover(record(*task), library=smcpn.polynomials(3), seed=1)
    except InputError:
        return Said(0.0, True)
    return Said(found.models[0].probability, bool(found.warnings))


def _silent(names: Mapping[str, object], quick: bool) -> Iterator[Row]:
    count = QUICK_RECORDS if quick else RECORDS
    answers = each(said, [(name, seed) for name in names for seed in range(count)])
    for name in names:
        own = [next(answers) for _ in range(count)]
        silent = sum(one.probability > 0.5 and not one.doubted for one in own)
        warned = sum(one.doubted for one in own)
        sure = sum(one.probability > 0.5 for one in own)
        note = f"of {count}; {sure} with probability above .5, {warned} with a warning"
        yield at_most(f"{name}: laws without a doubt", silent, SILENT, note)


@study("no-signal")
def no_signal(quick: bool) -> Iterator[Row]:
    """Constants with white or autocorrelated noise."""
    return _silent(NO_SIGNAL, quick)


@study("wrong-library")
def wrong_library(quick: bool) -> Iterator[Row]:
    """Monod's growth and dry friction, of which no polynomial of degree 3 is."""
    return _silent(WRONG_LIBRARY, quick)
