"""Figures of profiles: how far the log density falls along a parameter, or over a dead time."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smcpn.estimate.dead_time import DelayEstimate
from smcpn.estimate.profile import DROP, ENOUGH, Profile, Profiles
from smcpn.report.parameters import WIDE, Scale
from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    envelope,
    figure,
    is_narrow,
    over_time,
    plain,
    styled,
    with_unit,
)

ACROSS = 3
"""Panels side by side."""


@styled
def profile_figure(profiles: Profiles) -> Figure:
    """Log density along every parameter, its 95 % interval, and the drop that ends it.

    There is an axes for each parameter, on which zero is the top of its profile.
    """
    count = len(profiles.rows)
    across = 1 if is_narrow() else min(ACROSS, count)
    down = -(-count // across)
    drawing = figure(0.4 + 1.9 * down)
    panels = drawing.subplots(down, across, squeeze=False, sharey=True).ravel()
    for row, axes in zip(profiles.rows, panels, strict=False):
        _draw(axes, row)
    for axes in panels[count:]:
        axes.set_axis_off()
    for axes in panels[:count:across]:
        axes.set_ylabel("log density")
    drawing.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=2)
    return drawing


@styled
def delay_figure(found: DelayEstimate) -> Figure:
    """Profile over the dead time, and the output measured and by the model of the best one."""
    record = found.record
    drawing = figure(4.2)
    above, below = drawing.subplots(2, 1)
    _draw(above, found.profile)
    above.set_title(str(found))
    above.set_xlabel(with_unit("dead time", record.t_unit))
    above.set_ylabel("log-likelihood")
    measured = envelope(record.t, record.y[:, 0])
    below.plot(*measured, color=MIDDLE, marker=".", ms=3, mew=0, lw=0.5, label="measured")
    below.plot(*envelope(record.t, found.simulated), color=DARK, label="linear model")
    below.set_title(found.model)
    below.set_xlabel(over_time(record))
    below.set_ylabel(with_unit("output", record.unit_of(0)))
    for axes in (above, below):
        axes.legend(loc="best", ncols=2)
    drawing.align_ylabels([above, below])
    return drawing


def _draw(axes: Axes, row: Profile) -> None:
    values = row.values
    scale = Scale(bool(values[0] > 0.0 and values[-1] > WIDE * values[0]))
    low = values[0] if np.isnan(row.low) else row.low
    high = values[-1] if np.isnan(row.high) else row.high
    axes.axvspan(low, high, color=LIGHT, lw=0, zorder=0)
    axes.axhline(-DROP, color=ACCENT, ls="--", lw=0.9, label="95 %")
    axes.plot(values, -row.drop, color=DARK, marker="o", ms=2.5, mew=0, label="profile")
    axes.set_ylim(-ENOUGH - 0.3, 0.3)
    near = np.flatnonzero(row.drop < ENOUGH)
    ends = values[[max(near[0] - 1, 0), min(near[-1] + 1, len(values) - 1)]]
    scale.mark(axes.xaxis, float(ends[0]), float(ends[1]), 4)
    axes.set_xlabel(plain(row.name))
    axes.set_title(row.interval)
