"""Figure of a comparison of models: how far each is behind the best."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from smcpn.report.style import ACCENT, DARK, figure, plain, styled
from smcpn.results.compare import ModelComparison

LONGEST = 24
"""Characters of a name that fit beside the bars."""


@styled
def comparison_figure(compared: ModelComparison) -> Figure:
    """Bars of how far each model is behind the best one, in nats of the figure that decides."""
    behind = compared.relative(compared.deciding)
    drawing = figure(0.7 + 0.28 * len(behind))
    axes = drawing.subplots()
    places = np.arange(len(behind))
    values = np.nan_to_num(np.abs(list(behind.values())))
    axes.barh(places, values, height=0.6, color=DARK, lw=0)
    for place, (value, real) in enumerate(zip(values, behind.values(), strict=True)):
        text = "best" if real == 0.0 else f"{value:.2f}" if np.isfinite(real) else "not known"
        color = ACCENT if real == 0.0 else "k"
        axes.text(value, place, f" {text}", va="center", fontsize=8.0, color=color)
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in behind]
    axes.set_yticks(places, [plain(name) for name in short])
    axes.set_ylim(len(behind) - 0.4, -0.6)
    axes.set_xlim(0.0, 1.2 * max(float(values.max(initial=0.0)), 1.0))
    axes.set_xlabel(f"{compared.deciding.replace('_', '-')} behind the best")
    axes.tick_params(left=False)
    return drawing
