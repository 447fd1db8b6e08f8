"""A stream's update without rejuvenation, and the share of it that is the compiled call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

import smcpn
from benchmarks.clock import seconds
from benchmarks.rows import Row, at_least
from benchmarks.study import study
from smcpn.codegen.stream_step import Update
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


@study("update", full=(4000, 7), quick=(800, 1))
def update(size: tuple[int, int]) -> Iterator[Row]:
    """Median microseconds of an update, and what of it is the compiled call."""
    samples, rounds = size
    taken, inside = np.median([timed_updates(samples) for _ in range(rounds)], axis=0)
    yield Row("us", taken)
    yield at_least("share of the compiled call", inside / taken, 0.5)


def timed_updates(samples: int) -> tuple[float, float]:
    """Medians over the later half of a stream, microseconds: of an update, of its compiled call."""
    inside: list[float] = []
    prepare = Update.__init__

    def prepared(self: Update, *arguments: Any) -> None:
        prepare(self, *arguments)
        call = self._code.function("update", 4, brief=True)

        def timed(*numbers: int) -> None:
            inside.append(1e6 * seconds(lambda: call(*numbers)))

        self._call = timed

    taken, made = [], 0
    with mock.patch.object(Update, "__init__", prepared):
        live, record = stream(samples)
        for k, (u, y) in enumerate(zip(record.u, record.y, strict=True)):
            begin = time.perf_counter()
            state = live.update(u, y)
            spent = time.perf_counter() - begin
            if state.rejuvenations == made and k >= samples // 2:
                taken.append(1e6 * spent)
            made = state.rejuvenations
    return float(np.median(taken)), float(np.median(inside[len(inside) // 2 :]))
