"""A rate that the data do not bound from above: the problem of `python -m benchmarks.stiff wall`.

A fast reaction before a slow one, of which six samples see the slow one alone. The fast rate may be
anything above a hundredth, up to where its prior ends; explicit steps are unstable long before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.reference import solutions
from benchmarks.reference.answer import Answer
from benchmarks.reference.quadrature import quadrature
from benchmarks.reference.target import Target

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
