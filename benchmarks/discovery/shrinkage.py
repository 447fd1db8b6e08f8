"""The noisy spiral of the differential programming paper: shrinkage priors beside spike and slab.

20 coefficients, all monomials up to degree 3, of which 4 are not zero; noise of standard deviation
.02 on 1001 samples. Then the posterior that the paper samples: its Laplace prior in physical units,
Gamma(1, 1) priors, the likelihood of its 920 pairs of samples.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.discovery.systems import System
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, at_most, between, least_of
from benchmarks.study import study
from smcpn.discovery.equations.system import CandidateSystem
from smcpn.discovery.shrinkage.priors import SHRINKAGE, LaplacePrior
from smcpn.discovery.shrinkage.sampler import Point, ShrinkageRun
from smcpn.smc.replicates import SamplerWarning
from tests.discoveries import finished

Array = NDArray[np.float64]

NOISE = 0.02
SPIRAL = System(
    states=("x", "y"),
    rhs=lambda t, z: [
        -0.1 * z[0] ** 3 + 2.0 * z[1] ** 3, -2.0 * z[0] ** 3 - 0.1 * z[1] ** 3
    ],
    truth={"x'[x^3]": -0.1, "x'[y^3]": 2.0, "y'[x^3]": -2.0, "y'[y^3]": -0.1},
    degree=3,
    start=(2.0, 0.0),
    interval=0.02,
    spread=1.0,
)  # fmt: skip
DURATION = 20.0
PRIORS = ("spike-and-slab", "laplace", "horseshoe")
SEEDS, QUICK_SEEDS = 20, 1
LAG, STEPS, PAIRS = 80, 19, 920
"""Samples between the two of a pair, Runge-Kutta steps, and pairs."""
SECONDS = 20.0
"""Of the processor at most."""


@dataclass(frozen=True)
class Sampled:
    """What one posterior says of the K coefficients.

    covered: (K,), truth in the 95 % interval.
    inclusion: (K,), probability, or level with a shrinkage prior.
    width: (K,), of the 95 % intervals.
    ess, log_evidence: Not of spike and slab, which draws nothing.
    """

    covered: NDArray[np.bool_]
    inclusion: Array
    width: Array
    ess: float
    log_evidence: float
    seconds: float


def _found(prior: str, seed: int, particles: int) -> smcpn.Discovery:
    drawn: dict[str, Any] = {"particles": particles, "threads": 1}
    return smcpn.discover(
        SPIRAL.record(DURATION, NOISE, seed), library=SPIRAL.library, states=SPIRAL.states,
        prior=prior, seed=seed, **(drawn if prior in SHRINKAGE else {}),
    )  # fmt: skip


@cache
def _warm(prior: str) -> None:
    """Make the kernels, once in a process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SamplerWarning)
        _found(prior, 0, 20)


def sampled(task: tuple[str, int]) -> Sampled:
    """The posterior with a prior, of the data of a seed; warm, for the kernel is made before."""
    _warm(task[0])
    begin = time.process_time()
    found = _found(*task, 1000)
    seconds = time.process_time() - begin
    columns = [
        (
            one.lower <= SPIRAL.truth.get(name, 0.0) <= one.upper,
            one.inclusion,
            one.upper - one.lower,
        )
        for name, one in found.coefficients.items()
    ]
    covered, inclusion, width = map(np.array, zip(*columns, strict=True))
    drawn = found.posterior
    told = (np.nan, np.nan) if drawn is None else (drawn.ess, drawn.log_evidence)
    return Sampled(covered, inclusion, width, *told, seconds)


def active() -> NDArray[np.bool_]:
    """Which coefficients are not zero, (K,)."""
    names = CandidateSystem.of(SPIRAL.library, SPIRAL.states).coefficients
    return np.array([name in SPIRAL.truth for name in names])


@study("shrinkage")
def spiral(quick: bool) -> Iterator[Row]:
    """Coverage, inclusion, effective size and time by prior; the quick form takes one seed."""
    seeds, true = QUICK_SEEDS if quick else SEEDS, active()
    tasks = [(prior, seed) for prior in PRIORS for seed in range(seeds)]
    results = list(each(sampled, tasks))
    for k, prior in enumerate(PRIORS):
        own = results[k * seeds : (k + 1) * seeds]
        covered = np.array([one.covered for one in own])
        inclusion = np.array([one.inclusion for one in own])
        width = np.array([one.width for one in own])
        least = least_of(0.9, covered[:, true].size, SEEDS)
        yield between(f"{prior}: true coefficients in the 95 % intervals",
                      float(covered[:, true].mean()), least, 1.0, f"{seeds} seeds")  # fmt: skip
        yield Row(f"{prior}: zero in the 95 % intervals", float(covered[:, ~true].mean()))
        what = "probability" if prior == PRIORS[0] else "level without zero"
        yield Row(f"{prior}: {what}, least of true ones", float(inclusion[:, true].min()))
        yield Row(f"{prior}: {what}, median of others", float(np.median(inclusion[:, ~true])))
        yield Row(f"{prior}: width of intervals, true ones", float(np.median(width[:, true])))
        median = float(np.median([one.seconds for one in own]))
        yield at_most(f"{prior}: s", median, SECONDS, "of the processor, median")
        if prior in SHRINKAGE:
            yield at_least(f"{prior}: ESS", min(one.ess for one in own), 100.0, "least")
            evidence = float(np.median([one.log_evidence for one in own]))
            yield Row(f"{prior}: log-evidence", evidence, note="median")


@study("shrinkage-pairs", full=PAIRS, quick=200)
def pairs(number: int) -> Iterator[Row]:
    """The posterior of the paper, with exponent S d / 2 of the precision and the whole interval."""
    y = SPIRAL.record(DURATION, NOISE, 0).y
    starts = np.random.default_rng(0).permutation(PAIRS)[:number]
    records = [smcpn.Record(y=y[[s, s + LAG]], dt=LAG * SPIRAL.interval) for s in starts]
    system = CandidateSystem.of(SPIRAL.library, SPIRAL.states)
    truth = np.array([SPIRAL.truth.get(name, 0.0) for name in system.coefficients])
    point = Point(truth, y[starts], np.full(2, 2.0 * NOISE))
    begin = time.process_time()
    found = finished(
        ShrinkageRun, records, system, SPIRAL.states, LaplacePrior(units="physical"), point,
        np.ones(len(truth)), noise_prior=(1.0, 1.0), solver=smcpn.RK4(steps=STEPS), threads=1,
    )  # fmt: skip
    seconds = time.process_time() - begin
    mean = found.weights @ found.values
    sd = np.sqrt(found.weights @ (found.values - mean) ** 2)
    errors = np.abs(mean[: len(truth)] - truth) / sd[: len(truth)]
    name = f"{len(records)} pairs"
    for k in np.flatnonzero(truth):
        yield Row(f"{name}: {system.coefficients[k]}", float(mean[k]), note=f"+- {sd[k]:.2g}")
    yield Row(f"{name}: true coefficients within 2 sd", float(np.mean(errors[truth != 0] < 2.0)))
    noise = float(mean[len(truth)])
    yield Row(f"{name}: noise sd", noise, note="the prior Gamma(1, 1) raises it")
    yield at_least(f"{name}: ESS", found.ess, 100.0)
    yield at_most(f"{name}: s", seconds, SECONDS, "of the processor")
