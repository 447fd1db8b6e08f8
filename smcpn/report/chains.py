"""Figure of the Markov chains of a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from smcpn.report.style import ACCENT, DARK, LIGHT, figure, plain, styled

BINS = 20


@styled
def chains_figure(name: str, chains: NDArray[Any], divergent: NDArray[np.bool_]) -> Figure:
    """Draw each chain, its divergent trajectories marked, and the ranks of its draws among all.

    Where the chains agree, every chain has its share of every rank, up to chance.

    Parameters
    ----------
    chains : ndarray, (C, D)
    divergent : ndarray of bool, (C, D)
    """
    drawing = figure(1.0 + 0.9 * len(chains))
    axes = drawing.subplots(
        len(chains), 2, squeeze=False, sharex="col", width_ratios=(3, 1), sharey="col"
    )
    draws = chains.shape[1]
    ranks = stats.rankdata(chains).reshape(chains.shape)
    for row, values, astray, ranked in zip(axes, chains, divergent, ranks, strict=True):
        row[0].plot(values, color=DARK, lw=0.4)
        row[0].plot(np.flatnonzero(astray), values[astray], "o", color=ACCENT, ms=2.5)
        row[0].set_ylabel(plain(name))
        row[1].hist(ranked, BINS, range=(0, chains.size), color=LIGHT)
        row[1].axhline(draws / BINS, color=DARK, lw=0.8, ls="--")
    axes[-1, 0].set_xlabel("draw")
    axes[-1, 1].set_xlabel("rank among all")
    return drawing
