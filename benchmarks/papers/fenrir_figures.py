"""The figures of ``docs/papers/fenrir.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.papers.fenrir_published import PENDULUM, SEIR, SELECTION, median
from smcpn.report.style import ACCENT, DARK, LIGHT, MIDDLE, figure, styled

Array = NDArray[np.float64]
LOOKS = {"fenrir": (DARK, LIGHT, "Fenrir"), "rk": (MIDDLE, "white", "Runge-Kutta")}
HALF = 0.18
HIGHEST_NLL = 250.0
"""The paper's figure ends there as well."""


@styled
def inference_figure(errors: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """TRMSE of every problem (figure 2, right)."""
    drawn = figure(3.0)
    panel = drawn.subplots()
    published = {name: {m: median(name, m) for m in both} for name, both in errors.items()}
    _pairs(panel, errors, published)
    panel.set(yscale="log", ylabel="trajectory RMSE")
    return drawn


@styled
def selection_figure(nll: Mapping[str, Array]) -> Figure:
    """Negative log-likelihood of every model (figure 3)."""
    drawn = figure(2.6, width=4.6)
    panel = drawn.subplots()
    for place, (name, values) in enumerate(nll.items()):
        _box(panel, np.minimum(values, HIGHEST_NLL), place, "fenrir")
        if SELECTION[name] < HIGHEST_NLL:
            _mark(panel, place, SELECTION[name])
    panel.set_xticks(range(len(nll)), list(nll))
    panel.set(ylabel="negative log-likelihood", xlim=(-0.5, len(nll) - 0.5))
    _legend(panel)
    return drawn


@styled
def seir_figure(errors: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Absolute error of every parameter (figure 5)."""
    drawn = figure(2.8)
    panel = drawn.subplots()
    names = list(errors["fenrir"])
    by_name = {name: {method: of[name] for method, of in errors.items()} for name in names}
    published = {name: {method: SEIR[method][name] for method in errors} for name in names}
    _pairs(panel, by_name, published)
    panel.set(yscale="log", ylabel="absolute error")
    return drawn


@styled
def pendulum_figure(ends: Mapping[str, tuple[Array, Array]], truth: float) -> Figure:
    """Length found against length started from (figure 8)."""
    drawn = figure(3.2, width=5.4)
    panel = drawn.subplots()
    for method, marker in (("rk", "D"), ("fenrir", "o")):
        colour, _, label = LOOKS[method]
        start, end = ends[method]
        label = f"{label} (published: {PENDULUM[method]} of 161)"
        panel.plot(start, end, marker, ms=3, color=colour, mfc="none", label=label)
    panel.axhline(truth, color=ACCENT, lw=0.8, ls="--")
    panel.set(xscale="log", yscale="log", xlabel="length at the start", ylabel="length found")
    panel.legend(loc="upper left")
    return drawn


def _pairs(
    panel: Axes,
    found: Mapping[str, Mapping[str, Sequence[float]]],
    published: Mapping[str, Mapping[str, float]],
) -> None:
    """Boxes of both methods side by side, with the published medians."""
    for place, (name, both) in enumerate(found.items()):
        for side, (method, values) in zip((-1, 1), both.items(), strict=True):
            at = place + side * HALF
            finite = [value for value in values if np.isfinite(value)]
            _box(panel, finite, at, method)
            _mark(panel, at, published[name][method])
    panel.set_xticks(range(len(found)), [name.replace(", ", "\n") for name in found])
    panel.set_xlim(-0.5, len(found) - 0.5)
    for method in next(iter(found.values())):
        edge, face, label = LOOKS[method]
        panel.bar(0, 0, color=face, edgecolor=edge, label=label)
    _legend(panel)


def _box(panel: Axes, values: Sequence[float] | Array, place: float, method: str) -> None:
    """Median, quartiles, 5 and 95 %, and what lies beyond."""
    edge, face, _ = LOOKS[method]
    line = {"color": edge, "linewidth": 0.8}
    panel.boxplot(
        [values], positions=[place], widths=1.6 * HALF, whis=(5, 95), patch_artist=True,
        manage_ticks=False, boxprops={"facecolor": face, "edgecolor": edge, "linewidth": 0.8},
        medianprops={"color": edge, "linewidth": 1.6}, whiskerprops=line, capprops=line,
        flierprops={"marker": ".", "markersize": 3, "markeredgecolor": edge},
    )  # fmt: skip


def _mark(panel: Axes, place: float, published: float) -> None:
    panel.plot([place - HALF, place + HALF], [published] * 2, color=ACCENT, lw=1.2, ls=":")


def _legend(panel: Axes) -> None:
    panel.plot([], [], color=ACCENT, lw=1.2, ls=":", label="published median")
    panel.legend(loc="best")
