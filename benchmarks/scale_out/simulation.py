"""Strong and weak scaling to a thousand cores, simulated with constants measured on this machine.

A batch is simulated task by task. The driver draws N proposals, sends the tasks one after the
other, and takes the answers one after the other; a worker takes the next task when it is free, and
its time varies from task to task. Measured are the work of a particle, the driver's own time for
it, and the time of a message; what differs between runs is how many batches there are, how long.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.clock import best
from benchmarks.rows import Row
from benchmarks.scale_out.cases import decay, oscillation
from benchmarks.study import study
from smcpn.likelihood.particle.machine import THETAS
from smcpn.likelihood.registry import build_estimate, build_likelihood
from smcpn.model.prior import Prior
from smcpn.smc.distributed.engines import opened
from smcpn.smc.distributed.workers import MOST_PARTICLES, TASK_SECONDS, TASKS_PER_WORKER
from smcpn.smc.proposals import DefensiveGaussian

CORES = (1, 2, 8, 32, 128, 512, 1000)
SPREAD = 0.1
"""Standard deviation of the logarithm of a task's time."""
MESSAGES = {"mpi": 0.1e-3, "dask": 1.0e-3}
"""Seconds of the driver for a task and its answer, where they are not measured: mpi4py.futures and
the scheduler of dask, by their authors' documents."""


@dataclass(frozen=True)
class Load:
    """A run as batches.

    Attributes
    ----------
    particles : int
        N.
    work : float
        Seconds of one core for a particle and batch.
    batches : int
    lanes : int
        Particles of which a worker computes all or none.
    at_home : float
        Share of the work that is never sent, such as the single samples of IBIS.
    """

    particles: int
    work: float
    batches: int
    lanes: int
    at_home: float = 0.0


@dataclass(frozen=True)
class Constants:
    """Seconds: of the driver for a particle of a batch, and for a message of an engine."""

    driver: float
    message: dict[str, float]


def browse_seconds(load: Load, cores: int, driver: float, message: float) -> float:
    """Simulate one batch by so many workers."""
    rng, expected = np.random.default_rng(0), load.particles * load.work
    each = min(max(1, int(expected / cores / TASK_SECONDS)), TASKS_PER_WORKER)
    blocks = -(-load.particles // load.lanes)
    tasks = min(blocks, max(each * cores, -(-load.particles // MOST_PARTICLES)))
    durations = expected / tasks * np.exp(SPREAD * rng.standard_normal(tasks))
    now = load.particles * driver
    free, ends = [0.0] * cores, []
    for duration in durations:
        now += 0.5 * message
        end = max(now, heapq.heappop(free)) + duration
        heapq.heappush(free, end)
        ends.append(end)
    for end in sorted(ends):
        now = max(now, end) + 0.5 * message
    return now


def run_seconds(load: Load, cores: int, constants: Constants, engine: str) -> float:
    """Seconds of a run: what stays at home is not shared."""
    total = load.batches * load.particles * load.work
    sent = browse_seconds(load, cores, constants.driver, constants.message[engine])
    return load.at_home * total + load.batches * sent


def measured() -> tuple[Constants, dict[str, float]]:
    """Constants, and seconds of a particle for each kind of run."""
    problem = oscillation(2000)
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 512))
    exact = build_likelihood(problem, smcpn.EKF0(steps=4), 1)
    plain = best(lambda: exact.evaluate(values, 2000), 3) / 512 / 2000
    noisy, keys = decay(), np.random.default_rng(0).integers(0, 2**64, (64, 2), dtype=np.uint64)
    values_noisy = noisy.prior.natural(noisy.prior.sample(np.random.default_rng(0), 64))
    filters = build_estimate(noisy, smcpn.RK4(2), 1, "particle").with_state_particles(32)
    nested = best(lambda: filters.evaluate(values_noisy, 100, keys), 3) / 64 / 100 / 32
    with opened("loky:1") as executor:

        def message() -> None:
            for future in [executor.submit(time.perf_counter) for _ in range(64)]:
                future.result()

        loky = best(message, 3) / 64
    return Constants(driver_seconds(), {"loky": loky, **MESSAGES}), {"ekf": plain, "filter": nested}


def driver_seconds(n: int = 100_000, d: int = 8) -> float:
    """Seconds of the driver for a proposal: fitted, drawn, its density and the prior's, taken."""
    rng = np.random.default_rng(0)
    normals: dict[str, Any] = {f"p{j}": stats.norm() for j in range(d)}
    prior = Prior(normals)
    theta, weights = rng.normal(size=(n, d)), np.full(n, 1.0 / n)

    def move() -> None:
        proposal = DefensiveGaussian.fit(theta, weights)
        drawn = proposal.sample(rng, n)
        ratio = prior.log_density(drawn) - proposal.log_density(drawn)
        np.where((np.log(rng.random(n)) < ratio)[:, None], drawn, theta)

    return best(move, 3) / n


def loads(cost: dict[str, float]) -> dict[str, Load]:
    """Three runs that outgrow a machine."""
    return {
        "IBIS, N = 1e5, T = 1e4": Load(100_000, 5e3 * cost["ekf"], 60, 64, at_home=0.05),
        "tempering, N = 1e4, T = 1e5": Load(10_000, 1e5 * cost["ekf"], 40, 64),
        "SMC^2, N = 2000, T = 1e4, 512": Load(2_000, 1e4 * 512 * cost["filter"], 60, THETAS),
    }


@study("simulation", quick=None)
def simulated(quick: bool) -> Iterator[Row]:
    """Efficiency with as much work in all (strong) or for each core (weak), by cores."""
    constants, cost = measured()
    messages = ", ".join(
        f"{name} {1e3 * value:.2f} ms" for name, value in constants.message.items()
    )
    yield Row("driver, us a particle", 1e6 * constants.driver, note=f"messages {messages}")
    yield Row("ns a particle and sample", 1e9 * cost["ekf"])
    yield Row("ns a state particle and sample", 1e9 * cost["filter"])
    cores_listed = " ".join(map(str, CORES))
    for engine in constants.message:
        for name, load in loads(cost).items():
            one = run_seconds(load, 1, constants, engine)
            strong = [one / cores / run_seconds(load, cores, constants, engine) for cores in CORES]
            weak: list[float] = []
            for cores in CORES:
                particles, at_home = load.particles * cores, load.at_home / cores
                more = replace(load, particles=particles, at_home=at_home)
                weak.append(one / run_seconds(more, cores, constants, engine))
            for kind, found in (("strong", strong), ("weak", weak)):
                note = f"cores {cores_listed}; {one / 3600:.2g} h on one core"
                shown = " ".join(f"{value:.2f}" for value in found)
                yield Row(f"{engine}, {name}, {kind}", shown, note=note)
