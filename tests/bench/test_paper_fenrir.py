"""The Fenrir paper's settings, and its fits in small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from benchmarks.papers import fenrir, fenrir_fits
from benchmarks.papers.fenrir import inference, selection
from benchmarks.papers.fenrir_figures import (
    inference_figure,
    pendulum_figure,
    seir_figure,
    selection_figure,
)
from benchmarks.papers.fenrir_fits import FENRIR, RK, Fit, Plan, fit, starting_diffusion
from benchmarks.papers.fenrir_published import SEIR, SELECTION, TRAJECTORY_ERRORS
from benchmarks.papers.fenrir_settings import DIFFUSION, SETTINGS
from benchmarks.rows import Row, table
from benchmarks.study import Study, run, studies_of
from smcpn import LogLikelihood, Record

pytestmark = pytest.mark.numerics

SMALL_ORDER = 2


def at_truth(name: str) -> dict[str, float]:
    setting = SETTINGS[name]
    states = zip(setting.ode.states, setting.state, strict=True)
    return dict(setting.truth) | {f"{state}(0)": value for state, value in states}


def test_every_published_figure_has_a_setting() -> None:
    assert {*TRAJECTORY_ERRORS, *SELECTION, "seir", "pendulum"} == set(SETTINGS)
    truth = at_truth("seir")
    assert all(name in truth for errors in SEIR.values() for name in errors)


@pytest.mark.parametrize("name", ["lotka-volterra, low", "fitzhugh-nagumo, high", "seir"])
def test_the_truth_has_no_trajectory_error(name: str) -> None:
    assert SETTINGS[name].trajectory_error(at_truth(name)) == 0.0


def test_trajectory_error_sums_over_states_and_averages_over_times() -> None:
    setting = SETTINGS["pendulum"]
    other = at_truth("pendulum") | {"length": 1.1}
    distance = np.sum((_pendulum_states(1.1) - _pendulum_states(1.0)) ** 2, axis=1)
    assert setting.trajectory_error(other) == pytest.approx(np.sqrt(distance.mean()), rel=1e-6)


def _pendulum_states(length: float) -> np.ndarray:
    def rate(_: float, x: np.ndarray) -> list[float]:
        return [x[1], -9.81 / length * np.sin(x[0])]

    times = np.linspace(0.0, 10.0, 1001)
    return solve_ivp(
        rate, (0.0, 10.0), (0.0, np.pi / 2), "DOP853", times, rtol=1e-10, atol=1e-10
    ).y.T


def test_an_explosion_has_an_infinite_error() -> None:
    setting = SETTINGS["M00"]
    values = {"alpha": 50.0, "beta": 0.1, "gamma": 1.0, "x(0)": 5.0, "y(0)": 3.0}
    assert setting.trajectory_error(values) == np.inf


def test_three_states_of_the_epidemic_are_those_of_the_four() -> None:
    beta, gamma, decay = SETTINGS["seir"].truth.values()

    def rate(_: float, x: np.ndarray) -> list[float]:
        s, e, i, _ = x
        return [-beta * s * e, beta * s * e - gamma * e, gamma * e - decay * i, decay * i]

    state = SETTINGS["seir"].state
    four = solve_ivp(
        rate, (0.0, 100.0), (1.0 - sum(state), *state), "DOP853", np.arange(101.0),
        rtol=1e-11, atol=1e-13,
    ).y.T  # fmt: skip
    np.testing.assert_allclose(SETTINGS["seir"].states, four[:, 1:], atol=1e-7)


def test_records_belong_to_their_seed_and_noise() -> None:
    setting = SETTINGS["seir"]
    first, again, other = (setting.record(seed).y for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert np.isnan(first[:30]).all()
    assert np.isfinite(first[30:]).all()
    spread = np.std((first - other)[30:]) / np.sqrt(2.0)
    # 142 differences: the standard error of their spread is 6 %.
    assert spread == pytest.approx(np.sqrt(5e-4), rel=0.24)


def test_starting_diffusion_is_that_of_the_process() -> None:
    rng, h, true = np.random.default_rng(0), 0.1, 7.0
    x, path = np.zeros(4), []
    i, j = np.indices((4, 4))
    scale = np.array([1.0, 1.0, 2.0, 6.0])
    step = np.where(j >= i, h ** np.abs(j - i) / scale[np.abs(j - i)], 0.0)
    noise = h ** (7 - i - j) / ((7 - i - j) * scale[3 - i] * scale[3 - j])
    factor = true * np.linalg.cholesky(noise)
    for _ in range(500):
        x = step @ x + factor @ rng.normal(size=4)
        path.append(x[0])
    found = starting_diffusion(Record(y=np.array(path), dt=h), order=3)
    # 500 squares: the standard error of a standard deviation is 3 %.
    assert found == pytest.approx(true, rel=0.12)


@pytest.mark.nightly
def test_both_methods_find_the_trajectory() -> None:
    ours, theirs = (
        fit("fitzhugh-nagumo, low", method, SMALL_ORDER, seed=0) for method in (FENRIR, RK)
    )
    # The noise has a standard deviation of .07, 40 measurements and 5 unknowns.
    assert ours.error < 0.1
    assert theirs.error < 0.1
    assert ours.values["sigma"] == pytest.approx(np.sqrt(0.005), rel=0.5)


def test_the_highest_end_counts_even_at_an_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = at_truth("fitzhugh-nagumo, low")
    names = tuple(truth)
    right, wrong = np.array([*truth.values()]), np.array([0.1, 6.0, 0.5, -1.0, 1.0])
    ends = [
        SimpleNamespace(values=wrong, log_density=-60.0, success=True),
        SimpleNamespace(values=right, log_density=10.0, success=False),
    ]
    maximum = SimpleNamespace(names=names, starts=ends, evaluations=7)
    monkeypatch.setattr(fenrir_fits, "maximised", lambda *_, **__: maximum)
    found = fit("fitzhugh-nagumo, low", FENRIR, SMALL_ORDER, seed=0)
    assert found.values == truth
    assert found.nll == -10.0
    assert found.error == 0.0
    assert found.first_error > 1.0


def made_up(error: float, nll: float = 0.0) -> Fit:
    return Fit({}, nll, error, first_error=error, evaluations=1)


def rows_of(study: Study, runs: int) -> list[Row]:
    return [row for row in study(Plan(runs=runs)) if isinstance(row, Row)]


def test_a_miss_is_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def good(*_: object) -> list[Fit]:
        return [made_up(error) for error in (0.01, 0.02, 0.03) * 10]

    def one_outlier(*_: object) -> list[Fit]:
        return [made_up(error) for error in [0.01, 0.02] * 14 + [1.5]]

    monkeypatch.setattr(fenrir, "compile_all", lambda *_: None)
    monkeypatch.setattr(fenrir, "fits", good)
    assert [row.met for row in rows_of(inference, 30) if row.met is not None] == [True] * 8
    # Two records are too few to be judged.
    assert all(row.met is None for row in rows_of(inference, 2))
    monkeypatch.setattr(fenrir, "fits", one_outlier)
    rows = rows_of(inference, 30)
    assert [row.met for row in rows if row.met is not None] == [True, False] * 4
    assert "NO" in table(rows)


def test_a_model_is_chosen_by_its_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {"M11": (-40.0, -40.0), "M10": (14.0, -41.0), "M01": (9.0, 9.0), "M00": (99.0, np.inf)}

    def by_model(name: str, *__: object) -> list[Fit]:
        return [made_up(0.0, nll) for nll in ends[name]]

    monkeypatch.setattr(fenrir, "compile_all", lambda *_: None)
    monkeypatch.setattr(fenrir, "fits", by_model)
    chosen = rows_of(selection, 2)[0]
    assert chosen.value == 1
    assert chosen.met is False


def test_every_figure_is_drawn() -> None:
    errors = np.random.default_rng(0).lognormal(size=20).tolist()
    both = {FENRIR: errors, RK: [np.inf, *errors]}
    inference_figure(dict.fromkeys(TRAJECTORY_ERRORS, both))
    seir_figure({method: dict.fromkeys(SEIR[method], errors) for method in (FENRIR, RK)})
    selection_figure(dict.fromkeys(SELECTION, np.array([*errors, np.inf])))
    lengths = np.logspace(-2.0, 2.0, 9)
    pendulum_figure({FENRIR: (lengths, np.ones(9)), RK: (lengths, lengths)}, truth=1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lotka-volterra, low", "fitzhugh-nagumo, high"])
def test_rounding_does_not_show_above_the_least_diffusion(name: str) -> None:
    setting = replace(SETTINGS[name], order=SMALL_ORDER)
    log_likelihood = LogLikelihood(setting.problem(setting.record(0)), "fenrir", setting.solver)
    values = at_truth(name) | {"sigma": np.sqrt(setting.variance)}
    points = [values | {DIFFUSION: factor * setting.least} for factor in (1.0, 2.0, 5.0, 10.0)]
    found = log_likelihood([[point[n] for n in log_likelihood.names] for point in points])
    # A difference of 2 in log-likelihood is what a fit can tell.
    assert np.ptp(found) < 1e-2


@pytest.mark.nightly
def test_quick_runs_everything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    studies = studies_of("benchmarks.papers.fenrir")
    assert run("Fenrir.", studies, ["--quick", "--figures", str(tmp_path)]) == 0
    assert "M11 chosen" in capsys.readouterr().out
    assert len(list(tmp_path.glob("fenrir_*.png"))) == 4
