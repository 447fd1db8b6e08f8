"""Figure of profiles: how far the log density falls along each parameter."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smcpn.estimate.profile import DROP, ENOUGH, Profile, Profiles
from smcpn.report.scales import WIDE, Scale
from smcpn.report.style import ACCENT, DARK, LIGHT, figure, is_narrow, plain, styled

ACROSS = 3
"""Panels side by side."""


@styled
def profile_figure(profiles: Profiles) -> Figure:
    """Log density along every parameter, its 95 % interval, and the drop that ends it.

    Returns
    -------
    Figure
        An axes for each parameter, on which zero is the top of its profile.
    """
    count = len(profiles.rows)
    across = 1 if is_narrow() else min(ACROSS, count)
    down = -(-count // across)
    drawing = figure(0.4 + 1.9 * down)
    panels = drawing.subplots(down, across, squeeze=False, sharey=True).ravel()
    for row, axes in zip(profiles.rows, panels, strict=False):
        _plot(axes, row)
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes in panels[:count:across]:
        axes.set_ylabel("log density")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return drawing


def _plot(axes: Axes, row: Profile) -> None:
    values = row.values
    scale = Scale(bool(values[0] > 0.0 and values[-1] > WIDE * values[0]))
    low = values[0] if np.isnan(row.low) else row.low
    high = values[-1] if np.isnan(row.high) else row.high
    axes.axvspan(low, high, color=LIGHT, lw=0, zorder=0)
    axes.axhline(-DROP, color=ACCENT, ls="--", lw=0.9, label="95 %")
    axes.plot(values, -row.drop, color=DARK, marker="o", ms=2.5, mew=0, label="profile")
    axes.set_ylim(-ENOUGH - 0.3, 0.3)
    scale.mark(axes.xaxis, float(values[0]), float(values[-1]), 4)
    axes.set_xlabel(plain(row.name))
    axes.set_title(row.interval)
