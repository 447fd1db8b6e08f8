"""Draw how probable the true equations are, by the number of samples and the noise.

    python -m benchmarks.discovery.figures docs/figures

Lotka-Volterra, both states measured four times a year, all monomials to the second degree.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import smcpn
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


@styled
def samples_figure() -> Figure:
    """Each seed a dot, medians a line, over the number of samples."""
    drawing = figure(2.8)
    axes = drawing.subplots()
    for noise, colour, marker, shift in zip(
        NOISES, (DARK, ACCENT), "os", (0.98, 1.02), strict=True
    ):
        values = np.array(
            [[probability_of_truth(n, noise, seed) for seed in range(SEEDS)] for n in SAMPLES]
        )
        for n, found in zip(SAMPLES, values, strict=True):
            axes.plot([shift * n] * SEEDS, found, marker, color=colour, ms=3, alpha=0.5)
        axes.plot(SAMPLES, np.median(values, axis=1), color=colour, label=f"noise {noise}")
    axes.set_xscale("log")
    axes.set_xticks(SAMPLES, labels=map(str, SAMPLES))
    axes.minorticks_off()
    axes.set(xlabel="samples", ylabel="probability of the true equations", xlim=(9, 133))
    axes.legend()
    return drawing


if __name__ == "__main__":
    samples_figure().savefig(Path(sys.argv[1]) / "discovery_samples.png", dpi=150)
