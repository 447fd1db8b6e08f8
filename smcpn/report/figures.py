"""Figures of results; each function returns a matplotlib figure and shows nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from smcpn.simulation import Simulation


def prediction_figure(simulation: Simulation, output: int = 0) -> Figure:
    """Measured and simulated output with the 95 % predictive band, and the error below."""
    record = simulation.record
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    mean, sd = simulation.mean[:, output], simulation.sd[:, output]
    above.fill_between(
        record.t, mean - 1.96 * sd, mean + 1.96 * sd, color="0.8", lw=0, label="95 % band"
    )
    above.plot(record.t, mean, color="C0", lw=1.2, label="simulated")
    unit = f" ({record.y_unit})" if record.y_unit else ""
    above.set_ylabel(f"output{unit}")
    if record.n_outputs:
        y = record.y[:, output]
        above.plot(record.t, y, color="k", lw=0.6, ls="--", label="measured")
        below.fill_between(record.t, -1.96 * sd, 1.96 * sd, color="0.8", lw=0)
        below.plot(record.t, y - mean, color="C3", lw=0.6)
        above.set_title(
            f"{record.name}: free simulation, fit {simulation.fit[output]:.2f} %, "
            f"RMSE {simulation.rmse_of_mean[output]:.3g}{unit}"
        )
    below.set_ylabel(f"error{unit}")
    below.set_xlabel("time (s)")
    above.set_xlim(float(np.min(record.t)), float(np.max(record.t)))
    above.legend(loc="upper right", ncols=3, frameon=False)
    return figure
