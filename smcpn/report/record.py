"""Figure of a record: its inputs and outputs over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smcpn.model.record import Record, beside
from smcpn.report.style import DARK, MIDDLE, envelope, figure, over_time, plain, styled, with_unit

MOST = 6
"""Inputs, and outputs, that are drawn."""
MARKED = 60
"""Samples up to which each is a mark."""


@styled
def record_figure(
    record: Record, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> Figure:
    """Inputs and outputs of a record, below each other.

    Parameters
    ----------
    record : Record
    inputs, outputs : sequence of str
        Their names, where these are known.

    Returns
    -------
    Figure
        An axes for each of the first `MOST` inputs and of the first `MOST` outputs.
    """
    inputs = inputs or [f"input {j}" for j in range(record.n_inputs)]
    outputs = outputs or [f"output {j}" for j in range(record.n_outputs)]
    measured = zip(outputs, record.y.T[:MOST], strict=False)
    curves = [
        (DARK, with_unit(plain(n), record.unit_of(j)), y, j) for j, (n, y) in enumerate(measured)
    ]
    curves += [(MIDDLE, plain(n), u, -1) for n, u in zip(inputs, record.u.T[:MOST], strict=False)]
    curves = [one for one in curves if np.isfinite(one[2]).any()]
    drawing = figure(0.6 + 1.1 * max(1, len(curves)))
    panels = drawing.subplots(max(1, len(curves)), 1, sharex=True, squeeze=False)[:, 0]
    marker = "o" if len(record) <= MARKED else None
    for axes, (color, label, values, output) in zip(panels, curves, strict=False):
        axes.plot(*envelope(record.t, values), color=color, lw=0.9, marker=marker, ms=2.5, mew=0)
        axes.set_ylabel(label)
        if output >= 0:
            plot_limits(axes, record, output)
    panels[0].set_title(plain(record.name))
    panels[-1].set_xlim(float(record.t[0]), float(record.t[-1]) or None)
    panels[-1].set_xlabel(over_time(record))
    drawing.align_ylabels(list(panels))
    return drawing


def plot_limits(axes: Axes, record: Record, output: int) -> None:
    """Draw the limits of values that were not measured, as triangles towards where they lie."""
    limits = {"below a limit": ("y_upper", "v"), "above a limit": ("y_lower", "^")}
    for label, (name, marker) in limits.items():
        values = beside(record, name)[:, output]
        if np.isfinite(values).any():
            axes.plot(record.t, values, marker, color=MIDDLE, ms=4, mfc="none", label=label)
