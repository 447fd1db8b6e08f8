"""`smcpn.nuts` on the sequel's Lotka-Volterra system, beside NUTS of blackjax and SMC.

All share the Runge-Kutta solution with two steps from sample to sample, the noise and the prior.
Both samplers are given the mode and the covariance there. This package still tunes step and metric,
and that counts; blackjax has a step that suits, and does not tune. Compilation counts for neither.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import smcpn
from benchmarks.papers.differential_programming_sequel import NOISE, SEQUELS
from benchmarks.rows import Row, absent, at_least, at_most
from benchmarks.study import study
from smcpn import Laplace, NutsPosterior, Problem
from smcpn.estimate.log_density import LogDensity
from smcpn.results.exports.arviz import arviz_module

Array = NDArray[np.float64]

STEPS = 2
PEER_SIZES = ((4, 250), (32, 120), (128, 30))
"""Chains and draws of each, of blackjax; its best counts."""
RUNS = 3
SEQUEL = SEQUELS["lotka-volterra"]


@dataclass(frozen=True)
class Speed:
    """Least effective draws over parameters, and the seconds on the clock and of processors."""

    ess: float
    wall: float
    processor: float

    @property
    def per_second(self) -> float:
        """Effective draws a second."""
        return self.ess / self.wall

    @property
    def per_processor_second(self) -> float:
        """The same of processor time."""
        return self.ess / self.processor


def predators() -> Problem:
    """Four rates, from the record in which prey and predators are seen in turns."""
    system, record = SEQUEL.system, SEQUEL.drawn(0)
    prior: dict[str, Any] = {name: stats.lognorm(1.0) for name in system.truth}
    return Problem(
        system.ode, record, observe=list(system.ode.states), initial=list(system.start),
        noise=noise_levels(), prior=prior,
    )  # fmt: skip


def noise_levels() -> list[float]:
    """Standard deviation of the noise of each state."""
    times = np.linspace(0.0, SEQUEL.end, 10 * SEQUEL.intervals + 1)
    return list(NOISE * SEQUEL.system.states(times).std(axis=0))


def least_ess(draws: Array) -> float:
    """Least number of effective draws over the parameters, of draws (C, D, d)."""
    arviz = arviz_module()
    return min(float(arviz.ess(draws[:, :, j])) for j in range(draws.shape[2]))


def timed(run: Callable[[], Array]) -> Speed:
    """Time a run that returns draws (C, D, d)."""
    wall, processor = time.perf_counter(), time.process_time()
    draws = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return Speed(least_ess(draws), wall, processor)


@study("nuts", quick=None)
def speed(quick: bool) -> Iterator[Row]:
    """Effective draws a second of this package and of blackjax, alternating."""
    problem = predators()
    start = smcpn.laplace(problem, solver=smcpn.RK4(steps=STEPS), seed=0)

    def own(seed: int) -> Array:
        return coordinates(smcpn.nuts(problem, start=start, seed=seed, progress=False))

    own(0)
    ours, theirs = [timed(lambda: own(1))], list[Speed]()
    try:
        peer = Peer(start)
    except ImportError:
        yield absent("over blackjax and diffrax", "blackjax or diffrax is not installed")
    else:
        yield at_most("log density, relative difference to the peer's", peer.difference(), 1e-9)
        for chains, length in PEER_SIZES:
            peer.draws(0, chains, length)
            for seed in range(RUNS):
                ours.append(timed(lambda seed=seed: own(seed + 1)))
                run = timed(lambda seed=seed, c=chains, n=length: peer.draws(seed + 1, c, n))
                theirs.append(run)
                note = f"{chains} chains of {length} draws, {run.wall:.3g} s"
                yield Row("blackjax, effective draws a second", run.per_second, note=note)
        best, usual = max(one.per_second for one in theirs), median(ours, "per_second")
        yield at_least(
            "effective draws a second over blackjax", usual / best, 20.0,
            "median of this package over the best of the peer, searches of neither counted",
        )  # fmt: skip
        best = max(one.per_processor_second for one in theirs)
        ratio = median(ours, "per_processor_second") / best
        yield Row("the same of processor seconds", ratio, note="it is judged by the clock")
    yield Row("effective draws a second", median(ours, "per_second"), note="4 chains of 1000")

    def default(seed: int) -> Array:
        return coordinates(smcpn.nuts(problem, seed=seed, progress=False))

    default(0)
    whole = timed(lambda: default(1))
    yield Row("the same by default, EKF0 and the searches", whole.per_second)


def median(runs: list[Speed], figure: str) -> float:
    """Median of a figure."""
    return float(np.median([getattr(run, figure) for run in runs]))


def coordinates(posterior: NutsPosterior) -> Array:
    """Unconstrained coordinates by chain, (C, D, d)."""
    return posterior.theta.reshape(*posterior.statistics.divergent.shape, -1)


class Peer:
    """Blackjax on the problem of a Laplace approximation."""

    def __init__(self, start: Laplace) -> None:
        self.module: Any = import_module("benchmarks.closures.nuts_peer")
        self.start, record = start, start.problem.records[0]
        self.data = self.module.Data(
            np.asarray(record.y), record.interval, np.array(noise_levels()),
            np.array(SEQUEL.system.start),
        )  # fmt: skip

    def draws(self, seed: int, chains: int, length: int) -> Array:
        """Log-parameters, (chains, length, 4)."""
        mode, covariance = self.start.mode, self.start.covariance
        return self.module.draws(self.data, seed, mode, covariance, chains, length, STEPS)

    def difference(self) -> float:
        """Largest relative difference of log densities, that at the mode taken off."""
        theta = np.vstack([self.start.mode, self.start.draw_theta(20, seed=1)])
        theirs = [-0.5 * np.square(self.residuals(point)).sum() for point in theta]
        ours = LogDensity(self.start.maximum.function).value(theta)
        mine, peers = ours - ours[0], np.array(theirs) - theirs[0]
        return float(np.abs(mine[1:] / peers[1:] - 1.0).max())

    def residuals(self, theta: Array) -> Array:
        """Misfit and prior in standard deviations."""
        return np.asarray(self.module.residuals(theta, self.data, STEPS))


@study("nuts-posterior")
def agreement(quick: bool) -> Iterator[Row]:
    """The posterior of SMC is that of NUTS, in standard errors of both."""
    problem = predators()
    solver = smcpn.RK4(steps=STEPS)
    chains = smcpn.nuts(problem, 500 if quick else 4000, solver=solver, seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        particles = smcpn.identify(
            problem, solver=solver, particles=1000 if quick else 8000, seed=1, progress=False
        )
    mean, other = chains.theta.mean(axis=0), particles.weights @ particles.theta
    variance = chains.theta.var(axis=0)
    # Particles after moves are not independent: half of them are taken to be.
    n, m = chains.ess_bulk, particles.ess / 2
    z = (mean - other) / np.sqrt(variance * (1 / n + 1 / m))
    spread = particles.weights @ np.square(particles.theta - other)
    of_variance = np.log(variance / spread) / np.sqrt(2 / n + 2 / m)
    yield at_most("largest |z| of means, NUTS and SMC", float(np.abs(z).max()), 4.0)
    yield at_most("largest |z| of variances", float(np.abs(of_variance).max()), 4.0)
    yield at_most("R-hat", float(chains.r_hat.max()), 1.01)
    yield at_most("divergent trajectories", float(chains.statistics.divergent.sum()), 0.0)
