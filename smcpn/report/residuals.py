"""Figures of a validation: innovations, solver error, frequency response."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from smcpn.errors import output_number
from smcpn.likelihood.shift import DiscretisationShift
from smcpn.report.style import (
    ACCENT,
    DARK,
    LIGHT,
    MIDDLE,
    columns,
    envelope,
    figure,
    is_narrow,
    over_time,
    plain,
    styled,
    with_unit,
)
from smcpn.results.validation import FrequencyResponse, Innovations, Validation, Whiteness
from smcpn.results.validation.innovations import BAND, LAGS

NOTHING = 1e-12
"""Share drawn for a solver that claims no error: the axis is logarithmic."""


@styled
def frequency_figure(response: FrequencyResponse) -> Figure:
    """H1 of data and simulation with their difference, phase, and coherence.

    Magnitude is in decibels, phase in degrees.
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
    drawing.legend(
        *magnitude.get_legend_handles_labels(), loc="outside lower left", ncols=columns(4)
    )
    # The simulation is smooth, and tells in which turn each noisy phase is.
    simulated = np.unwrap(np.angle(response.simulated))
    measured = simulated + np.angle(response.measured * np.conj(response.simulated))
    phase.plot(f, np.degrees(measured), color=MIDDLE, lw=2.6)
    phase.plot(f, np.degrees(simulated), color=DARK, lw=0.9)
    phase.set_ylabel("phase (°)")
    coherence.plot(f, response.coherence, color=DARK)
    coherence.set_ylim(0, 1.05)
    coherence.set_ylabel("coherence")
    coherence.set_xlabel(with_unit("frequency", response.unit))
    coherence.set_xlim(float(f[0]), float(f[-1]))
    drawing.align_ylabels([magnitude, phase, coherence])
    return drawing


def decibel(values: np.ndarray) -> np.ndarray:
    """20 log10 |values|; a zero is drawn as nothing."""
    size = np.abs(values)
    return 20 * np.log10(np.where(size > 0, size, np.nan))


@styled
def innovations_figure(validation: Validation, output: int = 0) -> Figure:
    """Normalised innovations over time and as a histogram, and their correlations.

    The cross-correlation is with the first input. Shaded bands hold 99 % where the model is right.
    """
    tests = validation.outputs[output_number(output, len(validation.outputs))]
    if is_narrow():
        drawing = figure(7.6)
        history, spread, auto, cross = drawing.subplots(4, 1)
    else:
        drawing = figure(4.8)
        (history, spread), (auto, cross) = drawing.subplots(2, 2, width_ratios=[1.5, 1])
    for number, part in enumerate(validation.innovations):
        normalised = part.normalised[:, output]
        tone = DARK if number % 2 == 0 else MIDDLE
        history.plot(*envelope(part.record.t, normalised), color=tone, lw=0.5)
    history.axhspan(-BAND, BAND, color=LIGHT, lw=0, zorder=0)
    history.set(
        xlabel=over_time(validation.innovations[0].record),
        ylabel="standard deviations",
        title=validation.innovations[0].residual(output),
    )
    _plot_histogram(spread, validation, output)
    _plot_correlation(auto, np.arange(1, LAGS + 1), tests.autocorrelation, tests)
    auto.set(xlabel="lag (samples)", title="auto-correlation, 99 % band")
    if tests.cross_correlation.size:
        lags = np.arange(-LAGS, LAGS + 1)
        _plot_correlation(cross, lags, tests.cross_correlation[0], tests)
        cross.set(xlabel="lag (samples)", title="cross-correlation with u")
    else:
        cross.set_axis_off()
    return drawing


@styled
def error_budget_figure(validation: Validation, output: int = 0) -> Figure:
    """Share of the solver, or of process noise, in the innovation variance; shift by finer steps.

    The share is over time, that of a solver on a logarithmic scale; the shift per parameter in
    posterior sd.
    """
    output = output_number(output, len(validation.outputs))
    shift = validation.shift
    n_bars = 0 if shift is None else len(shift.parameters)
    drawing = figure(3.2 + 0.2 * n_bars)
    above, below = drawing.subplots(2, 1, height_ratios=[1.6, 0.5 + 0.16 * n_bars])
    _plot_share(above, validation.innovations, output)
    if shift is None:
        below.set_axis_off()
    else:
        _plot_shift(below, shift)
    return drawing


def _plot_histogram(axes: Axes, validation: Validation, output: int) -> None:
    values = np.concatenate([part.normalised[:, output] for part in validation.innovations])
    values = values[np.isfinite(values)]
    reach = max(4.0, min(float(np.abs(values).max()), 12.0))
    counts, edges = np.histogram(values, bins=61, range=(-reach, reach), density=True)
    axes.stairs(counts, edges, fill=True, color=LIGHT)
    axes.stairs(counts, edges, color=DARK, lw=0.9, label="residuals")
    x = np.linspace(-reach, reach, 300)
    axes.plot(x, stats.norm.pdf(x), color=ACCENT, ls="--", label="N(0, 1)")
    axes.set_ylim(top=1.35 * max(float(counts.max()), 0.4))
    axes.set_yticks([])
    tests = validation.outputs[output]
    axes.set_title(f"mean {tests.mean:+.2f}, variance {tests.variance:.3g}")
    axes.legend(loc="upper right")


def _plot_correlation(axes: Axes, lags: np.ndarray, values: np.ndarray, tests: Whiteness) -> None:
    band = tests.autocorrelation_band if len(lags) == LAGS else tests.cross_correlation_band
    axes.fill_between(lags, -band, band, color=LIGHT, lw=0, step="mid")
    axes.vlines(lags, 0.0, values, color=DARK, lw=1.0)
    outside = np.abs(values) > band
    axes.plot(lags[~outside], values[~outside], ls="", marker="o", ms=2.5, mew=0, color=DARK)
    axes.plot(lags[outside], values[outside], ls="", marker="D", ms=3.5, mew=0, color=ACCENT)
    axes.axhline(0.0, color="k", lw=0.5)
    axes.set_xlim(lags[0] - 1, lags[-1] + 1)
    # A short record, or outputs measured in turns, has no pair of samples at some lags.
    known = np.concatenate([np.abs(values), band])
    largest = 1.15 * max(known[np.isfinite(known)], default=1.0)
    axes.set_ylim(-largest, largest)


def _plot_share(axes: Axes, parts: tuple[Innovations, ...], output: int) -> None:
    disturbed = any(part.process_variance.any() for part in parts)
    what = "process noise" if disturbed else "solver"
    for number, part in enumerate(parts):
        share = (part.solver_share + part.process_share)[:, output]
        noise, share = 1.0 - share, np.maximum(share, NOTHING)
        style = ("-", "--", "-.", ":")[number % 4]
        label = f"{what}, {plain(part.record.name)}" if len(parts) > 1 else what
        axes.plot(*envelope(part.record.t, share), color=DARK, lw=0.8, ls=style, label=label)
        axes.plot(
            *envelope(part.record.t, np.maximum(noise, NOTHING)), color=MIDDLE, lw=2.0, ls=style,
            label=None if number else "measurement noise",
        )  # fmt: skip
    axes.set(
        xlabel=over_time(next(iter(parts)).record),
        ylabel="share of S",
        title="shares of the innovation variance",
    )
    if disturbed:
        # Neither share is small; room for the legend below.
        axes.set_ylim(-0.3, 1.05)
    else:
        axes.set_yscale("log")
        axes.set_ylim(top=3.0)
    axes.legend(loc="lower right", ncols=2)


def _plot_shift(axes: Axes, shift: DiscretisationShift) -> None:
    names, shifts = list(shift.parameters), np.array(list(shift.parameters.values()))
    finite = np.where(np.isfinite(shifts), shifts, 0.0)
    axes.barh(range(len(names)), finite, height=0.6, color=MIDDLE, ec=DARK, lw=0.8)
    axes.axvline(0.0, color="k", lw=0.6)
    reach = max(1.1, 1.1 * float(np.abs(finite).max()))
    axes.axvspan(-1, 1, color=LIGHT, lw=0, zorder=0)
    axes.set_xlim(-reach, reach)
    axes.set_yticks(range(len(names)), [plain(name) for name in names])
    axes.invert_yaxis()
    axes.set_title(f"shift of each mean at {shift.finer.resolution}")
    axes.set_xlabel("posterior standard deviations")
