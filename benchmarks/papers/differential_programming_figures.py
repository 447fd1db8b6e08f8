"""The figures of ``docs/papers/differential-programming.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smcpn import Record
from smcpn.report.style import ACCENT, DARK, LIGHT, MIDDLE, figure, styled
from smcpn.results.simulation.simulation import Simulation

Array = NDArray[np.float64]
SHOWN = 150
"""Measurements that are drawn, at most."""


@dataclass(frozen=True)
class Forecast:
    """What is drawn of a forecast.

    states: Of the simulation's outputs.
    simulation: Of a record whose outputs are the true states.
    learned: What was measured.
    seen: Which state each of its outputs is.
    """

    states: tuple[str, ...]
    simulation: Simulation
    learned: Record
    seen: tuple[int, ...]


@styled
def forecast_figure(forecasts: Mapping[str, Forecast], columns: int = 1) -> Figure:
    """States against time: truth, measurements, mean, and two standard deviations."""
    panels = [(name, one, j) for name, one in forecasts.items() for j in range(len(one.states))]
    lines = -(-len(panels) // columns)
    drawn = figure(1.15 * lines + 0.6)
    axes = drawn.subplots(lines, columns, squeeze=False)
    for axis, (name, one, j) in zip(axes.flat, panels, strict=False):
        _forecast(axis, one, j)
        if j == 0 and name:
            axis.set_title(name, loc="left")
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("time")
    _legend(drawn, axes[0, 0])
    return drawn


def _forecast(panel: Axes, one: Forecast, j: int) -> None:
    t, truth = one.simulation.record.t, one.simulation.record.y[:, j]
    mean, sd = one.simulation.mean[:, j], np.sqrt(one.simulation.parameter_variance[:, j])
    panel.fill_between(t, mean - 2 * sd, mean + 2 * sd, color=LIGHT, lw=0, label="2 sd")
    panel.plot(t, truth, color=ACCENT, lw=1.4, label="truth")
    panel.plot(t, mean, color=DARK, ls="--", lw=0.9, label="mean")
    if j in one.seen:
        y = one.learned.y[:, one.seen.index(j)]
        rows = np.flatnonzero(np.isfinite(y))
        rows = rows[:: -(-len(rows) // SHOWN)]
        panel.plot(one.learned.t[rows], y[rows], ".", color=MIDDLE, ms=3, label="measured")
    panel.axvline(one.learned.t[-1], color=MIDDLE, lw=0.6, ls=":")
    panel.set_ylabel(one.states[j])
    span = np.ptp(truth)
    panel.set_ylim(truth.min() - 0.25 * span, truth.max() + 0.25 * span)


@styled
def interval_figure(
    studies: Mapping[str, tuple[Mapping[str, float], Mapping[str, Sequence[Sequence[float]]]]],
) -> Figure:
    """95 % intervals as multiples of the truth, ours beside the published.

    studies: By title the truth, and by whose they are a list of intervals in its order.
    """
    drawn = figure(2.6)
    ratios = [len(truth) for truth, _ in studies.values()]
    axes = drawn.subplots(1, len(studies), width_ratios=ratios, squeeze=False)[0]
    for panel, (title, (truth, whose)) in zip(axes, studies.items(), strict=True):
        values = np.array(list(truth.values()))
        places = np.arange(len(values))
        looks = zip((-0.15, 0.15), (MIDDLE, DARK), whose.items(), strict=True)
        for side, colour, (name, intervals) in looks:
            low, high = np.array(intervals).T / values
            panel.vlines(places + side, low, high, color=colour, lw=3, label=name)
        panel.axhline(1.0, color=ACCENT, lw=0.8, label="truth")
        panel.set_xticks(places, list(truth), fontsize=7, rotation=40, ha="right")
        panel.set_xlim(-0.6, len(values) - 0.4)
        panel.set_title(title)
    axes[0].set_ylabel("95 % interval / truth")
    _legend(drawn, axes[0])
    return drawn


def _legend(drawn: Figure, panel: Axes) -> None:
    handles, labels = panel.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels))
