"""Figures of unknown functions, with the range that the records visit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import NDArray

from smcpn.errors import InputError, shown
from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    columns,
    figure,
    is_narrow,
    plain,
    styled,
)
from smcpn.results.functions import IdentifiedFunction
from smcpn.results.simulation.function_domain import FunctionDomain

Array = NDArray[np.float64]

SHOWN = 12
"""Draws that are drawn."""
BINS = 60
HEADROOM = 0.3
"""Of the range of values where the records have been, on either side of it."""
LEVELS = 9
MOST_PLACES = 4000
"""Places that are drawn, of a function of two variables."""
UNKNOWN = "#f1efec"
"""Ground where no record has been."""


@styled
def function_figure(found: IdentifiedFunction, truth: Callable[..., Any] | None = None) -> Figure:
    """Mean, 95 % band and draws of an unknown function, and where the data that tell of it end.

    Of one variable: the function, and below the share of samples by argument. Of two, at points
    that surround an area: contours of mean and of standard deviation. More are refused, as are
    points that do not span an interval or an area, and a ``truth`` that does not take arrays of
    them.
    """
    variables = len(found.arguments)
    if variables > 2:
        raise InputError(
            f"'{found.name}' has {variables} variables: draw slices of function(name, at=...)"
        )
    points = found.points.reshape(-1, variables)
    if np.linalg.matrix_rank(points - points[0]) < variables:
        extent = "an interval" if variables == 1 else "an area"
        raise InputError(
            f"'{found.name}' is known at {len(points)} points that do not span {extent}: "
            "leave out at, or give other points"
        )
    known = None if truth is None else _true_values(truth, found.points)
    return _curve_figure(found, known) if variables == 1 else _contour_figure(found, known)


def _true_values(truth: Callable[..., Any], points: Array) -> Array:
    try:
        values = np.asarray(truth(*np.atleast_2d(points.T)), dtype=float)
    except Exception as error:
        why = f"{type(error).__name__}: {shown(str(error))}"
        raise InputError(
            f"truth fails ({why}): give a function of arrays", argument="truth"
        ) from error
    if values.shape != points.shape[:1]:
        raise InputError(
            f"truth returns shape {values.shape} for {len(points)} points: give a function of "
            "arrays that returns one value for each",
            argument="truth",
        )
    return values


def _curve_figure(found: IdentifiedFunction, known: Array | None) -> Figure:
    order = np.argsort(found.points, kind="stable")
    x, (lower, upper) = found.points[order], found.interval()
    drawing = figure(3.6)
    panels = drawing.subplots(2, 1, sharex=True, height_ratios=[6, 1])
    curve, below = panels
    if len(found.draws) > 1:
        curve.fill_between(x, lower[order], upper[order], color=LIGHT, lw=0, label="95 % band")
        some = found.draws[:: max(1, len(found.draws) // SHOWN)][:SHOWN, order]
        curve.plot(x, some.T, color=MIDDLE, lw=0.5, label=["draws", *[None] * (len(some) - 1)])
    curve.plot(x, found.mean[order], color=DARK, lw=1.5, label="mean")
    if known is not None:
        curve.plot(x, known[order], color=ACCENT, ls="--", lw=1.3, label="truth")
    curve.set_ylabel(plain(f"{found.name}({found.arguments[0]})"))
    curve.set_xlim(float(x[0]), float(x[-1]))
    _limit_values(curve, found, [lower, upper] if known is None else [lower, upper, known])
    counts, edges = np.histogram(found.places[:, 0], bins=BINS)
    below.stairs(counts / counts.sum(), edges, color=DARK, lw=0.8, fill=True, alpha=0.6)
    below.set(xlabel=plain(found.arguments[0]), yticks=[])
    below.set_ylabel("share of\nsamples", rotation=0, ha="right", va="center")
    for axes in panels:
        _mark_unvisited(axes, found)
    _say_ends(curve, found)
    handles, labels = curve.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper left", ncols=columns(4))
    return drawing


def _limit_values(axes: Axes, found: IdentifiedFunction, curves: list[Array]) -> None:
    """Let the values where the records have been rule the axis, and not what lies beyond."""
    inside = found.inside
    if not inside.any():
        return
    shown = np.concatenate([curve[inside] for curve in curves])
    low, high = float(shown.min()), float(shown.max())
    room = HEADROOM * (high - low)
    below, above = axes.get_ylim()
    if room > 0.0:
        axes.set_ylim(max(below, low - room), min(above, high + room))


def _mark_unvisited(axes: Axes, found: IdentifiedFunction) -> None:
    left, right = axes.get_xlim()
    low, high = found.visited[0]
    for a, b, end in ((left, min(low, right), low), (max(high, left), right, high)):
        if a < b:
            axes.axvspan(a, b, color=UNKNOWN, lw=0, zorder=0)
            axes.axvline(end, color="k", lw=0.6, ls=":")
    axes.set_xlim(left, right)


def _say_ends(axes: Axes, found: IdentifiedFunction) -> None:
    """Say above the axes where the records end."""
    low, high = found.visited[0]
    name = plain(found.arguments[0])
    axes.set_title(
        f"the records visit {name} from {low:.3g} to {high:.3g}; on grey ground there are no data"
    )


def _contour_figure(found: IdentifiedFunction, known: Array | None) -> Figure:
    x, y = found.points.T
    drawing = figure(5.8 if is_narrow() else 3.3)
    panels = drawing.subplots(*((2, 1) if is_narrow() else (1, 2)), sharex=True, sharey=True)
    left, right = panels
    blues = LinearSegmentedColormap.from_list("blues", ["white", LIGHT, DARK])
    name = plain(f"{found.name}({', '.join(found.arguments)})")
    levels = _levels(found.mean, found.inside)
    for axes, values, title in (
        (left, found.mean, f"mean of {name}"), (right, found.sd, "its standard deviation")
    ):  # fmt: skip
        steps = levels if axes is left else _levels(values, found.inside)
        filled = axes.tricontourf(x, y, values, levels=steps, cmap=blues, extend="both")
        drawing.colorbar(filled, ax=axes, shrink=0.9)
        axes.set(title=title, xlabel=plain(found.arguments[0]))
    left.set_ylabel(plain(found.arguments[1]))
    if known is not None:
        left.tricontour(x, y, known, levels=levels, colors=ACCENT, linestyles="--", linewidths=1.0)
        left.plot([], [], color=ACCENT, ls="--", label="truth, same levels")
    ranges = FunctionDomain(found.arguments, found.places)
    label = plain(f"visited by the records: {ranges}")
    some = found.places[:: max(1, -(-len(found.places) // MOST_PLACES))]
    for axes in (left, right):
        axes.plot(
            *some.T, ls="", marker="o", ms=1.2, mew=0, color="k", rasterized=True,
            label=label if axes is left else None,
        )  # fmt: skip
    drawing.legend(loc="outside upper left", ncols=1 if is_narrow() else 2)
    return drawing


def _levels(values: Array, inside: NDArray[np.bool_]) -> Array:
    """Levels of contours, over the values where the records have been."""
    shown = values[inside] if inside.any() else values
    low, high = float(shown.min()), float(shown.max())
    return np.linspace(low, high if high > low else low + 1.0, LEVELS)
