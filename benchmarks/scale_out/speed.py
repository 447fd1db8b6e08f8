"""The time of a browse by workers: its barrier, and its efficiency."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import smcpn
from benchmarks.rows import Row, Study, absent, at_least, at_most
from benchmarks.scale_out.cases import oscillation
from benchmarks.scale_out.clusters import dask_cluster, lacks_dask
from smcpn.distributed.engines import opened
from smcpn.distributed.likelihood import distributed
from smcpn.distributed.workers import Workers
from smcpn.likelihood.registry import build_likelihood

SOLVER = smcpn.EKF0(steps=4)
PARTICLES = 1000


def drawn(problem: smcpn.Problem, number: int) -> Any:
    """Parameters of a prior."""
    return problem.prior.natural(problem.prior.sample(np.random.default_rng(0), number))


def seconds(work: Callable[[], object]) -> float:
    """Time of a call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def barrier(executor: Any, times: int) -> tuple[float, float]:
    """Time in ms of a browse that computes next to nothing: median and fastest."""
    problem = oscillation(200)
    away = distributed(build_likelihood(problem, SOLVER), Workers(executor, 0.0))
    values = drawn(problem, PARTICLES)
    away.evaluate(values, 1)
    found = 1e3 * np.array([seconds(lambda: away.evaluate(values, 1)) for _ in range(times)])
    return float(np.median(found)), float(found.min())


def plain(executor: Any, times: int) -> tuple[float, float]:
    """The same of two empty calls of the executor itself."""

    def two() -> None:
        for future in [executor.submit(os.getpid) for _ in range(2)]:
            future.result()

    two()
    found = 1e3 * np.array([seconds(two) for _ in range(times)])
    return float(np.median(found)), float(found.min())


def barriers(quick: bool) -> Iterator[Row]:
    """Of two workers; the fastest counts, for other processes of the machine wait in the median."""
    times = 50 if quick else 300
    with opened("loky:2") as executor:
        own, (median, fastest) = plain(executor, times), barrier(executor, times)
    note = f"median {median:.1f}; two empty calls {own[1]:.1f}, median {own[0]:.1f}"
    yield at_most("barrier of loky, ms", round(fastest, 2), 3.0, note)
    if why := lacks_dask():
        yield absent("barrier of dask, ms", why)
        return
    with dask_cluster(2) as cluster, opened(f"dask:{cluster.address}") as executor:
        own, (median, fastest) = plain(executor, times), barrier(executor, times)
    note = f"median {median:.1f}; two empty calls {own[1]:.1f}, median {own[0]:.1f}"
    yield at_most("barrier of dask, ms", round(fastest, 2), 15.0, note)


def efficiency(quick: bool) -> Iterator[Row]:
    """A browse of about a second by two workers of one thread, and by two threads, in turns."""
    problem, turns = oscillation(2000), 4 if quick else 10
    home = build_likelihood(problem, SOLVER, 2)
    values = drawn(problem, PARTICLES)
    once = seconds(lambda: home.evaluate(values, 2000))
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
    yield at_least("efficiency, fastest of each", round(min(here) / min(there), 3), 0.9, note)
    note = "processor time of two threads over that of driver and workers"
    yield Row("efficiency by processor time", round(min(cpu) / min(busy), 3), note=note)


STUDIES: dict[str, Study] = {"barriers": barriers, "efficiency": efficiency}
