"""Ranks of the truth over data sets drawn from the prior: an epidemic, and a forced oscillator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference.solutions import integrated
from benchmarks.rows import Row
from benchmarks.study import study
from benchmarks.trust.known import Known, Outcome, calibrated, default, outcomes

Array = NDArray[np.float64]

DATA_SETS = 300
POPULATION = 500.0
DAYS = np.arange(30.0)
EPIDEMIC: Mapping[str, Any] = {
    "beta": stats.lognorm(0.4, scale=0.6),
    "gamma": stats.lognorm(0.4, scale=0.25),
    "i0": stats.lognorm(0.7, scale=0.004),
    "rho": stats.beta(3, 6),
}
SPACING = 0.2
HELD = 5
"""Samples that the force stays the same for."""
OSCILLATOR: Mapping[str, Any] = {
    "c": stats.lognorm(0.5, scale=0.3),
    "d": stats.lognorm(0.7, scale=0.1),
    "k": stats.lognorm(0.4, scale=2.0),
    "k3": stats.norm(0.5, 0.5),
    "x0": stats.norm(0.0, 0.5),
    "s": stats.lognorm(0.7, scale=0.05),
}
SAMPLES = (60, 180)
LARGEST = 1e3
"""Displacement beyond which a drawn oscillator has no record: it leaves its well for good."""


@smcpn.ode
def epidemic(s, i, *, beta, gamma):
    """Shares of the susceptible and the infected."""
    return -beta * s * i, beta * s * i - gamma * i


def epidemic_drawn(seed: int) -> tuple[dict[str, float], Array]:
    """Parameters, and daily counts of the reported."""
    rng = np.random.default_rng(seed)
    truth = {name: float(one.rvs(random_state=rng)) for name, one in EPIDEMIC.items()}

    def rate(_: int, s: Array, i: Array) -> tuple[Array, Array]:
        infected = truth["beta"] * s * i
        return -infected, infected - truth["gamma"] * i

    begin = [np.ones(1), np.array([truth["i0"]])]
    infected = integrated(rate, begin, DAYS, 0.05)[1][:, 0]
    return truth, rng.poisson(POPULATION * truth["rho"] * infected).astype(float)


def epidemic_problem(seed: int) -> smcpn.Problem:
    """Two rates, the infected of the first day, and the share that is reported."""
    return smcpn.Problem(
        epidemic, smcpn.Record(t=DAYS, y=epidemic_drawn(seed)[1]),
        observe=lambda i, *, rho: np.log(POPULATION * rho * i), noise=smcpn.Poisson(),
        prior=dict(EPIDEMIC), initial={"s": 1.0, "i": "i0"},
    )  # fmt: skip


@smcpn.ode
def forced(x, v, u, *, c, d, k, k3):
    """Oscillator with a cubic spring and damping that grows with the speed."""
    return v, u - c * v - d * v**3 - k * x - k3 * x**3


def forced_drawn(samples: int, seed: int) -> tuple[dict[str, float], Array, Array]:
    """Parameters, force and displacements; drawn again where the motion has no end."""
    rng = np.random.default_rng(seed)
    while True:
        truth = {name: float(one.rvs(random_state=rng)) for name, one in OSCILLATOR.items()}
        u = np.repeat(rng.normal(0.0, 1.2, -(-samples // HELD)), HELD)[:samples]

        def rate(n: int, x: Array, v: Array, p: Mapping[str, float] = truth, u: Array = u) -> Any:
            pull = p["c"] * v + p["d"] * v**3 + p["k"] * x + p["k3"] * x**3
            return v, u[n] - pull

        begin = [np.array([truth["x0"]]), np.zeros(1)]
        times = SPACING * np.arange(float(samples))
        x = integrated(rate, begin, times, 0.02)[0][:, 0]
        if np.isfinite(x).all() and np.abs(x).max() < LARGEST:
            return truth, u, x + truth["s"] * rng.normal(size=samples)


def forced_problem(samples: int, seed: int) -> smcpn.Problem:
    """Four coefficients, the first displacement and the noise."""
    _, u, y = forced_drawn(samples, seed)
    return smcpn.Problem(
        forced, smcpn.Record(u=u, y=y, dt=SPACING, hold="zoh"), observe="x", noise="s",
        prior=dict(OSCILLATOR), initial={"x": "x0", "v": 0.0},
    )  # fmt: skip


def epidemic_truth(seed: int) -> dict[str, float]:
    """Parameters behind the counts of a seed."""
    return epidemic_drawn(seed)[0]


def forced_truth(samples: int, seed: int) -> dict[str, float]:
    """Parameters behind the displacements of a seed."""
    return forced_drawn(samples, seed)[0]


def ranked(
    label: str,
    problem: Callable[[int], smcpn.Problem],
    truth: Callable[[int], Mapping[str, float]],
    data_sets: int,
) -> Iterator[Row]:
    """Yield rows of the coverage by default."""
    found = outcomes(Known(label, problem, truth=truth), default, range(data_sets))
    yield from calibrated(label, found, DATA_SETS)
    yield _warned(label, found)


def _warned(label: str, found: list[Outcome]) -> Row:
    heard = [one.warnings[0][:60] for one in found if one.warnings]
    raised = [one.wrong[0] for one in found if not one.below]
    note = "; ".join((*heard[:2], *raised[:2]))
    return Row(f"{label}: warned", len(heard) / len(found), note=note)


@study("sir", full=DATA_SETS, quick=16)
def sir(data_sets: int) -> Iterator[Row]:
    """Poisson counts of an epidemic that begins with a few."""
    yield from ranked("default", epidemic_problem, epidemic_truth, data_sets)


@study("duffing", full=DATA_SETS, quick=None)
def duffing(data_sets: int) -> Iterator[Row]:
    """A forced oscillator, records of two lengths."""
    for samples in SAMPLES:
        problem, truth = partial(forced_problem, samples), partial(forced_truth, samples)
        yield from ranked(f"{samples} samples", problem, truth, data_sets)
