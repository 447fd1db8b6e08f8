"""Runs from a start near the posterior: every mode at its weight, and a ridge at its width."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from scipy import stats

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row, at_least, at_most, near, rms_of
from benchmarks.study import study
from benchmarks.trust.resonator import SD_B1, approximation, resonator
from smcpn import Posterior, Problem

SOLVER = smcpn.RK4(2)
PRIOR: Any = stats.norm(0.5, 0.7)
WIDTH = 0.1
"""Relative error of a standard deviation above which a run has to warn."""


@smcpn.ode
def square_decay(x, *, a):
    """Decay at the rate a squared: the sign of a is known from the prior only."""
    return -(a**2) * x


def two_signs() -> Problem:
    """Posterior with two modes, at +-.8, of the weights .837 and .163."""
    t = np.arange(21) / 10
    y = np.exp(-0.64 * t) + 0.02 * np.random.default_rng(1).normal(size=21)
    return Problem(
        square_decay,
        smcpn.Record(t=t, y=y),
        observe="x",
        noise=0.02,
        initial=[1.0],
        prior={"a": PRIOR},
    )


def by_quadrature(problem: Problem) -> tuple[float, float]:
    """Log-evidence, and the weight of the smaller mode."""
    grid = np.linspace(-3.0, 4.0, 400_001)
    log_likelihood = smcpn.LogLikelihood(problem, solver=SOLVER)(grid[:, None])
    density = log_likelihood + PRIOR.logpdf(grid)
    heights = np.exp(density - density.max())
    evidence = density.max() + np.log(heights.sum() * (grid[1] - grid[0]))
    return float(evidence), float(heights[grid < 0.0].sum() / heights.sum())


@study("two-modes", full=20, quick=5)
def two_modes(seeds: int) -> Iterator[Row]:
    """Weight of the smaller mode and evidence; the search has the seed of the run."""
    problem = two_signs()
    evidence, smaller = by_quadrature(problem)
    for name in ("laplace", "auto"):
        runs = list(each(partial(_from, name, problem), range(seeds)))
        weights = np.array([run.weights[run.values[:, 0] < 0.0].sum() for run in runs])
        z = np.array([(run.log_evidence - evidence) / run.log_evidence_se for run in runs])
        warned = sum(bool(run.warnings) for run in runs)
        note = f"{len(runs)} seeds, sd {weights.std():.2g}, {warned} warned"
        yield near(
            f"{name}: weight of the smaller mode", float(weights.mean()), smaller, 0.02, note
        )
        rms = float(np.sqrt(np.square(z).mean()))
        yield at_most(f"{name}: z rms of the evidence", rms, rms_of(1.25, seeds, 20))


def _from(name: str, problem: Problem, seed: int) -> Posterior:
    start = smcpn.laplace(problem, solver=SOLVER, seed=seed) if name == "laplace" else name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return smcpn.identify(problem, solver=SOLVER, start=start, seed=seed, progress=False)


@study("ridge", full=10, quick=None)
def ridge(seeds: int) -> Iterator[Row]:
    """Two-mass resonator from its Laplace approximation: sd of b1 over that of the reference."""
    runs = list(each(_on_the_ridge, range(seeds)))
    ratios = np.array([run.sd["b1"] for run in runs]) / SD_B1
    told = [_says_width(run) for run in runs]
    right = np.abs(ratios - 1.0) <= WIDTH
    listed = ", ".join(f"{ratio:.2g}" for ratio in ratios)
    yield Row("sd of b1 over the reference, median", float(np.median(ratios)), note=listed)
    yield Row("runs within 10 %", int(right.sum()), note=f"of {len(runs)}")
    honest = float(np.mean(right | np.array(told)))
    yield at_least("share of runs within 10 %, or warned of start or width", honest, 1.0)


@cache
def _ridge_start() -> smcpn.Laplace:
    """Of each process its own: compiled code stays where it is."""
    return approximation(resonator())


def _on_the_ridge(seed: int) -> Posterior:
    start = _ridge_start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return smcpn.identify(start.problem, start=start, seed=seed, progress=False)


def _says_width(run: Posterior) -> bool:
    """Whether a warning is of the start or the spread, not of steps or the number of searches."""
    return any("began again" in text or "times as wide" in text for text in run.warnings)
