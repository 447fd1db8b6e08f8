"""Step response of a linear model with the band of its draws."""

from __future__ import annotations

from matplotlib.figure import Figure

from smcpn.report.bode import draw_band
from smcpn.report.style import figure, plain, styled, with_unit
from smcpn.simulation.state_space import StateSpace


@styled
def step_figure(linear: StateSpace, duration: float | None) -> Figure:
    """Response over time, a row of axes for every output and a column for every input."""
    step = linear.step(duration)
    q, m = step.response.shape[1:]
    drawing = figure(0.6 + 2.0 * q)
    panels = drawing.subplots(q, m, sharex=True, sharey="row", squeeze=False)
    lower, upper = step.interval()
    for i in range(q):
        for j in range(m):
            axes, at = panels[i, j], (slice(None), i, j)
            draw_band(axes, step.t, step.response[at], lower[at], upper[at])
            axes.set_title(f"{plain(linear.inputs[j])} to {plain(linear.outputs[i])}")
        panels[i, 0].set_ylabel("step response")
    for axes in panels[-1]:
        axes.set_xlabel(with_unit("time", step.t_unit))
    drawing.suptitle(plain(linear.heading), fontsize=9.0)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower left", ncols=2)
    return drawing
