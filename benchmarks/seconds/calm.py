"""Median microseconds of a stream's updates without rejuvenation: a script for any version."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from smcpn.datasets.models import duffing

RATE, STEPS, PARTICLES = 610.35, 8, 1000
TRUE = {"m": 5e-6, "c": 2e-4, "k": 1.0, "k3": 3.8}
NOISE = 1e-3


def stream(samples: int) -> tuple[smcpn.Online, smcpn.Record]:
    """Return a stream of a Duffing oscillator, and the record that it is to be given."""
    rng = np.random.default_rng(0)
    t = np.arange(samples) / RATE
    u = 0.05 * np.sin(2 * np.pi * (20 * t + 30 * t**2)) + 0.02 * rng.standard_normal(samples)
    silent = smcpn.Record(u=u, dt=1 / RATE, hold="foh")
    x = smcpn.simulate(duffing, silent, TRUE, observe="x", steps=16)[:, 0]
    y = x + NOISE * rng.standard_normal(samples)
    record = smcpn.Record(u=u, y=y, dt=1 / RATE, hold="foh")
    prior: dict[str, Any] = {name: stats.lognorm(0.1, scale=value) for name, value in TRUE.items()}
    problem = smcpn.Problem(duffing, record, observe="x", noise=NOISE, prior=prior)
    solver = smcpn.EKF0(steps=STEPS)
    return smcpn.Online(problem, solver=solver, particles=PARTICLES, seed=1, threads=1), record


def median(samples: int) -> float:
    """Return the median over the later half of a stream, microseconds."""
    live, record = stream(samples)
    taken, made = [], 0
    for k, (u, y) in enumerate(zip(record.u, record.y, strict=True)):
        begin = time.perf_counter()
        state = live.update(u, y)
        seconds = time.perf_counter() - begin
        if state.rejuvenations == made and k >= samples // 2:
            taken.append(1e6 * seconds)
        made = state.rejuvenations
    return float(np.median(taken))


if __name__ == "__main__":
    print(median(int(sys.argv[1])))
