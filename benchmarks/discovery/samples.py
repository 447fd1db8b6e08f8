"""How probable the true equations are, by the number of samples and the noise.

Lotka-Volterra, both states measured four times a year, all monomials to the second degree.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import smcpn
from benchmarks.executors import each
from benchmarks.rows import Row
from benchmarks.study import Picture, Result, study
from smcpn.report.style import ACCENT, DARK, figure, styled

SAMPLES = (10, 15, 20, 30, 60, 120)
NOISES = (0.15, 0.4)
SEEDS = 5
STATES = ("hares", "foxes")
TRUE = {"hares'[hares]", "hares'[hares foxes]", "foxes'[foxes]", "foxes'[hares foxes]"}


@smcpn.ode
def islands(hares, foxes):
    """One hare more for each in a year, and foxes that live on them."""
    return hares - 0.5 * hares * foxes, 0.25 * hares * foxes - 0.8 * foxes


def census(samples: int, noise: float, seed: int) -> smcpn.Record:
    """Count both species, with errors."""
    silent = smcpn.Record(dt=0.25, y=np.zeros((samples, 2)))
    y = smcpn.simulate(islands, silent, {}, observe=STATES, initial=[4.0, 1.0], steps=10)
    return smcpn.Record(y=y + noise * np.random.default_rng(seed).normal(size=y.shape), dt=0.25)


def probability_of_truth(samples: int, noise: float, seed: int) -> float:
    """Probability of the true equations, by the search."""
    found = smcpn.discover(
        census(samples, noise, seed),
        library=smcpn.polynomials(2),
        states=STATES,
        seed=seed,
    )
    return sum(model.probability for model in found.models if set(model.names) == TRUE)


def _probability(task: tuple[int, float, int]) -> float:
    return probability_of_truth(*task)


@study("samples", quick=None)
def samples(quick: bool) -> Iterator[Result]:
    """Probability of the true equations by the number of samples and the noise, five seeds each."""
    tasks = [(n, noise, seed) for noise in NOISES for n in SAMPLES for seed in range(SEEDS)]
    found = np.array(list(each(_probability, tasks))).reshape(len(NOISES), len(SAMPLES), SEEDS)
    for noise, values in zip(NOISES, found, strict=True):
        for n, own in zip(SAMPLES, values, strict=True):
            yield Row(f"noise {noise:g}, {n} samples: median", float(np.median(own)))
    yield Picture("discovery_samples", partial(samples_figure, found))


@styled
def samples_figure(found: NDArray[np.float64]) -> Figure:
    """Each seed a dot, medians a line, over the number of samples."""
    drawing = figure(2.8)
    axes = drawing.subplots()
    looks = zip(NOISES, found, (DARK, ACCENT), "os", (0.98, 1.02), strict=True)
    for noise, values, colour, marker, shift in looks:
        for n, own in zip(SAMPLES, values, strict=True):
            axes.plot([shift * n] * SEEDS, own, marker, color=colour, ms=3, alpha=0.5)
        axes.plot(SAMPLES, np.median(values, axis=1), color=colour, label=f"noise {noise}")
    axes.set_xscale("log")
    axes.set_xticks(SAMPLES, labels=map(str, SAMPLES))
    axes.minorticks_off()
    axes.set(xlabel="samples", ylabel="probability of the true equations", xlim=(9, 133))
    axes.legend()
    return drawing
