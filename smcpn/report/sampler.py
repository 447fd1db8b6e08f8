"""Effective sample size, acceptance and evidence of a sampler over the record."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from smcpn.report.style import ACCENT, DARK, MIDDLE, figure, styled
from smcpn.smc.replicates import Populations

POINTS = 1500
"""Samples drawn at most, evenly spread on the logarithmic axis."""


@styled
def run_figure(populations: Populations) -> Figure:
    """Effective sample size with the rejuvenations, their acceptance, and the log-evidence.

    Samples are counted on a logarithmic axis: rejuvenations come at about geometric times.

    Returns
    -------
    Figure
        Three axes above each other.
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
