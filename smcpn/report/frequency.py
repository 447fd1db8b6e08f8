"""Frequency response of data and simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from smcpn.report.style import ACCENT, DARK, MIDDLE, figure, plain, styled

if TYPE_CHECKING:
    from smcpn.validation import FrequencyResponse


@styled
def frequency_figure(response: FrequencyResponse) -> Figure:
    """H1 of data and simulation with their difference, phase, and coherence.

    Returns
    -------
    Figure
        Three axes: magnitude in decibels, phase in degrees, coherence.
    """
    f = response.frequency
    drawing = figure(5.4)
    magnitude, phase, coherence = drawing.subplots(3, 1, sharex=True, height_ratios=[2.4, 1.2, 1])
    difference = np.abs(response.simulated - response.measured)
    magnitude.plot(f, decibel(response.measured), color=MIDDLE, lw=2.6, label="measured")
    magnitude.plot(f, decibel(response.simulated), color=DARK, lw=0.9, label="simulated")
    magnitude.plot(f, decibel(difference), color=ACCENT, lw=0.8, ls="--", label="difference")
    magnitude.plot(
        f, decibel(response.standard_error), color="k", lw=0.8, ls=":", label="standard error"
    )
    magnitude.set_ylabel("|H| (dB)")
    magnitude.set_title(
        f"{plain(response.name)}: H1 by Welch, error {response.error:.2%} rms".replace("%", " %")
    )
    drawing.legend(*magnitude.get_legend_handles_labels(), loc="outside lower left", ncols=4)
    for values, color, width in ((response.measured, MIDDLE, 2.6), (response.simulated, DARK, 0.9)):
        phase.plot(f, np.degrees(np.unwrap(np.angle(values))), color=color, lw=width)
    phase.set_ylabel("phase (°)")
    coherence.plot(f, response.coherence, color=DARK)
    coherence.set_ylim(0, 1.05)
    coherence.set_ylabel("coherence")
    coherence.set_xlabel("frequency (Hz)")
    coherence.set_xlim(float(f[0]), float(f[-1]))
    drawing.align_ylabels([magnitude, phase, coherence])
    return drawing


def decibel(values: np.ndarray) -> np.ndarray:
    """20 log10 |values|; a zero is drawn as nothing."""
    size = np.abs(values)
    return 20 * np.log10(np.where(size > 0, size, np.nan))
