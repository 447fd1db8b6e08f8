"""Fourteen rates of glycolysis seen in turns: how many ancestors does the posterior have."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

import smcpn
from benchmarks.papers.differential_programming_sequel import SEQUELS
from benchmarks.papers.differential_programming_studies import (
    HIDDEN_PARTICLES,
    HIDDEN_STEPS,
    sequel_problem,
)
from benchmarks.rows import Row, Study, absent, at_least, at_most

EFFECTIVE, ANCESTORS, MEANS = 400.0, 100, 0.15
QUICK_PARTICLES = 300


def glycolysis(quick: bool) -> Iterator[Row]:
    """Effective particles, ancestors, and means beside those of the No-U-Turn sampler."""
    sequel = SEQUELS["glycolysis"]
    problem = sequel_problem(sequel.authors() or sequel.drawn(0))
    particles = QUICK_PARTICLES if quick else HIDDEN_PARTICLES
    share = particles / HIDDEN_PARTICLES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = smcpn.identify(
            problem, solver=HIDDEN_STEPS, particles=particles, seed=1, progress=False
        )
    note = f"of {particles}; {found.timing.wall:.0f} s; {'; '.join(found.warnings)[:100]}"
    yield at_least("effective particles", found.ess, EFFECTIVE * share, note)
    ancestors = len(np.unique(found.ancestor))
    yield at_least("ancestors", ancestors, round(ANCESTORS * share))
    if quick:
        return
    try:
        chains = smcpn.nuts(problem, solver=HIDDEN_STEPS, seed=1, progress=False)
    except ImportError as error:
        yield absent("means", f"no nuts: {error}")
        return
    off = {name: (found.mean[name] - chains.mean[name]) / chains.sd[name] for name in found.names}
    worst = max(off, key=lambda name: abs(off[name]))
    note = f"{worst}; nuts has {chains.ess:.0f} draws, r_hat {chains.r_hat.max():.3f}"
    yield at_most("means off those of nuts, sd", abs(off[worst]), MEANS, note)


STUDIES: dict[str, Study] = {"sequel-glycolysis": glycolysis}
