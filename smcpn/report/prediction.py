"""Measured against predicted: the curves, the error, and a closer look where it is largest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    band_envelope,
    envelope,
    figure,
    plain,
    styled,
    with_unit,
)

if TYPE_CHECKING:
    from smcpn.simulation.particles import Simulation

Array = NDArray[np.float64]

ZOOM = 160
"""Samples of the closer look."""


@styled
def prediction_figure(simulation: Simulation, output: int = 0) -> Figure:
    """Measured and simulated output with the 95 % predictive band, the error, and a zoom.

    Parameters
    ----------
    output : int
        Column of the outputs.

    Returns
    -------
    Figure
        Four axes: the whole record, the error below it, and the samples about the largest error,
        outputs and errors beside each other. Without measurements one.
    """
    record = simulation.record
    measured = record.n_outputs > 0 and bool(np.isfinite(record.y[:, output]).any())
    if not measured:
        drawing = figure(2.6)
        whole = drawing.subplots()
        _draw_curves(whole, simulation, output, slice(None))
        whole.set_title(f"{plain(record.name)}: free simulation")
        whole.set_xlabel("time (s)")
        return drawing
    drawing = figure(6.4)
    panels = drawing.subplot_mosaic(
        [["whole"] * 2, ["error"] * 2, ["close", "close error"]], height_ratios=[2, 1.2, 1.8]
    )
    whole, below, close, close_error = panels.values()
    below.sharex(whole)
    _draw_curves(whole, simulation, output, slice(None))
    whole.set_title(_scores(simulation, output))
    whole.tick_params(labelbottom=False)
    _draw_error(below, simulation, output, slice(None))
    window = _worst_window(simulation, output)
    first, last = float(record.t[window][0]), float(record.t[window][-1])
    for axes in (whole, below):
        axes.axvspan(first, last, color=ACCENT, alpha=0.25, lw=0)
        axes.axvline((first + last) / 2, color=ACCENT, lw=0.6, ls=":")
    _draw_curves(close, simulation, output, window)
    close.set_title("where the error is largest (marked above)")
    _draw_error(close_error, simulation, output, window)
    for axes in (below, close, close_error):
        axes.set_xlabel("time (s)")
    for axes in (close, close_error):
        axes.set_xlim(first, last)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    handles, labels = close.get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper left", ncols=3)
    drawing.align_ylabels([whole, below, close])
    return drawing


def _scores(simulation: Simulation, output: int) -> str:
    record = simulation.record
    unit = f" {plain(record.y_unit)}" if record.y_unit else ""
    return (
        f"{plain(record.name)}: free simulation, fit {simulation.fit[output]:.2f} %, "
        f"RMSE {simulation.rmse_of_mean[output]:.3g}{unit}, "
        f"{100 * simulation.coverage[output]:.1f} % inside the 95 % band"
    )


def _draw_curves(axes: Axes, simulation: Simulation, output: int, part: slice) -> None:
    record = simulation.record
    t, mean = record.t[part], simulation.mean[part, output]
    lower, upper = simulation.lower[part, output], simulation.upper[part, output]
    axes.fill_between(*band_envelope(t, lower, upper), color=LIGHT, lw=0, label="95 % band")
    if record.n_outputs:
        few = len(t) <= ZOOM
        marks: dict[str, Any] = {"marker": "o", "ms": 2.5, "mew": 0} if few else {}
        axes.plot(
            *envelope(t, record.y[part, output]), color=MIDDLE, lw=2.0, label="measured", **marks
        )
    axes.plot(*envelope(t, mean), color=DARK, lw=0.9, label="simulated")
    axes.set_xlim(float(t[0]), float(t[-1]))
    axes.set_ylabel(with_unit("output", record.y_unit))


def _draw_error(axes: Axes, simulation: Simulation, output: int, part: slice) -> None:
    record, t = simulation.record, simulation.record.t[part]
    mean, upper = simulation.mean[part, output], simulation.upper[part, output]
    half = upper - mean
    axes.fill_between(*band_envelope(t, -half, half), color=LIGHT, lw=0)
    axes.plot(*envelope(t, record.y[part, output] - mean), color=DARK, lw=0.6)
    axes.axhline(0.0, color="k", lw=0.5)
    axes.set_ylabel(with_unit("error", record.y_unit))


def _worst_window(simulation: Simulation, output: int) -> slice:
    """The samples about the largest error."""
    error = np.abs(simulation.record.y[:, output] - simulation.mean[:, output])
    length = min(ZOOM, len(error))
    begin = int(np.clip(int(np.nanargmax(error)) - length // 2, 0, len(error) - length))
    return slice(begin, begin + length)
