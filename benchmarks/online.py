"""Identification while the data come: latency, exactness, a jump, memory.

The Silverbox is replayed at its own rate, so the full run takes two minutes at least. Latencies are
those of this machine as it is, other processes included: `load` tells how busy it was.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from benchmarks import online_soak
from benchmarks.memory import resident_memory
from benchmarks.rows import Row, at_least, at_most, equal, told, unjudged
from benchmarks.study import command, study
from smcpn import EKF0, RK4, Online, Posterior, Problem, Record, identify, simulate
from smcpn.cli.cases.silverbox import DUFFING_PRIOR, silverbox_case
from smcpn.datasets.models import duffing
from smcpn.model.ode import ode
from smcpn.online import State

RATE = 610.35
PERIOD = 1.0 / RATE
BUDGET = "1.5 ms"
PARTICLES = 1000
SOLVER = EKF0(order=3, steps=2)
DUFFING = {"m": 5e-6, "c": 2e-4, "k": 1.0, "k3": 3.8}
JUMP = 10.0
"""Seconds after which the stiffness jumps."""
STUDIES = [online_soak.soak]
LONG = 300_000
"""Samples over which the growth of the memory can be told."""

Array = NDArray[np.float64]


@cache
def silverbox(samples: int) -> Problem:
    """The benchmark's own training record, from its beginning; linear between samples."""
    problem = silverbox_case("foh", split="official").problem
    return problem.with_records([problem.records[0][:samples]])


@cache
def batch(samples: int, seed: int) -> Posterior:
    """The posterior of the same samples by `ibis`."""
    return identify(
        silverbox(samples),
        solver=SOLVER,
        method="ibis",
        particles=PARTICLES,
        seed=seed,
        progress=False,
    )


@study("real_time", full=20_000, quick=800)
def real_time(samples: int) -> Iterator[Row]:
    """Replay at the real rate, an update for each sample when it is due."""
    problem = silverbox(samples)
    record, live = problem.records[0], _warm(problem, budget=BUDGET)
    latencies, degraded, lags = np.empty(samples), 0, np.empty(samples)
    begin = time.perf_counter()
    for k in range(samples):
        _wait_until(begin + k * PERIOD)
        state = live.update(record.u[k], record.y[k])
        latencies[k], lags[k] = state.latency, state.lag
        degraded += state.degraded
    end = live.finish()
    # In the quick form `replay` has the same batch.
    reference = [batch(samples, seed) for seed in ((1, 2) if samples >= 20_000 else (1,))]
    errors = _standardised(end, reference)
    within = float(np.mean(latencies <= PERIOD))
    late = f"{np.sum(latencies > PERIOD)} late; load {os.getloadavg()[0]:.2f}"
    row = at_least("share of updates within the period", within, 0.999, late)
    yield row if samples >= 20_000 else unjudged(row, "so few samples hold one pause of others")
    yield at_most("samples lost", samples - end.sample, 0)
    yield at_most("largest error of a mean in Monte Carlo se", max(errors.values()), 4.0)
    figures = {
        "latency, us,": _percentiles(1e6 * latencies),
        "share while rejuvenating": float(np.mean(lags > 0)),
        "degraded": int(degraded),
        "rejuvenations": end.rejuvenations,
    }
    yield from told(figures)


@study("calm_update", full=8000, quick=None)
def calm_update(samples: int) -> Iterator[Row]:
    """Updates that call for no rejuvenation, as fast as they go."""
    problem = silverbox(samples)
    record = problem.records[0]
    for name, solver in (("ekf0", SOLVER), ("rk4", RK4(steps=2))):
        live = _warm(problem, solver=solver)
        taken, made = [], 0
        for u, y in zip(record.u, record.y, strict=True):
            state = live.update(u, y)
            if state.rejuvenations == made:
                taken.append(1e6 * state.latency)
            made = state.rejuvenations
        found = _percentiles(np.array(taken))
        note = ", ".join(f"{name} {value:.0f}" for name, value in found.items())
        yield at_most(f"{name}, median us", found["median"], 60.0, note)


@study("replay", full=20_000, quick=800)
def replay(samples: int) -> Iterator[Row]:
    """All samples as fast as possible, no budget; and the bytes of `ibis`."""
    problem = silverbox(samples)
    record, live = problem.records[0], _warm(problem)
    begin = time.perf_counter()
    for u, y in zip(record.u, record.y, strict=True):
        live.update(u, y)
    ratio = samples * PERIOD / (time.perf_counter() - begin)
    reference, found = batch(samples, 1), live.posterior()
    names = ("theta", "log_weights", "log_likelihood", "ancestor", "ess_path", "log_evidence_path")
    same = all(np.array_equal(getattr(found, n), getattr(reference, n)) for n in names)
    speed = at_least("times real time", ratio, 10.0)
    few = "so few samples are mostly rejuvenations"
    yield speed if samples >= 20_000 else unjudged(speed, few)
    yield equal("same bytes as identify", same, True)
    yield Row("identify, times real time", samples * PERIOD / reference.timing.wall)


@ode
def stiffening(x, v, u, t, *, m, c, k, k3):
    """Duffing oscillator whose linear stiffness grows by 20 % at `JUMP`."""
    stiffness = k * (1.0 + 0.2 * np.heaviside(t - JUMP, 1.0))
    return v, (u - c * v - stiffness * x - k3 * x**3) / m


JUDGED = int(20 * RATE)
"""Samples of the full form."""


@study("jump", full=JUDGED, quick=int(16 * RATE))
def jump(samples: int) -> Iterator[Row]:
    """A stiffness that jumps by 20 %, window of 5 s: at once, and at the real rate."""
    u = _excitation(samples)
    silent = Record(u=u, dt=PERIOD, hold="foh")
    clean = simulate(stiffening, silent, DUFFING, observe="x", steps=16)[:, 0]
    y = clean + 1e-3 * np.random.default_rng(1).standard_normal(samples)
    problem = _duffing_problem(Record(u=u, y=y, dt=PERIOD, hold="foh"))
    # At the real rate other work delays what is learned: so short a record does not allow it.
    ways = {"no budget": None} | ({"real rate": BUDGET} if samples >= JUDGED else {})
    for name, budget in ways.items():
        found = _followed(problem, budget)
        yield at_most(f"{name}, alarm after s", found.pop("alarm_after_s"), 0.5)
        yield at_most(f"{name}, new value covered after s", found.pop("covered_after_s"), 5.0)
        yield from told(found, f"{name}, ")


@study("memory", full=LONG, quick=None)
def memory(samples: int) -> Iterator[Row]:
    """Growth of the process once old samples are spilled, over many chunks."""
    y = np.random.default_rng(0).standard_normal(samples)
    u = _excitation(samples)
    problem = _duffing_problem(Record(u=u[:100], y=y[:100], dt=PERIOD, hold="foh"), noise=1e3)
    live = Online(problem, solver=RK4(steps=1), particles=10, seed=1, memory=8192)
    sizes = []
    for k in range(samples):
        live.update(u[k], y[k])
        if k >= samples // 3 and k % 1024 == 0:
            sizes.append((k, resident_memory()))
    at, size = np.array(sizes).T
    slope = float(np.polyfit(at, size, 1)[0])
    day = 24 * 3600 * RATE
    note = f"{slope:.3g} bytes a sample over {samples} samples"
    yield at_most("growth in 24 h at 610 Hz, MB", slope * day / 1e6, 100.0, note)
    yield Row("file in 24 h, MB", 3 * 8 * day / 1e6)


def _warm(problem: Problem, **options: Any) -> Online:
    """An empty stream; one sample through another has loaded all that is loaded once."""
    made: dict[str, Any] = {"solver": SOLVER, "particles": PARTICLES, "seed": 1, **options}
    record = problem.records[0]
    Online(problem, **made).update(record.u[0], record.y[0])
    return Online(problem, **made)


def _followed(problem: Problem, budget: str | None) -> dict[str, Any]:
    record = problem.records[0]
    live = _warm(problem, solver=RK4(steps=4), budget=budget, forget="5 s")
    state = live.update(record.u[0], record.y[0])
    alarms, covered, begin = [], None, time.perf_counter() - PERIOD
    for k in range(1, len(record)):
        if budget is not None:
            _wait_until(begin + k * PERIOD)
        state = live.update(record.u[k], record.y[k])
        if state.alarm is not None:
            alarms.append(state.alarm.t)
        if covered is None and state.t > JUMP and k % 10 == 0:
            low, high = state.quantile("k", [0.025, 0.975])
            covered = state.t - JUMP if low <= 1.2 * DUFFING["k"] <= high else None
    after = [t - JUMP for t in alarms if t >= JUMP]
    return {
        "alarm_after_s": min(after, default=np.inf),
        "covered_after_s": np.inf if covered is None else covered,
        "false_alarms": sum(t < JUMP for t in alarms),
        "alarms_after": len(after),
        "mean_at_end": state.mean["k"],
        "sd_at_end": state.sd["k"],
    }


def _duffing_problem(record: Record, noise: float = 1e-3) -> Problem:
    prior: dict[str, Any] = {**DUFFING_PRIOR}
    return Problem(duffing, record, observe="x", noise=noise, prior=prior)


def _excitation(samples: int) -> Array:
    """Noise below 200 Hz, which moves the oscillator by 0.14 rms."""
    sections = signal.butter(4, 200 / (RATE / 2), output="sos")
    white = np.random.default_rng(0).standard_normal(samples)
    return 0.08 * np.asarray(signal.sosfilt(sections, white))


def _wait_until(moment: float) -> None:
    while (left := moment - time.perf_counter()) > 0:
        if left > 3e-4:
            time.sleep(left - 2e-4)


def _standardised(state: State, reference: list[Posterior]) -> dict[str, float]:
    """Difference of the means in Monte Carlo standard errors of both, about 1 / sqrt(N / 3)."""
    error = np.sqrt((1.0 + 1.0 / len(reference)) * 3.0 / PARTICLES)
    return {
        name: abs(state.mean[name] - np.mean([r.mean[name] for r in reference]))
        / (reference[0].sd[name] * error)
        for name in state.names
    }


def _percentiles(values: Array) -> dict[str, float]:
    found = np.percentile(values, [50, 90, 99, 99.9, 100])
    return dict(zip(("median", "90 %", "99 %", "99.9 %", "largest"), found.tolist(), strict=True))


if __name__ == "__main__":
    sys.exit(command(__name__))
