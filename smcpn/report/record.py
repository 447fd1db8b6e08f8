"""Figure of a record: its inputs and outputs over time."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from smcpn.model.record import Record
from smcpn.report.style import DARK, MIDDLE, envelope, figure, over_time, plain, styled, with_unit

MOST = 6
"""Inputs, and outputs, that are drawn."""
MARKED = 60
"""Samples up to which each is a mark."""


@styled
def record_figure(record: Record) -> Figure:
    """Inputs and outputs of a record, below each other.

    Returns
    -------
    Figure
        An axes for each of the first `MOST` inputs and of the first `MOST` outputs.
    """
    curves = [
        (f"output {j + 1}", record.unit_of(j), y) for j, y in enumerate(record.y.T[:MOST])
    ] + [(f"input {j + 1}", "", u) for j, u in enumerate(record.u.T[:MOST])]  # fmt: skip
    curves = [one for one in curves if np.isfinite(one[2]).any()]
    drawing = figure(0.6 + 1.1 * max(1, len(curves)))
    panels = drawing.subplots(max(1, len(curves)), 1, sharex=True, squeeze=False)[:, 0]
    marker = "o" if len(record) <= MARKED else None
    for axes, (name, unit, values) in zip(panels, curves, strict=False):
        color = DARK if name.startswith("output") else MIDDLE
        axes.plot(*envelope(record.t, values), color=color, lw=0.9, marker=marker, ms=2.5, mew=0)
        axes.set_ylabel(with_unit(name, unit))
    panels[0].set_title(plain(record.name))
    panels[-1].set_xlim(float(record.t[0]), float(record.t[-1]) or None)
    panels[-1].set_xlabel(over_time(record))
    drawing.align_ylabels(list(panels))
    return drawing
