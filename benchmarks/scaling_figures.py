"""The figures of `benchmarks.scaling`, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from benchmarks.scaling import Curve
from smcpn.report.style import ACCENT, DARK, MIDDLE, figure, styled

FEW = 100
"""Largest size up to which every size is a tick."""
LOOKS = ({"color": DARK, "marker": "o"}, {"color": ACCENT, "marker": "s", "ls": "--"})


@styled
def scaling_figure(curves: Sequence[Curve]) -> Figure:
    """Time against a size, with a line of slope one."""
    drawn = figure(2.8, width=4.2)
    panel = drawn.subplots()
    for curve, look in zip(curves, LOOKS, strict=False):
        slope = f": slope {curve.slope:.2f}" if len(curve.sizes) > 1 else ""
        label = f"{curve.title}{slope}"
        panel.loglog(curve.sizes, curve.seconds, ms=4, label=label, **look)
        sizes = np.array([curve.sizes[0], curve.sizes[-1]], dtype=float)
        direction = -1.0 if curve.size == "threads" else 1.0
        guide = curve.seconds[0] * (sizes / sizes[0]) ** direction
        panel.loglog(sizes, guide, color=MIDDLE, lw=0.6, ls=":")
    panel.set(xlabel=curves[0].size, ylabel="time (s)")
    if curves[0].sizes[-1] <= FEW:
        panel.set_xticks(curves[0].sizes, [str(size) for size in curves[0].sizes])
        panel.set_xticks([], minor=True)
    panel.margins(x=0.05)
    panel.legend()
    return drawn


@styled
def memory_figure(used: Sequence[Mapping[str, float]]) -> Figure:
    """Memory against the length of the record."""
    drawn = figure(2.8, width=4.2)
    panel = drawn.subplots()
    samples = np.array([row["samples"] for row in used])
    shared = [
        (row["record_bytes_per_sample"] + row["table_bytes_per_sample"]) * row["samples"] / 1e6
        for row in used
    ]
    panel.loglog(samples, [row["run_MB"] for row in used], ms=4, label="a run adds", **LOOKS[0])
    panel.loglog(samples, shared, ms=4, label="record and its tables", **LOOKS[1])
    panel.set(xlabel="samples", ylabel="memory (MB)")
    panel.margins(x=0.05)
    panel.legend()
    return drawn
