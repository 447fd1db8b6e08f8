"""Figures of a discovery: inclusion probabilities, fitted paths, residuals."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smcpn.discovery.results.discovery import Discovery
from smcpn.discovery.results.notation import WrittenTerm, with_uncertainty
from smcpn.discovery.results.printed import LEAST_INCLUSION, averaged_terms
from smcpn.model.record import Record
from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    envelope,
    figure,
    over_time,
    plain,
    styled,
)

Array = NDArray[np.float64]

MOST_TERMS = 40
"""Terms that a figure shows, the most probable ones."""
MOST_RECORDS = 4
ROW = 0.2
"""Inches of one term."""
RIGHT = 1.3
"""End of the axis of probabilities: the coefficients stand beyond 1."""
LABELS = {
    "probability": "probability that the equation has the term",
    "level": "level of the widest interval without zero",
}
MARKED = 400
"""Samples up to which each measurement is a mark of its own."""


@styled
def inclusion_figure(found: Discovery) -> Figure:
    """Bars of the probability of each term, by equation, its coefficient beside.

    Terms of a probability below `LEAST_INCLUSION` are counted, not drawn.

    Returns
    -------
    Figure
        An axes for each equation that is not known.
    """
    every = averaged_terms(found)
    names = found.system.candidates.states
    allowed = [sum(found.system.freedom.places[:, 0] == i) for i in range(len(names))]
    ranked = sorted((-term.inclusion, i, k) for i, one in enumerate(every) for k, term in
                    enumerate(one) if term.inclusion >= LEAST_INCLUSION)  # fmt: skip
    kept = {(i, k) for _, i, k in ranked[:MOST_TERMS]}
    shown = [[term for k, term in enumerate(one) if (i, k) in kept] for i, one in enumerate(every)]
    open_equations = [i for i in range(len(names)) if allowed[i]]
    sizes = [max(1, len(shown[i])) for i in open_equations]
    drawing = figure(0.5 + ROW * sum(sizes) + 0.35 * len(sizes), 6.4)
    rows = drawing.subplots(len(sizes), 1, sharex=True, squeeze=False, height_ratios=sizes)[:, 0]
    for axes, i in zip(rows, open_equations, strict=True):
        _plot_terms(axes, shown[i])
        left = allowed[i] - len(shown[i])
        rest = f"  ({left} other terms below {LEAST_INCLUSION:g})" if left else ""
        axes.set_title(f"{plain(names[i])}'{rest}", loc="left")
    rows[-1].set_xlabel(LABELS[found.measure], x=0.5 / RIGHT)
    return drawing


def _plot_terms(axes: Axes, terms: list[WrittenTerm]) -> None:
    places = np.arange(len(terms))
    colors = [DARK if term.inclusion >= 0.5 else MIDDLE for term in terms]
    axes.barh(places, [term.inclusion for term in terms], height=0.6, color=colors, lw=0)
    for place, term in enumerate(terms):
        text = plain(with_uncertainty(term.mean, term.sd))
        axes.text(1.03, place, text, va="center", fontsize=8.0, clip_on=False)
    axes.axvline(0.5, color=ACCENT, lw=0.6, ls=":")
    axes.set_yticks(places, [plain(term.name) for term in terms])
    axes.set_xlim(0.0, RIGHT)
    axes.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    axes.set_ylim(max(len(terms), 1) - 0.4, -0.6)
    axes.tick_params(left=False)
    axes.spines["bottom"].set_bounds(0.0, 1.0)


@styled
def path_figure(found: Discovery) -> Figure:
    """Measurements and the path of the most probable model, a row for each state.

    Returns
    -------
    Figure
        A column for each of the first `MOST_RECORDS` records.
    """
    states, records = found.system.candidates.states, found.records[:MOST_RECORDS]
    drawing = figure(0.9 + 1.4 * len(states))
    grid = drawing.subplots(len(states), len(records), sharex="col", sharey="row", squeeze=False)
    measured = [_output_of(row) for row in found.observe]
    for column, (record, path) in enumerate(zip(records, found.paths, strict=False)):
        for i, axes in enumerate(grid[:, column]):
            if i in measured:
                _plot_measured(axes, record, record.y[:, measured.index(i)])
            axes.plot(*envelope(record.t, path[:, i]), color=DARK, lw=0.9, label="fitted")
            axes.set_xlim(float(record.t[0]), float(record.t[-1]))
            if column == 0:
                axes.set_ylabel(plain(states[i]))
        grid[0, column].set_title(plain(record.name))
        grid[-1, column].set_xlabel(over_time(record))
    legend: dict[str, Any] = {}
    for axes in grid[:, 0]:
        handles, labels = axes.get_legend_handles_labels()
        legend |= dict(zip(labels, handles, strict=True))
    left = len(found.records) - len(records)
    title = f"{left} more records" if left else None
    drawing.legend(legend.values(), legend, loc="outside upper left", ncols=2, title=title)
    drawing.align_ylabels(list(grid[:, 0]))
    return drawing


def _output_of(row: Array) -> int | None:
    """Number of the state that an output is, None where it is a sum of several."""
    places = np.flatnonzero(row)
    return int(places[0]) if len(places) == 1 and row[places[0]] == 1.0 else None


def _plot_measured(axes: Axes, record: Record, y: Array) -> None:
    style: dict[str, Any] = {"lw": 2.0}
    if len(record) <= MARKED:
        style = {"ls": "", "marker": "o", "ms": 2.5, "mew": 0}
    axes.plot(*envelope(record.t, y), color=MIDDLE, label="measured", **style)


@styled
def residuals_figure(found: Discovery) -> Figure:
    """Measurements less the fitted path, in units of the noise.

    Returns
    -------
    Figure
        A row for each output, and a column for each of the first `MOST_RECORDS` records.
    """
    records = found.records[:MOST_RECORDS]
    drawing = figure(0.7 + 1.2 * len(found.observe))
    grid = drawing.subplots(
        len(found.observe), len(records), sharex="col", sharey="row", squeeze=False
    )
    for column, (record, path) in enumerate(zip(records, found.paths, strict=False)):
        residuals = (record.y - path @ found.observe.T) / np.where(found.noise > 0, found.noise, 1)
        for j, axes in enumerate(grid[:, column]):
            axes.axhspan(-1.96, 1.96, color=LIGHT, lw=0, zorder=0)
            axes.plot(*envelope(record.t, residuals[:, j]), color=DARK, lw=0.6)
            axes.set_xlim(float(record.t[0]), float(record.t[-1]))
            if column == 0:
                axes.set_ylabel(f"{plain(found.outputs[j])} / sd")
        grid[0, column].set_title(plain(record.name))
        grid[-1, column].set_xlabel(over_time(record))
    return drawing
