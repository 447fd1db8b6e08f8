"""The time of a batch by workers: its barrier, and its efficiency."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

import smcpn
from benchmarks.clock import seconds
from benchmarks.rows import Row, absent, at_least, at_most, unjudged
from benchmarks.scale_out.cases import oscillation
from benchmarks.scale_out.clusters import dask_cluster, lacks_dask
from benchmarks.study import study
from smcpn.likelihood.registry import build_likelihood
from smcpn.smc.distributed.engines import opened
from smcpn.smc.distributed.workers import Workers, distributed

SOLVER = smcpn.EKF0(steps=4)
PARTICLES = 1000


def drawn(problem: smcpn.Problem, number: int) -> Any:
    """Parameters of a prior."""
    return problem.prior.natural(problem.prior.sample(np.random.default_rng(0), number))


@dataclass(frozen=True)
class Barrier:
    """Milliseconds of something that is done many times.

    path: Processor time of the driver, and of one of the workers.
    """

    fastest: float
    median: float
    path: float

    @classmethod
    def of(cls, work: Callable[[], object], times: int, team: Workers | None = None) -> Barrier:
        """Measure it, after a first time."""
        work()
        busy, begin = 0.0 if team is None else team.seconds, time.process_time()
        found = 1e3 * np.array([seconds(work) for _ in range(times)])
        path = time.process_time() - begin
        if team is not None:
            path += (team.seconds - busy) / team.engine.size
        return cls(float(found.min()), float(np.median(found)), 1e3 * path / times)


def barrier(name: str, executor: Any, limit: float, times: int) -> Iterator[Row]:
    """A batch of two workers that computes next to nothing, beside two empty calls."""
    # dask takes equal calls for one.
    number = count()

    def empty() -> None:
        for future in [executor.submit(abs, next(number)) for _ in range(2)]:
            future.result()

    problem, team = oscillation(200), Workers(executor, 0.0)
    away, values = distributed(build_likelihood(problem, SOLVER), team), drawn(problem, PARTICLES)
    plain = Barrier.of(empty, times)
    own = Barrier.of(lambda: away.evaluate(values, 1), times, team)
    note = (
        f"median {own.median:.1f}; two empty calls {plain.fastest:.1f}, median {plain.median:.1f}"
    )
    yield at_most(f"barrier of {name}, ms", round(own.fastest, 2), limit, note)
    note = f"of driver and a worker; two empty calls {plain.path:.1f}"
    yield Row(f"barrier of {name}, ms of processor time", round(own.path, 2), note=note)


@study("barriers", full=300, quick=50)
def barriers(times: int) -> Iterator[Row]:
    """Of two workers; the fastest counts, for other processes of the machine wait in the median."""
    with opened("loky:2") as executor:
        yield from barrier("loky", executor, 3.0, times)
    if why := lacks_dask():
        yield absent("barrier of dask, ms", why)
        return
    with dask_cluster(2) as cluster, opened(f"dask:{cluster.address}") as executor:
        yield from barrier("dask", executor, 15.0, times)


@study("efficiency")
def efficiency(quick: bool) -> Iterator[Row]:
    """A batch of about a second by two workers of one thread, and by two threads, in turns."""
    problem, turns = oscillation(2000), 4 if quick else 10
    home = build_likelihood(problem, SOLVER, 2)
    values = drawn(problem, PARTICLES)
    once = min(seconds(lambda: home.evaluate(values, 2000)) for _ in range(4))
    number = int(PARTICLES * max(1.0, (0.5 if quick else 1.0) / once))
    values = drawn(problem, number)
    with opened("loky:2") as executor:
        team = Workers(executor, 0.0)
        away = distributed(home, team)
        away.evaluate(values, 2000)
        here, there, cpu, busy = [], [], [], []
        for _ in range(turns):
            begin = time.process_time()
            here.append(seconds(lambda: home.evaluate(values, 2000)))
            cpu.append(time.process_time() - begin)
            begin, before = time.process_time(), team.seconds
            there.append(seconds(lambda: away.evaluate(values, 2000)))
            busy.append(time.process_time() - begin + team.seconds - before)
    note = f"{number} particles; {min(here):.2f} s by threads, {min(there):.2f} s by workers"
    by_clock = at_least("efficiency, fastest of each", round(min(here) / min(there), 3), 0.9, note)
    note = "processor time of two threads over that of driver and workers"
    used = at_least("efficiency by processor time", round(min(cpu) / min(busy), 3), 0.9, note)
    yield unjudged(by_clock, "others may want the processors") if quick else by_clock
    yield used if quick else unjudged(used, "it is judged by the clock")
