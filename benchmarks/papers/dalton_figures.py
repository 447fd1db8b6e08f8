"""The figures of ``docs/papers/dalton.md``, drawn from what the command has measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from benchmarks.papers.dalton_posteriors import Marginals
from benchmarks.papers.dalton_starts import Sweep
from smcpn.report.style import ACCENT, DARK, MIDDLE, figure, styled

SHADES = ("#a9bccf", "#5d7f9f", DARK)
"""From the longest step to the shortest."""
NAMES = {"dalton": "DALTON", "fenrir": "Fenrir", "filtering": "one filter", "classical": "RK"}
MARKERS = {"dalton": "o", "filtering": "s", "fenrir": "^", "classical": "D"}
ASIDE = {"dalton": 0.75, "filtering": 1.0, "fenrir": 1.33, "classical": 1.78}
"""Factor on a start, so that markers do not hide each other."""
POINTS, MOST_DRAWS = 200, 4000
MOST_TICKS = 2


@styled
def posterior_figure(posteriors: Sequence[Marginals]) -> Figure:
    """Marginal densities: a row for each likelihood that has any, a column for each parameter."""
    reference = next((m for m in posteriors if m.likelihood == "classical" and m.exists), None)
    others = [m for m in posteriors if m.likelihood != "classical" and m.exists]
    rows = list(dict.fromkeys(_row(m) for m in others))
    study = posteriors[0].study
    drawn = figure(1.1 * len(rows) + 0.7)
    axes = drawn.subplots(len(rows), len(study.names), sharex="col", squeeze=False)
    steps = list(dict.fromkeys(m.step for m in posteriors if m.step))
    for j, name in enumerate(study.names):
        axes[0, j].set_title(name)
        low, high = _limits(posteriors, j, study.truth[j])
        for i, row in enumerate(rows):
            panel = axes[i, j]
            panel.set(yticks=[], xlim=(low, high))
            panel.xaxis.set_major_locator(MaxNLocator(MOST_TICKS))
            panel.axvline(study.truth[j], color=ACCENT, lw=0.8, label="truth")
            if reference is not None:
                _density(panel, reference, j, color=MIDDLE, lw=2.2, label="RK")
            for m in posteriors:
                if _row(m) == row and m.exists:
                    shade = SHADES[steps.index(m.step) % len(SHADES)]
                    _density(panel, m, j, color=shade, label=f"dt = {m.step}")
    for i, (likelihood, kind) in enumerate(rows):
        axes[i, 0].set_ylabel(f"{NAMES[likelihood]}\n{kind}", fontsize=7.5)
    handles = {}
    for panel in axes.flat:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    return drawn


def _row(m: Marginals) -> tuple[str, str]:
    return m.likelihood, m.kind


def _limits(posteriors: Sequence[Marginals], j: int, truth: float) -> tuple[float, float]:
    """About the truth and the posteriors at the finest step, or Runge-Kutta's."""
    last = [m for m in posteriors if m.step][-1].step
    shown = [m.draws[:, j] for m in posteriors if m.exists and m.step in ("", last)]
    if not shown:
        return 0.9 * truth, 1.1 * truth
    ends = np.array([np.quantile(draws, [0.01, 0.99]) for draws in shown])
    low, high = min(ends[:, 0].min(), truth), max(ends[:, 1].max(), truth)
    margin = 0.3 * (high - low)
    return low - margin, high + margin


def _density(panel: Axes, m: Marginals, j: int, **look: object) -> None:
    """A kernel density of the unconstrained coordinate; the height of each is one."""
    coordinate = m.study.problem.prior.maps[j]
    theta = coordinate.unconstrained(m.draws[:MOST_DRAWS, j])
    low, high = np.quantile(theta, [0.001, 0.999])
    margin = 0.3 * (high - low)
    at = np.linspace(low - margin, high + margin, POINTS)
    x = coordinate.natural(at)
    values = stats.gaussian_kde(theta)(at) / np.gradient(x, at)
    panel.plot(x, values / values.max(), **look)  # pyright: ignore[reportArgumentType]


@styled
def starts_figure(sweeps: Sequence[Sweep]) -> Figure:
    """Where each search ended against where it began (Figure 5), diffusion learned or known."""
    kinds = [learned for learned in (False, True) if any(s.learned is learned for s in sweeps)]
    names = sweeps[0].maximum.names[:3]
    drawn = figure(2.1 * len(kinds) + 0.5)
    axes = drawn.subplots(len(kinds), 3, sharex=True, sharey="col", squeeze=False)
    truth = {"alpha": 10.0, "rho": 28.0, "beta": 8.0 / 3.0}
    for i, learned in enumerate(kinds):
        for j, name in enumerate(names):
            panel = axes[i, j]
            panel.set(xscale="log", yscale="log", xlim=(0.05, 200.0))
            panel.set_ylim(truth[name] * 1e-3, truth[name] * 1e3)
            panel.axhline(truth[name], color=ACCENT, lw=0.8, label="truth")
            for sweep in (s for s in sweeps if s.learned is learned):
                first = ASIDE[sweep.likelihood] * np.array([one.start[j] for one in sweep.highest])
                ends = np.clip(sweep.ends[:, j], *panel.get_ylim())
                panel.plot(first, ends, ls="none", ms=4, marker=MARKERS[sweep.likelihood],
                           mfc=DARK if sweep.likelihood == "dalton" else "none", mec=DARK,
                           label=NAMES[sweep.likelihood])  # fmt: skip
            panel.set_title(name + (", diffusion learned" if learned else ""))
        axes[i, 0].set_ylabel("end")
    for panel in axes[-1]:
        panel.set(xlabel="start", xticks=[0.1, 1.0, 10.0, 100.0])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=5)
    return drawn
