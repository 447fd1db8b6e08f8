"""No text of a picture is cut or written over another, and no two ticks of an axis are alike."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import smcpn
from smcpn.report.residuals import frequency_figure
from smcpn.report.style import narrow_column
from smcpn.results.simulation.simulation import Simulation
from smcpn.results.validation.frequency import FrequencyResponse

DATA = Path(__file__).parent.parent / "data"
SLACK = 2.0
"""Pixels."""
SCALES = [(1.5e8, 0.0), (1e-3, 1e5)]
"""Size and mean of what is measured."""


@pytest.fixture(scope="module")
def posterior() -> smcpn.Posterior:
    """Two outputs with a unit each; a loguniform prior."""
    return smcpn.load(DATA / "posterior-0.2.0.h5")


def check(drawing) -> None:
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    width, height = canvas.get_width_height()
    for text in drawing.findobj(Text):
        box = text.get_window_extent()
        if not text.get_visible() or not text.get_text().strip():
            continue
        if not any(text in axis.get_ticklabels() for axis in axes_of(drawing)):
            assert box.x0 > -SLACK, text
            assert box.y0 > -SLACK, text
            assert box.x1 < width + SLACK, text
            assert box.y1 < height + SLACK, text
    for axis in axes_of(drawing):
        check_ticks(axis)
    for axes in drawing.axes:
        power = axes.yaxis.get_offset_text()
        if power.get_text():
            assert not power.get_window_extent().overlaps(axes.title.get_window_extent())


def axes_of(drawing):
    return [axis for axes in drawing.axes for axis in (axes.xaxis, axes.yaxis)]


def check_ticks(axis) -> None:
    low, high = sorted(axis.get_view_interval())
    shown = [
        tick.label1
        for tick in axis.get_major_ticks()
        if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text()
    ]
    labels = [one.get_text() for one in shown]
    assert len(set(labels)) == len(labels), labels
    assert not [one for one in labels if one.strip("-\N{MINUS SIGN}0.") == "" and one != "0"][1:]
    for one, other in pairwise([label for label in shown if label.get_rotation() == 0.0]):
        assert not one.get_window_extent().overlaps(other.get_window_extent()), labels


@pytest.mark.slow
@pytest.mark.parametrize("narrow", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_the_pictures_of_a_posterior(posterior, narrow):
    with narrow_column() if narrow else nullcontext():
        record = posterior.problem.records[0]
        for drawing in (
            posterior.plot_parameters(),
            posterior.plot_corner(),
            posterior.plot_prediction(record),
            posterior.plot_prediction(record, output=1),
            posterior.plot_run(),
            posterior.plot_innovations(),
            posterior.plot_error_budget(),
        ):
            check(drawing)


@pytest.mark.parametrize("narrow", [pytest.param(False, marks=pytest.mark.nightly), True])
@pytest.mark.parametrize(("size", "mean"), SCALES)
@pytest.mark.slow
def test_curves_of_any_size(size, mean, narrow):
    wave = np.sin(0.02 * np.arange(400))[:, None] * [1.0, -3.0]
    y = mean + size * (wave + 0.01 * np.random.default_rng(0).normal(size=wave.shape))
    record = smcpn.Record(y=y, dt=0.01, y_unit="Pa, mg/L", name="a record of some length of name")
    shape = y.shape
    simulation = Simulation(
        record, mean + size * wave, np.full(shape, (size / 100) ** 2), *[np.zeros(shape)] * 3,
        rmse=np.zeros((1, 2)), rmse_of_mean=np.full(2, 1e-3), fit=np.full(2, 99.0),
        coverage=np.full(2, 0.95), weights=np.ones(1), steps=1, outputs=("pressure", "p"),
        learned=((0, 150),),
    )  # fmt: skip
    with narrow_column() if narrow else nullcontext():
        one = simulation.plot(0)
        check(one)
        check(simulation.plot())
    whole = one.axes[0]
    assert whole.get_ylabel() == "pressure (Pa)"
    assert "learned from (the rest is predicted)" in whole.get_legend_handles_labels()[1]


def test_phases_are_in_the_same_turn():
    f = np.linspace(0.1, 1.0, 30)
    h = -1.0 / (1.0 + 0.1j * f)
    turned = h * np.exp(1e-3j * np.sign(np.random.default_rng(0).normal(size=30)))
    response = FrequencyResponse(
        name="r", frequency=f, measured=turned, simulated=h, coherence=np.ones(30),
        standard_error=np.full(30, 1e-3), unit="Hz",
    )  # fmt: skip
    measured, simulated = (one.get_ydata() for one in frequency_figure(response).axes[1].lines)
    assert np.abs(measured - simulated).max() < 0.1


def test_a_prior_over_decades_is_drawn_over_logarithms(posterior):
    scales = [axes.get_xscale() for axes in posterior.plot_parameters().axes]
    # c is lognormal over less than two decades, k loguniform over three, sigma half normal.
    assert scales == ["log", "linear", "log", "linear", "linear", "linear"]
