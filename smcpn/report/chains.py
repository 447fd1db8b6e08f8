"""Figure of the Markov chains of a parameter."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from smcpn.report.style import ACCENT, DARK, LIGHT, figure, plain, styled
from smcpn.results.nuts import NutsPosterior

BINS = 20


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
