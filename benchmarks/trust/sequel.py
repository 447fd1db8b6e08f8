"""Fourteen rates of glycolysis seen in turns: a posterior on a bent ridge.

``python -m benchmarks.trust.sequel`` computes the reference anew, in some five minutes: 200 chains
that learn their steps from each other, in the logarithms of the parameters, where the ridge is
straight. They share the likelihood with the package and nothing else.
"""

from __future__ import annotations

import sys
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
from benchmarks.rows import Row, at_least, at_most
from benchmarks.study import study
from smcpn.model.distribution import support

Array = NDArray[np.float64]

EFFECTIVE, ANCESTORS, MEANS, NARROWEST = 400.0, 100, 0.15, 0.8
QUICK_PARTICLES = 300
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
"""Mean and standard deviation for the record of seed 0: 200 chains of 14000 steps, a quarter left
out, begun at the end of shorter ones; 1700 (A) to 6100 effective draws, R-hat 1.015 to 1.058."""
CHAINS, STEPS, KEPT_EVERY = 200, 14_000, 10


@study("sequel-glycolysis")
def glycolysis(quick: bool) -> Iterator[Row]:
    """Effective particles, ancestors, means and widths beside those of long chains."""
    problem = sequel_problem(SEQUELS["glycolysis"].drawn(0))
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
    off = {name: (found.mean[name] - mean) / sd for name, (mean, sd) in REFERENCE.items()}
    worst = max(off, key=lambda name: abs(off[name]))
    yield at_most("means off the reference, sd", abs(off[worst]), MEANS, worst)
    ratios = {name: found.sd[name] / sd for name, (_, sd) in REFERENCE.items()}
    narrow = min(ratios, key=lambda name: ratios[name])
    yield at_least("narrowest sd over the reference", ratios[narrow], NARROWEST, narrow)
    yield at_most("warnings", len(found.warnings), 0)


class Logarithms:
    """The posterior in the logarithms of the parameters; none beyond the bounds of the priors."""

    def __init__(self, maximum: smcpn.Maximum) -> None:
        self.likelihood, self.prior = maximum.function, maximum.problem.prior
        supports = [support(one) for one in self.prior.distributions.values()]
        self.lower, self.upper = np.array(supports, dtype=float).T

    def log_density(self, points: Array) -> Array:
        """Log posterior density of these coordinates, not normalised by the evidence."""
        values, total = np.exp(points), np.full(len(points), -np.inf)
        inside = ((values > self.lower) & (values < self.upper)).all(axis=1)
        if inside.any():
            values = values[inside]
            priors = zip(values.T, self.prior.distributions.values(), strict=True)
            prior = np.sum([one.logpdf(column) for column, one in priors], axis=0)
            total[inside] = self.likelihood(values) + prior + points[inside].sum(axis=1)
        return np.where(np.isfinite(total), total, -np.inf)


def proposed(points: Array, others: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Proposals for half of the chains by the other half, and logs of their proposal ratios.

    Differential evolution, snooker updates (ter Braak and Vrugt 2008) and random walks.
    """
    (m, d), kind = points.shape, rng.random()
    first, second, centre = (others[rng.integers(m, size=m)] for _ in range(3))
    if kind < 0.5:
        scale = 2.38 / np.sqrt(2 * d) * rng.choice([1.0, 0.5, 0.25], size=(m, 1))
        return points + scale * np.exp(0.4 * rng.normal(size=(m, 1))) * (first - second), np.zeros(
            m
        )
    if kind < 0.8:
        away = points - centre
        length = np.linalg.norm(away, axis=1)
        along = away / length[:, None]
        step = rng.uniform(1.2, 2.2, m) * ((first - second) * along).sum(axis=1)
        moved = points + step[:, None] * along
        return moved, (d - 1) * np.log(np.linalg.norm(moved - centre, axis=1) / length)
    factor = np.linalg.cholesky(np.cov(others.T))
    return points + rng.choice([0.2, 0.4, 0.6]) * rng.normal(size=(m, d)) @ factor.T, np.zeros(m)


def chains(target: Logarithms, start: smcpn.Laplace, steps: int, rng: np.random.Generator) -> Array:
    """Draws (steps kept, chains, d) after a quarter of the steps."""
    factor, d = np.linalg.cholesky(start.covariance), len(start.mode)
    drawn = start.mode + 0.3 * rng.normal(size=(20 * CHAINS, d)) @ factor.T
    points = np.log(target.prior.natural(drawn))
    level = target.log_density(points)
    points, level = (found[np.isfinite(level)][:CHAINS] for found in (points, level))
    kept, half = [], CHAINS // 2
    one, two = slice(0, half), slice(half, None)
    for step in range(steps):
        for own, other in ((one, two), (two, one)):
            moved, log_ratio = proposed(points[own], points[other], rng)
            there = target.log_density(moved)
            taken = np.log(rng.random(half)) < there - level[own] + log_ratio
            points[own] = np.where(taken[:, None], moved, points[own])
            level[own] = np.where(taken, there, level[own])
        if step % KEPT_EVERY == 0 and step >= steps // 4:
            kept.append(points.copy())
    return np.array(kept)


def tell(names: tuple[str, ...], draws: Array) -> None:
    """Print mean, standard deviation and R-hat of each parameter, and the means of both halves."""
    for name, values in zip(names, np.moveaxis(np.exp(draws), 2, 0), strict=True):
        within, between = values.var(axis=0, ddof=1).mean(), values.mean(axis=0).var(ddof=1)
        halves = [part.mean() for part in np.array_split(values, 2)]
        print(
            f'    "{name}": ({values.mean():.5g}, {values.std():.4g}),  '
            f"# R-hat {np.sqrt(1 + between / within):.3f}, halves {halves[0]:.5g} {halves[1]:.5g}"
        )


if __name__ == "__main__":
    PROBLEM = sequel_problem(SEQUELS["glycolysis"].drawn(0))
    START = smcpn.laplace(PROBLEM, solver=HIDDEN_STEPS, seed=1)
    LENGTH = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    TARGET = Logarithms(START.maximum)
    tell(START.names, chains(TARGET, START, LENGTH, np.random.default_rng(0)))
