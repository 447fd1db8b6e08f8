"""Seconds of `identify` of a record, the first time and then: a script for any version.

It prints processor seconds of a first identification in this process, and of the median of more.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy import stats

import smcpn

SEEDS = 9
TIMES = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])


@smcpn.ode
def compartments(a1, a2, *, CL, V1, Q, V2):
    """Amounts in two compartments that exchange, of which the first is cleared."""
    return -(CL + Q) / V1 * a1 + Q / V2 * a2, Q / V1 * a1 - Q / V2 * a2


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Linear oscillator of unit mass."""
    return v, u - c * v - k * x


def nine() -> smcpn.Problem:
    """Concentrations after a bolus."""
    rng = np.random.default_rng(0)
    y = (7.0 * np.exp(-0.9 * TIMES) + 3.0 * np.exp(-0.08 * TIMES)) * np.exp(
        0.1 * rng.normal(size=9)
    )
    y[0] = np.nan
    prior: dict[str, Any] = {
        "CL": stats.lognorm(0.4, scale=3.0), "V1": stats.lognorm(0.4, scale=10.0),
        "Q": stats.lognorm(0.5, scale=4.0), "V2": stats.lognorm(0.5, scale=20.0),
        "s": stats.lognorm(0.5, scale=0.1),
    }  # fmt: skip
    return smcpn.Problem(
        compartments, smcpn.Record(t=TIMES, y=y), observe=lambda a1, *, V1: a1 / V1,
        noise=smcpn.LogNormal("s"), prior=prior, initial=[100.0, 0.0],
    )  # fmt: skip


def long(samples: int) -> smcpn.Problem:
    """A forced oscillator of so many samples."""
    rng = np.random.default_rng(0)
    u = np.sin(0.02 * np.arange(samples) ** 1.2)
    silent = smcpn.Record(u=u, dt=0.1)
    y = smcpn.simulate(oscillator, silent, {"c": 0.3, "k": 2.0}, observe="x", steps=8)
    y = y + 0.02 * rng.normal(size=y.shape)
    prior: dict[str, Any] = {"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)}
    prior["s"] = stats.lognorm(1.0, scale=0.03)
    record = smcpn.Record(u=u, y=y, dt=0.1)
    return smcpn.Problem(oscillator, record, observe="x", noise="s", prior=prior)


def seconds(samples: int) -> tuple[float, float]:
    """Of the first identification and of a later one."""
    problem, taken = nine() if samples == len(TIMES) else long(samples), []
    for seed in range(SEEDS):
        begin = time.process_time()
        smcpn.identify(problem, seed=seed, threads=1, progress=False)
        taken.append(time.process_time() - begin)
    return taken[0], float(np.median(taken[1:]))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(seconds(int(sys.argv[1]))))
