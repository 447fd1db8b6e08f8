"""Default posteriors of published problems: the modes that they report, moments and evidence.

Trajectories of the reference are SciPy's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import smcpn
from benchmarks.rows import Row, at_least, at_most, unjudged
from benchmarks.stiff.collection import crauste_problem
from benchmarks.study import study
from smcpn.codegen.clock import CLOCK

HIGH = -191.5
"""Log-likelihood from which a mode of Crauste counts as the published one, -190.965."""
LESSER = -193.0
"""The same of the next one, in which naive cells die twenty times as fast."""


@study("crauste", full=20, quick=1)
def crauste(seeds: int) -> Iterator[Row]:
    """Log-likelihood of the highest mode that default searches report, of twelve rates."""
    problem, heights, used = crauste_problem().problem, [], []
    for seed in range(seeds):
        began, compiled = time.process_time(), CLOCK.compile_seconds
        heights.append(smcpn.maximise(problem, seed=seed, progress=False).log_likelihood)
        used.append(time.process_time() - began - (CLOCK.compile_seconds - compiled))
    row = at_least("seeds with the published mode", sum(h >= HIGH for h in heights), 0.6 * seeds)
    yield row if seeds >= 20 else unjudged(row, "of few seeds chance decides")
    yield at_least("seeds with it or the next one", sum(h >= LESSER for h in heights), 0.6 * seeds)
    yield Row("highest log-likelihood", float(np.max(heights)))
    yield at_most("processor seconds of a search, most", max(used), 120.0)
