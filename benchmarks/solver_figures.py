"""The figures of ``docs/solvers.md``, drawn from what the benchmark measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.solver_calibration import BAND, DIFFUSIONS, ORDERS, Statistics
from benchmarks.solver_precision import LEVEL, Line
from smcpn.report.style import ACCENT, DARK, LIGHT, MIDDLE, figure, styled

DPI = 110
MARKERS = ("o", "s", "^", "D", "v")
SHADES = ("#b9c7d6", "#8ba3bb", "#5d7f9f", "#325c83", DARK)
"""Orders 1 to 5, from light to dark."""


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
        panel.text(0.5, 0.5, "refused", transform=panel.transAxes, ha="center", color=MIDDLE)
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
    drawn = figure(5.6)
    for panel, (name, lines) in zip(drawn.subplots(2, 3).flat, studies.items(), strict=False):
        _cost_panel(panel, lines)
        panel.set(title=name, xlabel="error at the end", ylabel="time (s)")
        panel.legend(fontsize=6.5, loc="upper left", handlelength=2.4)
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
    looks: dict[str, Iterator[dict[str, Any]]] = {
        "smcpn": iter(
            [
                {"color": DARK, "marker": "o"},
                {"color": DARK, "marker": "s", "ls": "--"},
                {"color": DARK, "marker": "^", "ls": ":"},
                {"color": SHADES[2], "marker": "v", "ls": "-."},
            ]
        ),
        "scipy": iter([{"color": MIDDLE, "marker": "D"}, {"color": MIDDLE, "ls": "--"}]),
        "probdiffeq": iter([{"color": ACCENT, "marker": "o"}, {"color": ACCENT, "ls": "--"}] * 2),
    }
    for line in lines:
        if line.curve is not None:
            panel.plot(
                line.curve.errors, line.curve.costs, ms=3, label=line.name, **next(looks[line.peer])
            )
    panel.axvline(LEVEL, color=MIDDLE, lw=0.6, ls=":")
    panel.invert_xaxis()


def save(drawn: Figure, folder: Path, name: str) -> Path:
    """Write a figure as PNG of few colours."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    drawn.savefig(path, dpi=DPI, metadata={"Software": None})
    return path
