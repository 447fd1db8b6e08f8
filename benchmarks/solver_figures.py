"""The figures of ``docs/solvers.md``, drawn from what the benchmark measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.solver_calibration import BAND, DIFFUSIONS, ORDERS, Statistics
from benchmarks.solver_precision import LEVEL, Line
from smcpn.report.style import ACCENT, DARK, LIGHT, MIDDLE, figure, styled

MARKERS = ("o", "s", "^", "D", "v")
SHADES = ("#b9c7d6", "#8ba3bb", "#5d7f9f", "#325c83", DARK)
"""Orders 1 to 5, from light to dark."""
LOOKS: dict[str, dict[str, Any]] = {
    "EKF0(5)": {"color": SHADES[2], "marker": "o"},
    "EKF1(4)": {"color": DARK, "marker": "s"},
    "EKF1(5)": {"color": DARK, "marker": "^", "ls": "--"},
    "EKS0(5)": {"color": SHADES[1], "marker": "o", "ls": ":"},
    "EKS1(5)": {"color": SHADES[2], "marker": "v", "ls": ":"},
    "EKF0(5, chain)": {"color": DARK, "marker": "D", "ls": ":"},
    "EKF1(5, chain)": {"color": DARK, "marker": "v", "ls": ":"},
    "DOP853": {"color": MIDDLE, "marker": "D"},
    "Radau": {"color": MIDDLE, "marker": "s"},
    "LSODA": {"color": MIDDLE, "ls": "--"},
    "Dormand-Prince 4/5": {"color": MIDDLE, "marker": "D"},
    "probdiffeq EKF0(5)": {"color": ACCENT, "ls": ":"},
    "probdiffeq EKF1(4)": {"color": ACCENT},
    "probdiffeq EKF1(5)": {"color": ACCENT, "ls": "--"},
}
"""One look for a solver in every panel."""


@styled
def calibration_figure(statistics: Sequence[Statistics]) -> Figure:
    """chi^2 against the tolerance, one panel for each algorithm and diffusion (Figure 3)."""
    algorithms = ("EKF0", "EKS0", "EKF1", "EKS1")
    drawn = figure(7.4)
    axes = drawn.subplots(4, 4, sharex=True, sharey=True)
    for row, algorithm in zip(axes, algorithms, strict=True):
        for panel, diffusion in zip(row, DIFFUSIONS, strict=True):
            group = [
                s
                for s in statistics
                if (s.setting.algorithm, s.setting.diffusion) == (algorithm, diffusion)
            ]
            _calibration_panel(panel, group)
            panel.set_title(f"{algorithm}, {diffusion}")
        row[0].set_ylabel("χ²")
    for panel in axes[-1]:
        panel.set_xlabel("relative tolerance")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=6)
    return drawn


def _calibration_panel(panel: Axes, group: Sequence[Statistics]) -> None:
    panel.set(xscale="log", yscale="log", xlim=(3e-1, 3e-11), ylim=(1e-7, 1e7))
    panel.axhspan(*BAND, color=LIGHT, lw=0)
    panel.axhline(2.0, color=MIDDLE, lw=0.6)
    if not group:
        panel.text(0.5, 0.75, "refused", transform=panel.transAxes, ha="center", color=MIDDLE)
    for statistics in group:
        position = statistics.setting.order - ORDERS[0]
        panel.plot(
            [10.0 ** -(1 + k) for k in statistics.exponents],
            np.clip(statistics.chi2, 1e-7, 1e7),
            color=SHADES[position],
            marker=MARKERS[position],
            ms=3,
            label=f"order {statistics.setting.order}",
        )


@styled
def precision_figure(studies: Mapping[str, Sequence[Line]]) -> Figure:
    """Time against error, one panel for each problem."""
    drawn = figure(5.8)
    panels = list(drawn.subplots(2, 3).flat)
    for panel, (name, lines) in zip(panels, studies.items(), strict=True):
        _cost_panel(panel, [line for line in lines if line.name in LOOKS])
        panel.set_title(name)
    for panel in panels[3:]:
        panel.set_xlabel("error at the end")
    for panel in panels[::3]:
        panel.set_ylabel("time (s)")
    _legend(drawn, panels)
    return drawn


@styled
def evaluations_figure(lines: Sequence[Line]) -> Figure:
    """Evaluations against error, order 5 and Dormand-Prince 4/5 (Figure 5)."""
    drawn = figure(3.4, width=5.0)
    panel = drawn.subplots()
    _cost_panel(panel, lines)
    panel.set(xlabel="error at the end", ylabel="evaluations of f and its Jacobian")
    panel.legend()
    return drawn


def _cost_panel(panel: Axes, lines: Sequence[Line]) -> None:
    panel.set(xscale="log", yscale="log")
    for line in lines:
        if line.curve is not None:
            look = LOOKS[line.name]
            panel.plot(line.curve.errors, line.curve.costs, ms=3, label=line.name, **look)
    panel.axvline(LEVEL, color=MIDDLE, lw=0.6, ls=":")
    panel.invert_xaxis()


def _legend(drawn: Figure, panels: Sequence[Axes]) -> None:
    """One legend for all panels below them."""
    handles = {}
    for panel in panels:
        handles |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    drawn.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
