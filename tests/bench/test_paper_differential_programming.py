"""The differential programming papers in small: data, biases of pairs, and what rows say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import smcpn
from benchmarks.papers.differential_programming import widths
from benchmarks.papers.differential_programming_discovery import fitted_equation, told
from benchmarks.papers.differential_programming_figures import Forecast, forecast_figure
from benchmarks.papers.differential_programming_pairs import Flow, estimate
from benchmarks.papers.differential_programming_problems import EXPERIMENTS, Data, Experiment
from benchmarks.papers.differential_programming_published import (
    COEFFICIENTS,
    GLYCOLYSIS,
    SEQUEL,
    coefficients,
    relative_error,
    rms_relative_error,
)
from benchmarks.papers.differential_programming_sequel import SEQUELS
from smcpn import Record
from smcpn.discovery.equations.system import CandidateSystem

PENDULUM = EXPERIMENTS["pendulum"]


@cache
def small(noise: float) -> Data:
    """Pairs of a pendulum, few and close together."""
    return replace(
        PENDULUM, samples=801, lag=20, pairs=200, steps=8, end=10.0, noise=noise
    ).data(seed=3)  # fmt: skip


def test_coefficients_of_the_library_are_the_equation() -> None:
    for name, one in EXPERIMENTS.items():
        if one.library is not None:
            system = CandidateSystem.of(one.library, one.ode.states)
            ode = system.equation(values={n: one.coefficients.get(n, 0.0)
                                          for n in system.coefficients})  # fmt: skip
            x = np.array(one.start) + 0.3
            values = [list(of.values()) for of in (ode.defaults, one.truth)]
            rates = [f.rhs(x, [], 0.0, v) for f, v in zip((ode, one.ode), values, strict=True)]
            assert np.allclose(np.array(rates[0]), np.array(rates[1])), name


@pytest.mark.numerics
def test_data_are_the_authors() -> None:
    # As least squares gives on the pairs of the authors' own code.
    data = EXPERIMENTS["lotka-volterra"].data()
    assert len(np.unique(data.starts)) == 1000
    assert data.starts.max() < 16001 - 321
    published = estimate(data, data.experiment.ode, np.array([1.0, 0.1, 1.5, 0.75]), published=True)
    assert np.allclose(published, [0.9982, 0.1002, 1.5088, 0.7535], atol=6e-5)


def test_flow_has_the_derivatives_of_the_solution() -> None:
    flow = Flow.of(PENDULUM.ode, 2, 20, 0.4)
    x, p = np.array([[0.3, 1.0], [-1.0, 0.2]]), np.array([0.2, 8.91])
    end, by_x, by_p = flow(x, p)
    for k in range(2):
        step = 1e-6 * np.eye(2)[k]
        slope = (flow(x + step, p)[0] - flow(x - step, p)[0]) / 2e-6
        assert np.allclose(slope, by_x[:, :, k], atol=1e-7)
        slope = (flow(x, p + step)[0] - flow(x, p - step)[0]) / 2e-6
        assert np.allclose(slope, by_p[:, :, k], atol=1e-7)
    exact = replace(PENDULUM, start=tuple(x[0])).states(np.array([0.0, 0.4]))
    assert np.allclose(end[0], exact[1], atol=1e-6)


def test_an_interval_too_short_makes_rates_too_large() -> None:
    data = small(0.0)
    found = estimate(data, PENDULUM.ode, np.array([0.2, 8.91]))
    assert np.allclose(found, [0.2, 8.91], rtol=1e-3)
    ode, truth = fitted_equation("pendulum", PENDULUM)
    begin = np.array(list(truth.values()))
    found = dict(zip(truth, estimate(data, ode, begin, published=True), strict=True))
    # Twenty intervals are taken for nineteen.
    assert found["x'[v]"] == pytest.approx(20 / 19, rel=5e-3)


@smcpn.ode
def decay(x: Any, *, rate: Any) -> Any:
    return -rate * x


SPREAD = 0.022


def test_latent_starts_remove_the_bias_of_noisy_ones() -> None:
    one = Experiment(
        decay, {"rate": 1.0}, (1.0,), end=3.0, forecast=3.0, samples=4001, lag=400, pairs=2000,
        steps=8, noise=0.3,
    )  # fmt: skip
    data = one.data(seed=0)
    plain, latent = (
        float(estimate(data, decay, np.array([1.0]), latent=latent)[0]) for latent in (False, True)
    )
    # Regression on a noisy variable: the factor over an interval is attenuated.
    first = one.exact[data.starts, 0]
    square, span = np.mean(first**2), 400 * 3.0 / 4000
    attenuation = square / (square + one.deviation[0] ** 2)
    # Over 20 seeds the sd of either is .022.
    assert plain == pytest.approx(1.0 - np.log(attenuation) / span, abs=4 * SPREAD)
    assert latent == pytest.approx(1.0, abs=4 * SPREAD)
    assert plain - 1.0 > 4 * SPREAD


def test_records_join_the_samples_of_pairs() -> None:
    data = small(0.02)
    record = data.record
    places = np.searchsorted(data.experiment.times, record.t)
    assert set(places) == set(data.starts) | set(data.starts + 20)
    assert np.array_equal(record.y, data.y[places])


def test_sequel_sees_states_in_turns() -> None:
    record = SEQUELS["lotka-volterra"].drawn(0)
    seen = np.isfinite(record.y)
    assert (record.t[-1], len(record)) == (16.5, 111)
    assert not seen[1:10].any()
    assert seen[0].tolist() == [False, True]
    assert (seen[10:].sum(axis=1) == 1).all()
    assert seen[10, 0]
    hidden = SEQUELS["glycolysis"]
    assert hidden.observed == ("N2", "A3", "S4ex")
    seen = np.isfinite(hidden.drawn(0).y)
    assert seen[0].tolist() == [False, True, True]
    assert seen[20:22].tolist() == [[False, True, False], [True, False, True]]


def test_published_tables_belong_to_the_experiments() -> None:
    assert set(COEFFICIENTS) <= set(EXPERIMENTS)
    dense = EXPERIMENTS["spiral, dense"].coefficients
    assert relative_error(coefficients("spiral, dense", dense), dense) == pytest.approx(
        np.sqrt(0.01**2 + 0.0027**2 + 0.0016**2 + 0.00095**2 + 0.00087**2) / 2.832, rel=0.1
    )
    rates = EXPERIMENTS["glycolysis"].truth
    assert all(set(paper) == set(rates) - {"phi"} for paper in GLYCOLYSIS.values())
    assert rms_relative_error(GLYCOLYSIS["noisy"], rates) == pytest.approx(0.0252, abs=3e-3)
    assert set(SEQUEL["glycolysis"]) == set(rates)


def test_told_names_the_largest_term_that_is_not_there() -> None:
    text = told({"x'[x]": 1.0, "x'[y]": -0.3, "x'[1]": 0.1}, {"x'[x]": 1.0, "y'[y]": 2.0})
    assert text == "x'[x] 1 y'[y] 0; 2 others, the largest x'[y] -0.3"


def test_widths_are_relative_to_theirs() -> None:
    theirs = SEQUEL["lotka-volterra"]
    half = {name: (low, (low + high) / 2) for name, (low, high, _) in theirs.items()}
    assert widths("lotka-volterra", {"x'[x]": 1.0}, half)[0] == pytest.approx(0.5)


def test_figure_of_a_forecast() -> None:
    record = Record(y=np.sin(np.arange(30.0))[:, None], dt=1.0)
    run = type("Run", (), {"record": record, "mean": record.y, "parameter_variance": record.y**2})
    shown = Forecast(("x",), run, record[:10], (0,))  # pyright: ignore[reportArgumentType]
    drawn = forecast_figure({"sine": shown})
    assert drawn.axes[0].get_title(loc="left") == "sine"
