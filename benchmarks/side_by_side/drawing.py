"""The figure of the comparison."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from benchmarks.side_by_side.methods import METHODS
from smcpn.report.style import ACCENT, DARK, MIDDLE, figure, styled


@styled
def comparison_figure(figures: dict[str, Any]) -> Figure:
    """Time at equal accuracy, one bar for each method, on a logarithmic axis."""
    times = {
        name: values["equal_seconds"]
        for name, values in figures["methods"].items()
        if "equal_seconds" in values
    }
    drawn = figure(0.9 + 0.26 * len(times), width=6.2)
    panel = drawn.subplots()
    names = sorted(times, key=lambda name: times[name], reverse=True)
    panel.barh(
        names, [times[name] for name in names], color=[_colour(n) for n in names], height=0.6
    )
    for name in names:
        panel.annotate(
            f"{times[name]:.3g} s", (times[name], name), (4, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip
    panel.set_xscale("log")
    panel.set_xlim(min(times.values()) / 3, max(times.values()) * 4)
    panel.set_xlabel(f"time (s) for the accuracy of {figures['draws']} independent draws")
    panel.tick_params(axis="y", length=0)
    return drawn


def _colour(name: str) -> str:
    method = METHODS[name]
    if method.own:
        return ACCENT
    return DARK if not method.hand_vectorised else MIDDLE
