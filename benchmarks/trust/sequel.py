"""Fourteen rates of glycolysis seen in turns: a posterior on a bent ridge.

``python -m benchmarks.trust.sequel`` computes a reference anew by `benchmarks.reference.chains`,
which shares the likelihood with the package and nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import smcpn
from benchmarks.papers.differential_programming import (
    HIDDEN_PARTICLES,
    HIDDEN_STEPS,
    sequel_problem,
)
from benchmarks.papers.differential_programming_sequel import SEQUELS
from benchmarks.reference.answer import Answer
from benchmarks.reference.chains import chains
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from benchmarks.trust.known import posterior_of

Array = NDArray[np.float64]

EFFECTIVE, ANCESTORS, MEANS, NARROWEST = 400.0, 100, 0.15, 0.8
REFERENCE = {
    "J0": (2.5042, 0.03647),
    "k1": (94.135, 10.28),
    "k2": (4.7842, 1.501),
    "k3": (17.168, 1.95),
    "k4": (103.74, 5.976),
    "k5": (1.261, 0.06232),
    "k6": (11.974, 0.9031),
    "k": (1.7057, 0.1257),
    "ka": (14.394, 1.562),
    "q": (4.1053, 0.1143),
    "KI": (0.5488, 0.02329),
    "phi": (0.094288, 0.0104),
    "N": (1.3162, 0.331),
    "A": (3.8275, 0.3386),
    "sigma_N2": (0.0037454, 0.0004072),
    "sigma_A3": (0.074729, 0.007821),
    "sigma_S4ex": (0.0013927, 0.0001499),
    "N2(0)": (0.12473, 0.06028),
}
"""Mean and standard deviation for the record of seed 0: 200 chains of 14000 steps of differential
evolution, snooker updates and random walks in logarithms (commit 27bef9a9 has them), a quarter left
out, begun at the end of shorter ones; 1700 (A) to 6100 effective draws, R-hat 1.015 to 1.058."""
STEPS = 14_000


@study("sequel-glycolysis", full=HIDDEN_PARTICLES, quick=None)
def glycolysis(particles: int) -> Iterator[Row]:
    """Effective particles, ancestors, means and widths beside those of long chains."""
    problem = sequel_problem(SEQUELS["glycolysis"].drawn(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = smcpn.identify(
            problem, solver=HIDDEN_STEPS, particles=particles, seed=1, progress=False
        )
    note = f"of {particles}; {found.timing.wall:.0f} s; {'; '.join(found.warnings)[:100]}"
    yield at_least("effective particles", found.ess, EFFECTIVE, note)
    yield at_least("ancestors", len(np.unique(found.ancestor)), ANCESTORS)
    off = {name: (found.mean[name] - mean) / sd for name, (mean, sd) in REFERENCE.items()}
    worst = max(off, key=lambda name: abs(off[name]))
    yield at_most("means off the reference, sd", abs(off[worst]), MEANS, worst)
    ratios = {name: found.sd[name] / sd for name, (_, sd) in REFERENCE.items()}
    narrow = min(ratios, key=lambda name: ratios[name])
    yield at_least("narrowest sd over the reference", ratios[narrow], NARROWEST, narrow)
    yield at_most("warnings", len(found.warnings), 0)


def tell(steps: int = STEPS) -> None:
    """Print mean and standard deviation of each parameter, and the means of both halves."""
    problem = sequel_problem(SEQUELS["glycolysis"].drawn(0))
    found = smcpn.laplace(problem, solver=HIDDEN_STEPS, seed=1).to_posterior(4000)
    begin = Answer({name: found[name] for name in found.names}, found.weights)

    drawn = chains(posterior_of(problem, HIDDEN_STEPS), begin, steps=steps)
    for name, values in drawn.values.items():
        halves = [part.mean() for part in np.array_split(values, 2)]
        print(
            f'    "{name}": ({values.mean():.5g}, {values.std():.4g}),  '
            f"# halves {halves[0]:.5g} {halves[1]:.5g}"
        )


if __name__ == "__main__":
    tell()
