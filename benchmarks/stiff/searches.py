"""Searches in a box of ten decades, and a posterior where explicit steps are unstable."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import smcpn
from benchmarks.clock import running_seconds
from benchmarks.rows import Row, at_most, unjudged
from benchmarks.stiff.collection import boehm_problem
from benchmarks.study import study
from benchmarks.trust.stiff_wall import answer, problem

NEAR = 0.5
"""Nats below the highest log posterior that count as the optimum."""
REACHED = 0.6
"""Processor seconds of one of a hundred searches, of which 6 end at the optimum."""


@study("boehm", full=100, quick=100)
def boehm(starts: int) -> Iterator[Row]:
    """Processor seconds for each search that ends at the optimum, of starts in the whole box."""
    published = boehm_problem()
    solver = smcpn.Rosenbrock(1e-6)
    best = smcpn.maximise(published.problem, solver=solver, starts=published.optimum[None])
    smcpn.maximise(published.problem, solver=solver, starts=1, seed=0)
    began = time.process_time()
    found = smcpn.maximise(published.problem, solver=solver, starts=starts, seed=1)
    used = time.process_time() - began
    highest = max(best.log_density, found.log_density)
    hits = int(np.sum(np.array(found.ends) > highest - NEAR))
    yield Row("log-likelihood at the highest log posterior", best.log_likelihood)
    yield Row("searches that end there", hits, note=f"of {starts}, {len(found.ends)} of which end")
    row = at_most("processor seconds for each", used / hits if hits else np.inf, 3.0)
    yield (row if starts >= 100 else unjudged(row, "one of twenty ends there"))
    yield at_most("processor seconds of a search", used / starts, REACHED)


@study("wall", full=10, quick=3)
def wall(seeds: int) -> Iterator[Row]:
    """Posterior of a rate that the data do not bound from above, by all defaults."""
    exact = answer()
    errors, warned, used = [], 0, []
    for seed in range(seeds):
        began = running_seconds()
        found = smcpn.identify(problem(), seed=seed, progress=False)
        used.append(running_seconds() - began)
        errors.append(abs(found.log_evidence - exact.log_evidence))
        warned += bool(found.warnings)
    yield at_most("error of the log-evidence, worst", max(errors), 0.1)
    yield at_most("runs with a warning", warned, 0)
    yield at_most("processor seconds, median", float(np.median(used)), 1.0, "compilation left out")
