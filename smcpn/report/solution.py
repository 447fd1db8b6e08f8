"""Figure of a probabilistic ODE solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from smcpn.report.style import DARK, LIGHT, WIDTH, styled

if TYPE_CHECKING:
    from smcpn.pn.solution import Solution

POINTS = 1000
BAND = 1.96


@styled
def solution_figure(solution: Solution) -> Figure:
    """Mean and 95 % band of every state, and the standard deviation below."""
    times = np.union1d(np.linspace(solution.grid[0], solution.grid[-1], POINTS), solution.grid)
    mean, covariance = solution(times)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    states = solution.ode.states
    figure = Figure(figsize=(WIDTH, 1.2 * len(states) + 1.6), layout="constrained")
    axes = figure.subplots(len(states) + 1, 1, sharex=True)
    for i, (name, axis) in enumerate(zip(states, axes[:-1], strict=True)):
        low, high = mean[:, i] - BAND * sd[:, i], mean[:, i] + BAND * sd[:, i]
        axis.fill_between(times, low, high, color=LIGHT, linewidth=0)
        axis.plot(times, mean[:, i], color=DARK)
        axis.set_ylabel(name)
        positive = sd[:, i] > 0
        axes[-1].semilogy(times[positive], sd[positive, i], label=name, alpha=1 - i / (i + 3))
    axes[-1].set(ylabel="standard deviation", xlabel="time")
    if len(states) > 1:
        axes[-1].legend(ncols=min(len(states), 6))
    return figure
