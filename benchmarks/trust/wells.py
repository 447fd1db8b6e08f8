"""A state with process noise that hops between two wells, by default and by particle filters.

The exact answer is that of a grid filter at the number of steps of the run, so that the error of
the steps is no excuse and no reproach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference import grid_filter
from benchmarks.reference.answer import Answer
from benchmarks.reference.quadrature import quadrature
from benchmarks.reference.target import Target
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from benchmarks.trust.known import (
    Known,
    Outcome,
    Run,
    Tolerance,
    counted,
    default,
    errors_told,
    outcomes,
)

Array = NDArray[np.float64]

SAMPLES, FINE = 100, 500
NOISE = 0.4
TRUTH = {"a": 1.0, "s": 0.75}
PRIOR: Mapping[str, Any] = {"a": stats.lognorm(0.5), "s": stats.lognorm(0.5, scale=0.7)}
INITIAL: Any = stats.norm(0, 1)
NODES = np.linspace(-3.5, 3.5, 221)
AXES = {"a": (-2.5, 3.9, 25), "s": (-1.5, 1.9, 25)}
"""Prior standard deviations, and nodes: the posterior has vanished at the ends."""
BIAS = 0.03
"""Of the log-evidence in the mean over seeds."""


@smcpn.ode
def well(x, *, a):
    """Overdamped motion in two wells at -1 and 1."""
    return a * (x - x**3)


@cache
def samples() -> Array:
    """A path by small Euler-Maruyama steps, and noise."""
    rng, x, h = np.random.default_rng(11), 1.0, 1.0 / FINE
    path = [x]
    for k in range((SAMPLES - 1) * FINE):
        drift = TRUTH["a"] * (x - x**3)
        x += drift * h + TRUTH["s"] * np.sqrt(h) * rng.normal()
        if (k + 1) % FINE == 0:
            path.append(x)
    return np.array(path) + NOISE * rng.normal(size=SAMPLES)


def problem(seed: int = 0) -> smcpn.Problem:
    """Depth of the wells and size of the process noise; the data are the same for any seed."""
    return smcpn.Problem(
        well, smcpn.Record(y=samples(), dt=1.0), observe="x", noise=NOISE,
        initial={"x": INITIAL}, prior=dict(PRIOR), process_noise={"x": "s"},
    )  # fmt: skip


def log_likelihood(values: Mapping[str, Array], steps: int) -> Array:
    """By grid filters, one for each pair of values."""

    def one(a: float, s: float) -> float:
        return grid_filter.log_likelihood(
            lambda x: a * (x - x**3), s, NOISE, INITIAL.pdf(NODES), samples(), 1.0, steps, NODES
        )

    return np.array([one(a, s) for a, s in zip(values["a"], values["s"], strict=True)])


def answer(seed: int, steps: int) -> Answer:
    """By quadrature over grid filters of a number of steps."""
    return quadrature(Target(PRIOR, partial(log_likelihood, steps=steps)), AXES)


def steps_of(found: smcpn.Posterior) -> int:
    """Of a run, to a sample."""
    return int(found.solver.steps)


KNOWN = Known(
    "double-well", problem, answer, detail=steps_of, same_data=True,
    tolerance=Tolerance(evidence=0.1, means=0.15),
)  # fmt: skip
"""A mean of a single run scatters by some .05 posterior sd; that over seeds may be off by .1."""


def guided(found: smcpn.Problem, seed: int) -> smcpn.Posterior:
    """By SMC^2 with filters that look ahead."""
    return default(found, seed, likelihood="particle", particles=1000)


SEEDS = 20
WAYS: Mapping[str, Run] = {"default": default, "particle": guided}


@study("double-well", full=(tuple(WAYS), SEEDS), quick=(("default",), 2))
def double_well(size: tuple[Sequence[str], int]) -> Iterator[Row]:
    """Both likelihoods, over seeds of the run; filters that look ahead take minutes."""
    ways, seeds = size
    for way in ways:
        found = outcomes(KNOWN, WAYS[way], range(seeds))
        yield from counted(way, found, 0.0, SEEDS)
        yield from _errors(way, found)


def _errors(way: str, found: list[Outcome]) -> Iterator[Row]:
    """Yield rows of the runs that do not say they are wrong."""
    told = [one for one in found if not (one.wrong and one.warnings)]
    if told:
        yield from errors_told(way, told, SEEDS, bias=BIAS)
        a = np.array([one.means["a"] for one in told])
        yield at_most(f"{way}: a in the mean, sd", abs(float(a.mean())), 0.1)
