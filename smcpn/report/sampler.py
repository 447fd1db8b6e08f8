"""The way of a sampler: sample size, acceptance, evidence of particles; chains and ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from smcpn.report.style import ACCENT, DARK, LIGHT, MIDDLE, figure, is_narrow, plain, styled
from smcpn.results.nuts import NutsPosterior
from smcpn.smc.particles import normalise
from smcpn.smc.rejuvenation import Rejuvenation
from smcpn.smc.replicates import Populations

POINTS = 1500
"""Samples drawn at most, evenly spread on the logarithmic axis."""
BINS = 20
"""Of the ranks of a chain."""


@styled
def run_figure(populations: Populations) -> Figure:
    """Draw the way of the sampler: over the samples, or over the powers of the likelihood."""
    return _over_samples(populations) if len(populations.path_samples) > 1 else _at_end(populations)


def _at_end(populations: Populations) -> Figure:
    """Concentration of the weights, and the acceptance at each power of the likelihood."""
    made = populations.rejuvenations
    below = bool(made) and is_narrow()
    drawing = figure(4.6 if below else 2.6)
    panels = drawing.subplots(2 if below else 1, 2 if made and not below else 1, squeeze=False)
    weights, *beside = panels.ravel()
    n = len(populations.theta)
    held = np.sort(normalise(populations.log_weights))[::-1].cumsum()
    weights.plot(np.arange(1, n + 1) / n, held, color=DARK)
    weights.plot([0, 1], [0, 1], color=MIDDLE, lw=0.8, ls="--")
    weights.set_xlabel("share of the particles")
    weights.set_ylabel("share of the weight")
    weights.set_title(f"{n} particles, {populations.ess:.0f} effective")
    for axes in beside:
        _plot_moves(axes, made)
    return drawing


def _plot_moves(moves: Axes, made: Sequence[Rejuvenation]) -> None:
    """Acceptance at each power of the likelihood."""
    powers, accepted = [r.exponent for r in made], [r.acceptance for r in made]
    moves.plot(powers, accepted, color=MIDDLE, lw=0.8, marker="o", ms=3, mfc=DARK, mew=0)
    moves.set_xlim(-0.03, 1.03)
    moves.set_ylim(0, 1)
    moves.set_xlabel("power of the likelihood")
    moves.set_ylabel("accepted share")
    moves.set_title(f"{len(made)} rejuvenations")


def _over_samples(populations: Populations) -> Figure:
    """Effective sample size with the rejuvenations, their acceptance, and the log-evidence.

    Samples are counted on a logarithmic axis: rejuvenations come at about geometric times.
    """
    samples, n = populations.path_samples, int(populations.path_samples[-1])
    drawing = figure(5.0)
    ess, moves, evidence = drawing.subplots(3, 1, sharex=True, height_ratios=[2, 1.2, 1.6])
    known = np.searchsorted(samples, np.geomspace(1, n, POINTS).astype(int))
    shown = np.unique(np.append(known, len(samples) - 1))
    ess.plot(
        samples[shown], populations.ess_path[shown], color=DARK, lw=0.9, label="before rejuvenation"
    )
    at = np.array([r.sample + 1 for r in populations.rejuvenations])
    before = np.array([r.ess for r in populations.rejuvenations])
    accepted = np.array([r.acceptance for r in populations.rejuvenations])
    ess.plot(at, before, ls="", marker="v", ms=4, color=ACCENT, mew=0, label="rejuvenation")
    ess.set_ylim(0, 1.05 * len(populations.theta))
    ess.set_ylabel("effective\nparticles")
    ess.set_title(f"{len(populations.theta)} particles, {len(at)} rejuvenations")
    ess.legend(loc="lower right", ncols=2)
    moves.plot(at, accepted, color=MIDDLE, lw=0.8, marker="o", ms=3, mfc=DARK, mew=0)
    moves.set_ylim(0, 1)
    moves.set_ylabel("accepted\nshare")
    evidence.plot(samples[shown], populations.log_evidence_path[shown], color=DARK)
    evidence.set_ylabel("log-evidence")
    evidence.set_xlabel("samples assimilated")
    evidence.set_xscale("log")
    evidence.set_xlim(1, max(n, 2))
    drawing.align_ylabels([ess, moves, evidence])
    return drawing


@styled
def chains_figure(posterior: NutsPosterior) -> Figure:
    """Draw the chains of the parameter with the fewest effective draws, and their ranks among all.

    Divergent trajectories are marked. Where the chains agree, every chain has its share of every
    rank, up to chance.
    """
    j = int(np.argmin(posterior.ess_bulk))
    chains = posterior.chains[:, :, j]
    drawing = figure(1.0 + 0.9 * len(chains))
    axes = drawing.subplots(
        len(chains), 2, squeeze=False, sharex="col", width_ratios=(3, 1), sharey="col"
    )
    draws = chains.shape[1]
    ranks = stats.rankdata(chains).reshape(chains.shape)
    for row, values, astray, ranked in zip(
        axes, chains, posterior.statistics.divergent, ranks, strict=True
    ):
        row[0].plot(values, color=DARK, lw=0.4)
        row[0].plot(np.flatnonzero(astray), values[astray], "o", color=ACCENT, ms=2.5)
        row[0].set_ylabel(plain(posterior.names[j]))
        row[1].hist(ranked, BINS, range=(0, chains.size), color=LIGHT)
        row[1].axhline(draws / BINS, color=DARK, lw=0.8, ls="--")
    axes[-1, 0].set_xlabel("draw")
    axes[-1, 1].set_xlabel("rank among all")
    return drawing
