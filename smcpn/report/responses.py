"""Bode diagram and step response of a linear model, with the band of its draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from smcpn.base.units import frequency_unit
from smcpn.report.style import DARK, LIGHT, figure, plain, styled, with_unit
from smcpn.results.simulation.state_space import StateSpace

Array = NDArray[np.float64]

QUARTERS = [1, 1.5, 3, 4.5, 9, 10]
"""Distances of ticks at degrees, but for powers of ten: parts and multiples of 90."""


@styled
def bode_figure(linear: StateSpace, frequencies: Array | None) -> Figure:
    """Magnitude and phase over frequency, a pair of axes for every output and input.

    An output has two rows, magnitude in decibels above phase in degrees; an input has a column.
    """
    bode = linear.bode(frequencies)
    q, m = bode.response.shape[1:]
    drawing = figure(0.6 + 2.9 * q)
    panels = drawing.subplots(
        2 * q, m, sharex=True, sharey="row", squeeze=False, height_ratios=[1.5, 1.0] * q
    )
    rows = (
        (bode.magnitude, bode.magnitude_interval(), "magnitude (dB)"),
        (bode.phase, bode.phase_interval(), "phase (°)"),
    )
    for i in range(q):
        for k, (curve, (lower, upper), label) in enumerate(rows):
            for j in range(m):
                axes = panels[2 * i + k, j]
                draw_band(axes, bode.frequency, curve[:, i, j], lower[:, i, j], upper[:, i, j])
                axes.set_xscale("log")
                if j == 0:
                    axes.set_ylabel(label)
        panels[2 * i + 1, 0].yaxis.set_major_locator(MaxNLocator(nbins=4, steps=QUARTERS))
        for j in range(m):
            panels[2 * i, j].set_title(f"{plain(linear.inputs[j])} to {plain(linear.outputs[i])}")
    _finish(drawing, linear, panels, with_unit("frequency", frequency_unit(bode.t_unit)))
    drawing.align_ylabels(list(panels[:, 0]))
    return drawing


def _finish(drawing: Figure, linear: StateSpace, panels: NDArray[Any], label: str) -> None:
    """Add what stands below the panels, and about all of them."""
    for axes in panels[-1]:
        axes.set_xlabel(label)
    drawing.suptitle(plain(linear.heading), fontsize=9.0)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower left", ncols=2)


def draw_band(axes: Axes, x: Array, curve: Array, lower: Array, upper: Array) -> None:
    """Draw the response at the mean parameters over the band of the draws, all (T,)."""
    finite = [np.where(np.isfinite(one), one, np.nan) for one in (curve, lower, upper)]
    axes.fill_between(x, finite[1], finite[2], color=LIGHT, lw=0, label="95 % of the draws")
    axes.plot(x, finite[0], color=DARK, label="at the mean parameters")
    if x[0] < x[-1]:
        axes.set_xlim(float(x[0]), float(x[-1]))
    axes.grid(visible=True, which="major", lw=0.3, color=LIGHT)


@styled
def step_figure(linear: StateSpace, duration: float | None) -> Figure:
    """Response over time, a row of axes for every output and a column for every input."""
    step = linear.step(duration)
    q, m = step.response.shape[1:]
    drawing = figure(0.6 + 2.0 * q)
    panels = drawing.subplots(q, m, sharex=True, sharey="row", squeeze=False)
    lower, upper = step.interval()
    for i in range(q):
        for j in range(m):
            axes, at = panels[i, j], (slice(None), i, j)
            draw_band(axes, step.t, step.response[at], lower[at], upper[at])
            axes.set_title(f"{plain(linear.inputs[j])} to {plain(linear.outputs[i])}")
        panels[i, 0].set_ylabel("step response")
    _finish(drawing, linear, panels, with_unit("time", step.t_unit))
    return drawing
