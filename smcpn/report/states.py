"""Figure of the states of a record, given its outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    band_envelope,
    columns,
    envelope,
    figure,
    over_time,
    plain,
    styled,
)
from smcpn.simulation.states import States

MARKED = 400
"""Samples up to which each measurement is a mark of its own."""
PATHS = 10
"""Drawn paths that are shown, at most."""


@styled
def states_figure(states: States) -> Figure:
    """Smoothed mean and 95 % band of every state, the filtered mean, and what was measured.

    Returns
    -------
    Figure
        One axes per state.
    """
    count = len(states.names)
    drawing = figure(1.0 + 1.5 * count)
    panels = drawing.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for i, axes in enumerate(panels):
        _plot_state(axes, states, i)
    panels[0].set_title(f"{plain(states.record.name)}: states given all samples")
    panels[-1].set_xlabel(over_time(states.record))
    found: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    drawing.legend(
        list(found.values()), list(found), loc="outside lower left", ncols=columns(len(found))
    )
    drawing.align_ylabels(list(panels))
    return drawing


def _plot_state(axes: Axes, states: States, i: int) -> None:
    t, output = states.record.t, states.measured[i]
    axes.fill_between(
        *band_envelope(t, states.lower[:, i], states.upper[:, i]),
        color=LIGHT, lw=0, label="95 % band",
    )  # fmt: skip
    if output is not None and states.record.n_outputs:
        style: dict[str, Any] = {"lw": 2.0}
        if len(t) <= MARKED:
            style = {"ls": "", "marker": "o", "ms": 3.0, "mew": 0}
        y = states.record.y[:, output]
        axes.plot(*envelope(t, y), color=MIDDLE, label="measured", **style)
    for path in states.draws[:PATHS]:
        axes.plot(*envelope(t, path[:, i]), color=MIDDLE, lw=0.4, alpha=0.6, label="draws")
    filtered = states.filtered_mean[:, i]
    axes.plot(*envelope(t, filtered), color=ACCENT, lw=0.6, ls="--", label="filtered")
    axes.plot(*envelope(t, states.mean[:, i]), color=DARK, lw=0.9, label="smoothed")
    axes.set_xlim(float(np.min(t)), float(np.max(t)))
    axes.set_ylabel(plain(states.names[i]))
