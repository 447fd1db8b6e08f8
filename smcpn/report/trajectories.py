"""Curves over time with a 95 % band: a record, simulated outputs, states, an ODE solution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from smcpn.errors import whole_number
from smcpn.model.record import Record, beside
from smcpn.pn.solution import Solution
from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    PAPER,
    WIDTH,
    as_points,
    band_envelope,
    columns,
    envelope,
    figure,
    over_time,
    plain,
    styled,
    with_unit,
)
from smcpn.results.simulation.prior_drawn import PriorPrediction
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.simulation.states import States

MOST = 6
"""Inputs, and outputs, that are drawn."""
MARKED = 60
"""Samples up to which each is a mark."""


@styled
def record_figure(
    record: Record, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> Figure:
    """Inputs and outputs of a record, below each other.

    There is an axes for each of the first `MOST` inputs and of the first `MOST` outputs; their
    names are given where known.
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


Array = NDArray[np.float64]

Learned = Sequence[tuple[int, int]]
"""Samples [a, b) that were learned from."""
ZOOM = 160
"""Samples of the closer look."""
MOST_OUTPUTS = 12
"""Outputs that one figure shows."""
MARKED_STATES, DRAWN_PATHS = 400, 10
"""Samples up to which each measurement of a state is a mark, and paths that are shown, at most."""
FAR = 5.0
"""Measured ranges from which the band of a prior hides what was measured."""


def simulation_figure(simulation: Simulation, output: int | None = None) -> Figure:
    """Measured and simulated outputs, or one of them and closer where the error is largest.

    Raises `InputError` if there is no such output.
    """
    outputs = simulation.mean.shape[1]
    if output is None and outputs > 1:
        return simulation.picture()
    return _output_figure(simulation, whole_number("output", output or 0, 0, outputs - 1))


@styled
def _output_figure(simulation: Simulation, output: int) -> Figure:
    """Measured and simulated output with the 95 % predictive band, the error, and a zoom.

    There are four axes: the whole record, the error below it, and the samples about the largest
    error, outputs and errors next to each other. The first two where the record is not much
    longer, one without measurements.
    """
    record, mean, learned = simulation.record, simulation.mean[:, output], simulation.learned
    t, half, unit = record.t, simulation.upper[:, output] - mean, record.unit_of(output)
    label = with_unit(plain(simulation.names_of_outputs[output]), unit)
    error = with_unit("error", unit)
    title = f"{plain(record.name)}: {simulation.kind}"
    if simulation.diverged:
        title += f" ({100 * simulation.diverged:.2g} % diverged)"
    y = record.y[:, output] if record.n_outputs else np.full(len(t), np.nan)
    if not np.isfinite(y).any():
        drawing = figure(2.6)
        whole = drawing.subplots()
        _plot_curves(whole, t, None, mean, half, label)
        whole.set(title=title, xlabel=over_time(record))
        return drawing
    part = worst_window(np.abs(y - mean))
    closer = len(t) > 2 * ZOOM
    drawing = figure(6.4 if closer else 4.4)
    heights = [2, 1.2, 1.8] if closer else [2, 1.2]
    panels = drawing.subplot_mosaic("ww;ee;cd" if closer else "w;e", height_ratios=heights)
    whole, below = panels["w"], panels["e"]
    below.sharex(whole)
    _plot_curves(whole, t, y, mean, half, label)
    plot_limits(whole, record, output)
    _plot_error(below, t, y - mean, half, error)
    for axes in (whole, below):
        _shade(axes, t, learned)
    rmse = f"{simulation.rmse_of_mean[output]:.3g}{f' {plain(unit)}' if unit else ''}"
    whole.set_title(
        f"{title}, fit {simulation.fit[output]:.2f} %, RMSE {rmse}, "
        f"{100 * simulation.coverage[output]:.1f} % inside the 95 % band"
    )
    whole.tick_params(labelbottom=False)
    below.set_xlabel(over_time(record))
    if closer:
        close, close_error = panels["c"], panels["d"]
        _plot_curves(close, t[part], y[part], mean[part], half[part], label)
        _plot_error(close_error, t[part], (y - mean)[part], half[part], error)
        close.set_title("where the error is largest (the bar above)")
        first, last = float(t[part][0]), float(t[part][-1])
        for axes in (whole, below):
            axes.axvspan(first, last, ymax=0.02, color=ACCENT, lw=0)
        for axes in (close, close_error):
            axes.set(xlabel=over_time(record), xlim=(first, last))
            axes.xaxis.set_major_locator(MaxNLocator(4))
    drawing.legend(*whole.get_legend_handles_labels(), loc="outside upper left", ncols=columns(4))
    drawing.align_ylabels(drawing.axes)
    return drawing


@styled
def outputs_figure(simulation: Simulation) -> Figure:
    """Every measured and simulated output with the 95 % predictive band, the error below each.

    There are two axes for each of the first `MOST_OUTPUTS` outputs; one where nothing was measured.
    """
    record, names, learned = simulation.record, simulation.names_of_outputs, simulation.learned
    mean, upper, fit = simulation.mean, simulation.upper, simulation.fit
    t, shown = record.t, min(len(names), MOST_OUTPUTS)
    units = [record.unit_of(j) for j in range(shown)]
    y = record.y if record.n_outputs else np.full(mean.shape, np.nan)
    measured = [bool(np.isfinite(y[:, j]).any()) for j in range(shown)]
    heights = [h for one in measured for h in ([2.0, 1.0] if one else [2.0])]
    drawing = figure(0.7 + 0.85 * sum(heights))
    grid = drawing.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)
    panels = iter(grid.ravel())
    for j in range(shown):
        curves, half = next(panels), upper[:, j] - mean[:, j]
        label = with_unit(plain(names[j]), units[j])
        _plot_curves(curves, t, y[:, j] if measured[j] else None, mean[:, j], half, label)
        _shade(curves, t, learned)
        if record.n_outputs:
            plot_limits(curves, record, j)
        if measured[j]:
            scored = f": fit {fit[j]:.2f} %" if np.isfinite(fit[j]) else ""
            curves.set_title(plain(names[j]) + scored)
            below, label = next(panels), with_unit("error", units[j]).replace(" ", "\n", 1)
            _plot_error(below, t, y[:, j] - mean[:, j], half, label)
            _shade(below, t, learned)
    drawing.axes[-1].set_xlabel(over_time(record))
    rest = f", the first {shown} of {len(names)} outputs" if shown < len(names) else ""
    first = max(drawing.axes, key=lambda one: len(one.get_legend_handles_labels()[1]))
    drawing.legend(
        *first.get_legend_handles_labels(), loc="outside upper left", ncols=columns(4),
        title=f"{plain(record.name)}: {simulation.kind}{rest}", alignment="left",
    )  # fmt: skip
    drawing.align_ylabels(drawing.axes)
    return drawing


@styled
def prior_figure(prediction: PriorPrediction, output: int | None) -> Figure:
    """Measured outputs in the 95 % band of what a prior predicts, with some of its paths.

    There is an axes for each of the first `MOST_OUTPUTS` outputs, or for the one that is named, and
    beside it one of the measured range where the band goes far beyond.
    """
    record, names, band = prediction.record, prediction.names_of_outputs, prediction.band
    last = len(names) - 1
    every = range(len(names)) if output is None else [whole_number("output", output, 0, last)]
    shown, t = every[:MOST_OUTPUTS], record.t
    y = record.y if record.n_outputs else np.full(band.shape[1:], np.nan)
    ranges = [_measured_range(y[:, j], band[:, :, j]) for j in shown]
    wide = any(one is not None for one in ranges)
    drawing = figure(0.9 + 2.2 * len(shown))
    grid = drawing.subplots(len(shown), 1 + wide, sharex=True, squeeze=False)
    for j, own, row in zip(shown, ranges, grid, strict=True):
        for axes in row:
            _plot_prior(axes, t, y[:, j], band[:, :, j], prediction.paths[:, :, j])
            if record.n_outputs:
                plot_limits(axes, record, j)
            axes.set(ylabel=with_unit(plain(names[j]), record.unit_of(j)), xlabel=over_time(record))
            axes.yaxis.set_major_locator(MaxNLocator(5))
            axes.tick_params(labelbottom=True)
        share = prediction.coverage[j]
        inside = f": {100 * share:.1f} % inside the band" if np.isfinite(share) else ""
        row[0].set_title(f"{plain(names[j])}{inside}")
        if own is not None:
            row[1].set(ylim=own, title="the measured range")
        elif wide:
            row[1].remove()
    diverged = prediction.diverged
    left = f" ({100 * diverged:.2g} % of the draws diverged)" if diverged else ""
    drawing.legend(
        *grid[0, 0].get_legend_handles_labels(), loc="outside upper left", ncols=columns(4),
        title=f"{plain(record.name)}: {prediction.kind}{left}", alignment="left",
    )  # fmt: skip
    return drawing


def _measured_range(y: Array, band: Array) -> tuple[float, float] | None:
    """Limits about what was measured, None where the band fits the same axes or nothing was."""
    measured = y[np.isfinite(y)]
    if not len(measured) or not np.ptp(measured) * FAR < np.ptp(band):
        return None
    margin = 0.1 * float(np.ptp(measured) or abs(measured[0]) or 1.0)
    return float(measured.min()) - margin, float(measured.max()) + margin


def _plot_prior(axes: Axes, t: Array, y: Array, band: Array, paths: Array) -> None:
    lower, median, upper = band
    _plot_band(axes, t, lower, upper)
    for number, path in enumerate(paths):
        label = "draws of the prior" if number == 0 else None
        axes.plot(*envelope(t, path), color=DARK, lw=0.5, alpha=0.4, label=label)
    axes.plot(*envelope(t, median), color=DARK, lw=1.2, ls="--", label="median")
    if np.isfinite(y).any():
        _plot_measured(axes, t, y)
    seen = np.concatenate([lower, upper, y[np.isfinite(y)]])
    margin = 0.05 * (float(np.ptp(seen)) or 1.0)
    axes.set_xlim(float(t[0]), float(t[-1]))
    axes.set_ylim(float(seen.min()) - margin, float(seen.max()) + margin)


def _plot_curves(
    axes: Axes, t: Array, y: Array | None, mean: Array, half: Array, label: str
) -> None:
    _plot_band(axes, t, mean - half, mean + half)
    if y is not None:
        _plot_measured(axes, t, y)
    axes.plot(*envelope(t, mean), color=DARK, lw=0.9, label="simulated")
    axes.set_xlim(float(t[0]), float(t[-1]))
    axes.set_ylabel(label)


def _shade(axes: Axes, t: Array, learned: Learned) -> None:
    """Mark what was learned from, where the rest of a record was not."""
    if not any(b - a < len(t) for a, b in learned):
        return
    for number, (a, b) in enumerate(learned):
        label = None if number else "learned from (the rest is predicted)"
        end = float(t[min(b, len(t) - 1)])
        axes.axvspan(float(t[a]), end, color=PAPER, lw=0, zorder=0, label=label)


def _plot_band(axes: Axes, t: Array, lower: Array, upper: Array) -> None:
    axes.fill_between(*band_envelope(t, lower, upper), color=LIGHT, lw=0, label="95 % band")


def _plot_measured(axes: Axes, t: Array, y: Array) -> None:
    marks: dict[str, Any] = {}
    if as_points(y):
        marks = {"marker": "o", "ms": 4.5, "mew": 0, "ls": ""}
    elif len(t) <= ZOOM:
        marks = {"marker": "o", "ms": 2.5, "mew": 0}
    axes.plot(*envelope(t, y), color=MIDDLE, lw=2.0, label="measured", **marks)


def _plot_error(axes: Axes, t: Array, error: Array, half: Array, label: str) -> None:
    axes.fill_between(*band_envelope(t, -half, half), color=LIGHT, lw=0)
    marker = "." if as_points(error) else None
    axes.plot(*envelope(t, error), color=DARK, lw=0.6, marker=marker, ms=4, mew=0)
    axes.axhline(0.0, color="k", lw=0.5)
    axes.set_ylabel(label)


def worst_window(error: Array) -> slice:
    """Return the samples about the largest error."""
    length = min(ZOOM, len(error))
    begin = int(np.clip(int(np.nanargmax(error)) - length // 2, 0, len(error) - length))
    return slice(begin, begin + length)


@styled
def solution_figure(solution: Solution) -> Figure:
    """Mean and 95 % band of every state of a probabilistic ODE solution, and the sd below."""
    states = solution.ode.states
    t = np.union1d(np.linspace(solution.grid[0], solution.grid[-1], 1000), solution.grid)
    mean, covariance = solution(t)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    drawing = figure(1.2 * len(states) + 1.6, WIDTH)
    axes = drawing.subplots(len(states) + 1, 1, sharex=True)
    for i, (name, axis) in enumerate(zip(states, axes[:-1], strict=True)):
        low, high = mean[:, i] - 1.96 * sd[:, i], mean[:, i] + 1.96 * sd[:, i]
        axis.fill_between(t, low, high, color=LIGHT, linewidth=0)
        axis.plot(t, mean[:, i], color=DARK)
        axis.set_ylabel(name)
        positive = sd[:, i] > 0
        axes[-1].semilogy(t[positive], sd[positive, i], label=name, alpha=1 - i / (i + 3))
    axes[-1].set(ylabel="standard deviation", xlabel="time")
    if len(states) > 1:
        axes[-1].legend(ncols=min(len(states), 6))
    return drawing


@styled
def states_figure(states: States) -> Figure:
    """Smoothed mean and 95 % band of every state, the filtered mean, and what was measured."""
    count = len(states.names)
    drawing = figure(1.0 + 1.5 * count)
    panels = drawing.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    for i, axes in enumerate(panels):
        _plot_state(axes, states, i)
    panels[0].set_title(f"{plain(states.record.name)}: states given all samples")
    panels[-1].set_xlabel(over_time(states.record))
    found = labelled(panels)
    drawing.legend(found.values(), found, loc="outside lower left", ncols=columns(len(found)))
    drawing.align_ylabels(list(panels))
    return drawing


def labelled(panels: Iterable[Axes]) -> dict[str, Artist]:
    """Return what a legend names of several axes, each name once."""
    return {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }


def plot_state_measured(axes: Axes, t: Array, y: Array, size: float) -> None:
    """Draw measurements of a state, as marks of a size where they are few."""
    style: dict[str, Any] = {"lw": 2.0}
    if len(t) <= MARKED_STATES:
        style = {"ls": "", "marker": "o", "ms": size, "mew": 0}
    axes.plot(*envelope(t, y), color=MIDDLE, label="measured", **style)


def _plot_state(axes: Axes, states: States, i: int) -> None:
    t, output = states.record.t, states.measured[i]
    _plot_band(axes, t, states.lower[:, i], states.upper[:, i])
    if output is not None and states.record.n_outputs:
        plot_state_measured(axes, t, states.record.y[:, output], 3.0)
    for path in states.draws[:DRAWN_PATHS]:
        axes.plot(*envelope(t, path[:, i]), color=MIDDLE, lw=0.4, alpha=0.6, label="draws")
    filtered = states.filtered_mean[:, i]
    axes.plot(*envelope(t, filtered), color=ACCENT, lw=0.6, ls="--", label="filtered")
    axes.plot(*envelope(t, states.mean[:, i]), color=DARK, lw=0.9, label="smoothed")
    axes.set_xlim(float(np.min(t)), float(np.max(t)))
    axes.set_ylabel(plain(states.names[i]))
