"""Figures draw what they say, in one style, without touching anything global."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection, LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from scipy import stats

import smcpn
from smcpn.report.page import svg_text
from smcpn.report.style import (
    DARK,
    LIGHT,
    MIDDLE,
    Powers,
    band_envelope,
    envelope,
    narrow_column,
)
from tests import models


@pytest.fixture(scope="module")
def posterior() -> smcpn.Posterior:
    return models.oscillator_posterior("right")


def line(axes, label):
    return next(one for one in axes.get_lines() if one.get_label() == label)


def test_every_method_returns_a_figure(posterior):
    record = models.oscillator_record(seed=9)
    figures = [
        posterior.plot_parameters(),
        posterior.plot_corner(),
        posterior.plot_run(),
        posterior.plot_prediction(record),
        posterior.plot_innovations(),
        posterior.plot_frf(),
        posterior.plot_frf(record),
        posterior.plot_error_budget(),
    ]
    assert all(isinstance(one, Figure) for one in figures)
    assert all(svg_text(one).startswith("<?xml") for one in figures)


def test_parameters_are_counted_in_units_of_the_truth(posterior):
    drawing = posterior.plot_parameters(models.OSCILLATOR_TRUTH)
    assert len(drawing.axes) == 2 * len(posterior.names)
    for axes in drawing.axes:
        assert line(axes, "truth").get_xdata()[0] == 1.0
        assert line(axes, "prior").get_ydata().max() > 0
    low, high = drawing.axes[3].get_xlim()
    assert low < posterior.mean["k"] / models.OSCILLATOR_TRUTH["k"] < high
    assert high - low < 12 * posterior.sd["k"] / models.OSCILLATOR_TRUTH["k"]


def test_a_density_over_the_posterior_range_has_mass_one(posterior):
    axes = posterior.plot_parameters(models.OSCILLATOR_TRUTH).axes[1]
    heights, edges, _ = axes.patches[0].get_data()
    assert heights @ np.diff(edges) == pytest.approx(1.0, abs=0.01)


def test_an_unknown_truth_is_refused(posterior):
    with pytest.raises(smcpn.InputError, match="truth names 'mass'"):
        posterior.plot_parameters({"mass": 1.0})


def test_the_corner_has_every_pair_once(posterior):
    drawing = posterior.plot_corner(models.OSCILLATOR_TRUTH)
    assert len(drawing.axes) == 3
    scatter = drawing.axes[1].get_lines()[0]
    assert scatter.get_rasterized()
    assert len(scatter.get_xdata()) == len(posterior.theta)
    weights, theta = posterior.weights, posterior.theta
    expected = np.cov(theta.T, aweights=weights)
    r = expected[0, 1] / np.sqrt(expected[0, 0] * expected[1, 1])
    assert drawing.axes[1].get_title(loc="right") == f"{r:+.2f}"


@pytest.mark.parametrize("narrow", [False, True])
def test_a_corner_of_some_parameters_says_so(posterior, monkeypatch, narrow):
    assert posterior.plot_corner().get_suptitle() == ""
    most = "MOST_PAIRED_NARROW" if narrow else "MOST_PAIRED"
    monkeypatch.setattr(f"smcpn.report.parameters.{most}", 1)
    with narrow_column() if narrow else nullcontext():
        drawing = posterior.plot_corner()
    assert len(drawing.axes) == 1
    assert "the 1 of 2 parameters" in drawing.get_suptitle()
    assert ("wide" in drawing.get_suptitle()) == narrow


def test_the_run_marks_every_rejuvenation(posterior):
    ess, moves, evidence = posterior.plot_run().axes
    marks = line(ess, "rejuvenation")
    assert len(marks.get_xdata()) == len(posterior.rejuvenations) > 0
    assert list(marks.get_xdata()) == [r.sample + 1 for r in posterior.rejuvenations]
    assert list(moves.get_lines()[0].get_ydata()) == [r.acceptance for r in posterior.rejuvenations]
    assert evidence.get_lines()[0].get_ydata()[-1] == posterior.log_evidence_path[-1]


def test_a_run_without_a_path_shows_its_weights_and_moves(posterior):
    end, made = slice(-1, None), posterior.rejuvenations
    alone = replace(
        posterior,
        path_samples=posterior.path_samples[end],
        ess_path=posterior.ess_path[end],
        log_evidence_path=posterior.log_evidence_path[end],
    )
    weights, moves = alone.plot_run().axes
    held = weights.get_lines()[0].get_ydata()
    assert held[0] == alone.weights.max()
    assert held[-1] == pytest.approx(1.0)
    assert list(moves.get_lines()[0].get_xdata()) == [r.exponent for r in made]
    assert "method='ibis' shows it after every sample" in alone.run_caption
    assert "through the record" in posterior.run_caption


def test_a_prediction_shows_curves_band_error_and_zoom(posterior):
    simulation = posterior.simulate(models.oscillator_record(seed=9))
    whole, error, close, close_error = simulation.plot().axes
    y, mean = simulation.record.y[:, 0], simulation.mean[:, 0]
    np.testing.assert_array_equal(line(whole, "measured").get_ydata(), y)
    np.testing.assert_array_equal(line(whole, "simulated").get_ydata(), mean)
    np.testing.assert_array_equal(error.get_lines()[0].get_ydata(), y - mean)
    band = next(c for c in whole.collections if isinstance(c, FillBetweenPolyCollection))
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(simulation.upper.max())
    worst = simulation.record.t[np.argmax(np.abs(y - mean))]
    for axes in (close, close_error):
        assert axes.get_xlim()[0] <= worst <= axes.get_xlim()[1]
    assert f"RMSE {simulation.rmse_of_mean[0]:.3g} mm" in whole.get_title()
    assert r"\$x\$" in whole.get_title()


def test_a_record_as_short_as_the_zoom_has_none(posterior):
    assert len(posterior.plot_prediction(models.oscillator_record(samples=80)).axes) == 2


def test_a_record_without_outputs_is_drawn_alone(posterior):
    measured = models.oscillator_record()
    silent = smcpn.Record(u=measured.u, dt=models.OSCILLATOR_DT)
    (axes,) = posterior.plot_prediction(silent).axes
    assert [one.get_label() for one in axes.get_lines()] == ["simulated"]


@pytest.mark.slow
def test_innovations_show_every_lag_and_mark_those_outside(posterior):
    _, _, auto, cross = posterior.plot_innovations().axes
    for axes, lags in ((auto, 25), (cross, 51)):
        stems = next(c for c in axes.collections if isinstance(c, LineCollection))
        assert len(stems.get_segments()) == lags
    tests = models.oscillator_posterior("wrong").validate().outputs[0]
    marked = models.oscillator_posterior("wrong").plot_innovations().axes[2].get_lines()[1]
    outside = np.abs(tests.autocorrelation) > tests.autocorrelation_band
    assert len(marked.get_xdata()) == outside.sum() > 0


def test_the_error_budget_draws_shares_and_shifts(posterior):
    shares, shifts = posterior.plot_error_budget().axes
    solver = line(shares, "solver").get_ydata()
    np.testing.assert_allclose(
        solver[1:], posterior.validate().innovations[0].solver_share[1:, 0], rtol=1e-12
    )
    shift = posterior.shift
    assert [bar.get_width() for bar in shifts.patches[: len(posterior.names)]] == pytest.approx(
        list(shift.parameters.values())
    )


def test_a_frequency_response_is_drawn_in_decibels(posterior):
    magnitude, phase, coherence = posterior.plot_frf().axes
    measured = line(magnitude, "measured").get_ydata()
    static = 20 * np.log10(1 / posterior.mean["k"])
    assert measured[0] == pytest.approx(static, abs=1.5)
    assert len(phase.get_lines()) == 2
    assert coherence.get_lines()[0].get_ydata().max() <= 1


def test_an_envelope_keeps_every_peak():
    t = np.arange(100_000.0)
    values = np.random.default_rng(0).normal(size=len(t))
    values[12_345], values[54_321] = 50.0, -60.0
    values[70_000:80_000] = np.nan
    times, kept = envelope(t, values, bins=300)
    assert len(kept) == 600
    assert np.nanmax(kept) == 50.0
    assert np.nanmin(kept) == -60.0
    assert (np.diff(times) >= 0).all()
    assert np.isnan(kept[np.searchsorted(times, 75_000)])
    _, lower, upper = band_envelope(t, values - 1, values + 1, bins=300)
    assert np.nanmin(lower) == -61.0
    assert np.nanmax(upper) == 51.0
    short = envelope(t[:100], values[:100])
    assert short[1] is not None
    np.testing.assert_array_equal(short[1], values[:100])


def test_a_long_record_stays_a_small_file():
    n = 100_000
    rng = np.random.default_rng(1)
    record = smcpn.Record(u=rng.normal(size=n), y=rng.normal(size=n), dt=0.01)
    problem = models.oscillator_problem(models.oscillator_record())
    values = np.array([list(models.OSCILLATOR_TRUTH.values())])
    simulation = smcpn.results.simulation.simulation.simulate_particles(
        problem, record, values, np.ones(1), steps=1
    )
    assert len(svg_text(simulation.plot())) < 400_000


def test_the_same_figure_gives_the_same_bytes(posterior):
    assert svg_text(posterior.plot_corner()) == svg_text(posterior.plot_corner())


def test_the_style_is_neither_the_users_nor_left_behind(posterior):
    with mpl.rc_context({"lines.linewidth": 9.0, "axes.facecolor": "red"}):
        drawing = posterior.plot_run()
        assert mpl.rcParams["axes.facecolor"] == "red"
    assert drawing.axes[2].get_lines()[0].get_linewidth() == 1.0
    assert drawing.axes[0].get_facecolor()[:3] == (1.0, 1.0, 1.0)


def test_the_tones_differ_in_lightness():
    lightness = [np.dot(to_rgb(tone), (0.299, 0.587, 0.114)) for tone in (DARK, MIDDLE, LIGHT)]
    assert (np.diff(lightness) > 0.2).all()


def test_importing_smcpn_loads_no_figures_and_drawing_needs_no_pyplot():
    code = (
        "import sys, smcpn; print([m for m in ('matplotlib', 'jinja2') if m in sys.modules]);"
        "from smcpn.report import html, parameters, residuals, sampler, style, trajectories;"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]


def test_powers_of_ten_are_plain_text():
    axes = Figure().subplots()
    axes.semilogy([1.0, 2.0], [1e-12, 3.0])
    axes.yaxis.set_major_formatter(Powers())
    assert axes.yaxis.get_major_formatter()(1e-9) == "10\N{SUPERSCRIPT MINUS}\N{SUPERSCRIPT NINE}"


def test_an_output_has_its_name_and_unit_and_shows_samples_that_stand_apart(posterior):
    record = models.oscillator_record(seed=9)[:40]
    seldom = record.y.copy()
    seldom[np.arange(len(record)) % 10 > 0] = np.nan
    both = np.hstack([record.y, seldom])
    record = smcpn.Record(u=record.u, y=both, dt=record.dt, y_unit="m, V")
    simulated = posterior.simulate(record, observe=["x", "v"])
    output, error = simulated.plot(1).axes[:2]
    assert output.get_ylabel() == "v (V)"
    assert "V, " in output.get_title()
    assert "m, V" not in output.get_title()
    assert error.get_lines()[0].get_marker() == "."
    assert simulated.plot(0).axes[1].get_lines()[0].get_marker() == "None"
    few = posterior.simulate(record[:20], observe=["x", "v"]).plot(0).axes[0].get_lines()[0]
    assert (few.get_marker(), few.get_linestyle()) == ("o", "None")


def test_figures_are_laid_out_in_one_pass_as_in_two(posterior):
    def boxes(engine):
        drawing = posterior.plot_corner(models.OSCILLATOR_TRUTH)
        drawing.set_layout_engine(engine or drawing.get_layout_engine())
        drawing.draw_without_rendering()
        whole = [axes.get_tightbbox() for axes in drawing.axes]
        assert all(box.min[0] >= 0 <= box.min[1] for box in whole)
        assert all((box.max <= drawing.bbox.max).all() for box in whole)
        return np.array([axes.bbox.extents for axes in drawing.axes])

    np.testing.assert_allclose(boxes(None), boxes(ConstrainedLayoutEngine()), atol=1.5)


def test_a_posterior_near_zero_is_drawn_on_the_logarithmic_axis_of_its_prior():
    """Its own axis is linear, and widened to below zero, where the other has no logarithm."""
    prior = {"rate": stats.lognorm(3.0), "start": 1.0}
    problem = smcpn.Problem(
        models.decay, models.line_record(), observe="x", noise=1.0, initial=["start"], prior=prior
    )
    found = smcpn.maximise(problem, solver=models.LINE_SOLVER, starts=2).to_posterior()
    theta = 0.5 * np.random.default_rng(0).normal(size=(400, 1))
    spread = replace(found, theta=theta, log_weights=np.zeros(400))
    left, right = spread.plot_parameters().axes
    assert (left.get_xscale(), right.get_xscale()) == ("log", "linear")
    assert left.get_xlim()[0] > 0.0 > right.get_xlim()[0]
