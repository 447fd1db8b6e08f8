"""A rate that the data do not bound from above: does the posterior end where the solver does.

A fast reaction before a slow one, of which six samples see the slow one alone. The fast rate may be
anything above a hundredth, up to where its prior ends; explicit steps are unstable long before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference import solutions
from benchmarks.reference.answer import Answer
from benchmarks.reference.quadrature import quadrature
from benchmarks.reference.target import Target
from benchmarks.rows import Row
from benchmarks.study import study
from benchmarks.trust.known import Known, Tolerance, counted, default, outcomes

Array = NDArray[np.float64]

TIMES = np.array([0.0, 5.0, 10.0, 20.0, 40.0, 80.0])
NOISE = 0.02
PRIOR: Mapping[str, Any] = {
    "kf": stats.loguniform(1e-3, 1e4),
    "ks": stats.loguniform(1e-3, 1e1),
}


@smcpn.ode
def reactions(a, b, *, kf, ks):
    """What reacts, and what it becomes on the way."""
    return -kf * a, kf * a - ks * b


def samples() -> Array:
    """Of the intermediate, were the first reaction infinitely fast."""
    clean = np.where(TIMES > 0, np.exp(-0.03 * TIMES), 0.0)
    return clean + NOISE * np.random.default_rng(1).normal(size=len(TIMES))


def problem(seed: int = 0) -> smcpn.Problem:
    """Both rates; the data are the same for any seed."""
    return smcpn.Problem(
        reactions, smcpn.Record(t=TIMES, y=samples()), observe="b", noise=NOISE,
        initial={"a": 1.0}, prior=dict(PRIOR),
    )  # fmt: skip


def answer(seed: int = 0) -> Answer:
    """By quadrature of the closed form."""

    def log_likelihood(v: Mapping[str, Array]) -> Array:
        return solutions.gaussian(samples(), solutions.chain(TIMES, v), NOISE)

    return quadrature(
        Target(PRIOR, log_likelihood), {"kf": (-6.0, 6.0, 801), "ks": (-6.0, 6.0, 2401)}
    )


KNOWN = Known(
    "stiff-wall", problem, answer, ends=("kf",), same_data=True,
    tolerance=Tolerance(evidence=0.1, errors=0.0, means=np.inf, ends=0.1),
)  # fmt: skip


@study("stiff-wall", full=20, quick=4)
def stiff_wall(seeds: int) -> Iterator[Row]:
    """Over seeds of the run: ends of the interval of the fast rate, and the evidence."""
    found = outcomes(KNOWN, default, range(seeds))
    yield from counted("default", found, 0.0, 20)
