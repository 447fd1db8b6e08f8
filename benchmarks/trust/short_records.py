"""Nine samples after a bolus: is the bulk of the posterior found, and known to be missed.

Two compartments with log-normal noise, parameters and data drawn from the prior. For one data set
in twelve the posterior's bulk is narrow, with little volume and little noise, and what sequential
Monte Carlo begins with does not have it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference.answer import Answer
from benchmarks.reference.importance import sample
from benchmarks.reference.solutions import log_normal, two_compartments
from benchmarks.reference.target import Target
from benchmarks.rows import Row, at_most
from benchmarks.study import study
from benchmarks.trust.known import WAYS, Known, calibrated, counted, errors_told, exact, outcomes

Array = NDArray[np.float64]

DOSE = 100.0
TIMES = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])
PRIOR: Mapping[str, Any] = {
    "CL": stats.lognorm(0.4, scale=3.0),
    "V1": stats.lognorm(0.4, scale=10.0),
    "Q": stats.lognorm(0.5, scale=4.0),
    "V2": stats.lognorm(0.5, scale=20.0),
    "s": stats.lognorm(0.5, scale=0.1),
}
SILENT = {"default": 0.01, "ibis": 0.02, "Online": 0.02}
"""Largest share of data sets whose answer is wrong without a word, each way."""


@smcpn.ode
def compartments(a1, a2, *, CL, V1, Q, V2):
    """Amounts in two compartments that exchange, of which the first is cleared."""
    return -(CL + Q) / V1 * a1 + Q / V2 * a2, Q / V1 * a1 - Q / V2 * a2


def drawn(seed: int) -> tuple[dict[str, float], Array]:
    """Parameters from the prior and nine concentrations from these."""
    rng = np.random.default_rng(seed)
    truth = {name: float(one.rvs(random_state=rng)) for name, one in PRIOR.items()}
    clean = two_compartments(TIMES, {name: np.array([v]) for name, v in truth.items()}, DOSE)
    return truth, clean[:, 0] * np.exp(truth["s"] * rng.normal(size=len(TIMES)))


def truth(seed: int) -> dict[str, float]:
    """Parameters behind the data of a seed."""
    return drawn(seed)[0]


def problem(seed: int) -> smcpn.Problem:
    """Identify all five parameters; the first sample is hidden."""
    y = drawn(seed)[1]
    y[0] = np.nan
    return smcpn.Problem(
        compartments, smcpn.Record(t=TIMES, y=y), observe=lambda a1, *, V1: a1 / V1,
        noise=smcpn.LogNormal("s"), prior=dict(PRIOR), initial=[DOSE, 0.0],
    )  # fmt: skip


def target(seed: int) -> Target:
    """The same by the closed form."""
    y = drawn(seed)[1][1:]

    def log_likelihood(v: Mapping[str, Array]) -> Array:
        return log_normal(y, two_compartments(TIMES[1:], v, DOSE), v["s"])

    return Target(PRIOR, log_likelihood)


def answer(seed: int) -> Answer:
    """By an importance sample."""
    return sample(target(seed))


PK_SHORT = Known("pk-short", problem, answer, truth)
RANKED = Known("pk-short-ranks", problem, None, truth)


@study("pk-short", full=range(300), quick=(*range(7), 148))
def pk_short(seeds: Sequence[int]) -> Iterator[Row]:
    """Wrong answers over data sets, each way, and the errors of the references."""
    for way, run in WAYS.items():
        found = outcomes(PK_SHORT, run, seeds)
        yield from counted(way, found, SILENT[way], 300)
        yield from errors_told(way, found, 300, judged=False)
    told = [exact(answer, seed) for seed in seeds[:50]]
    yield at_most("references: Pareto k", max(one.pareto_k for one in told), 0.7)
    yield at_most("references: error", max(one.log_evidence_se for one in told), 0.02)


@study("pk-short-ranks")
def pk_short_ranks(quick: bool) -> Iterator[Row]:
    """Whether the truth is as often in each part of the posterior as it should be."""
    ways = ("default",) if quick else tuple(WAYS)
    for way in ways:
        found = outcomes(RANKED, WAYS[way], range(20 if quick else 1000))
        yield from calibrated(way, found, 1000)
