"""The DALTON paper in small: its problems, and what the command counts and compares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import smcpn
from benchmarks.papers import dalton
from benchmarks.papers.dalton_posteriors import Marginals, fitted, of_laplace
from benchmarks.papers.dalton_problems import (
    counts_study,
    fitzhugh_nagumo_study,
    lorenz_solution,
    lorenz_starts_study,
    lorenz_study,
)
from benchmarks.papers.dalton_settings import GRIDS, RUNGE_KUTTA_STEPS, STARTS, STARTS_GRID
from benchmarks.papers.dalton_starts import PaperLogLikelihood, Sweep, score
from benchmarks.rows import Row, table
from benchmarks.study import Picture
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.solver import RK4
from tests.models import FITZHUGH_NAGUMO, exact_solution, fitzhugh_nagumo_solution

pytestmark = pytest.mark.numerics


@pytest.fixture(scope="module")
def exact():
    """Posterior of FitzHugh-Nagumo under Runge-Kutta, and its Laplace approximation."""
    return fitted(fitzhugh_nagumo_study(), "classical", RK4(RUNGE_KUTTA_STEPS), "")


def gaussian(mean: float, sd: float, reason: str = "") -> Marginals:
    study = fitzhugh_nagumo_study()
    truth = study.problem.prior.unconstrained(study.truth[None, :])
    theta = truth + mean + sd * np.random.default_rng(0).normal(size=(20_000, len(study.truth)))
    draws = study.problem.prior.natural(theta)
    return Marginals(study, "1/20", "dalton", "Laplace", draws, reason=reason)


@pytest.mark.nightly
def test_settings_are_those_of_the_paper():
    assert [grid.label for grid in GRIDS["fn"]] == ["1/4", "1/10", "1/20"]
    assert [grid.solver.steps for grid in GRIDS["lorenz"]] == [200, 400, 800]
    assert STARTS_GRID.solver.steps == 200  # dt 5e-4 over .1
    assert np.allclose(STARTS, [0.1, 0.5623413, 3.1622777, 17.7827941, 100.0])
    assert fitzhugh_nagumo_study().names == ("a", "b", "c", "V(0)", "R(0)")
    assert lorenz_study().names == ("alpha", "rho", "beta", "x(0)", "y(0)", "z(0)")
    assert lorenz_starts_study(True).names == ("alpha", "rho", "beta", "kappa")
    assert len(lorenz_starts_study(False).problem.records[0]) == 201
    assert counts_study().problem.records[0].y.sum(axis=0).tolist() == [65.0, 57.0]


def test_the_chaotic_solution_is_exact():
    # The last step again, by DOP853 at its tightest: there chaos has had no time.
    states = lorenz_solution()
    study = lorenz_study()
    again = exact_solution(study.problem.ode, study.truth[:3], states[-101], np.linspace(0, 1, 2))
    assert np.abs(again[-1] - states[-1]).max() < 1e-9


@pytest.mark.nightly
def test_a_posterior_covers_what_lies_within(exact):
    marginals = gaussian(1.0, 0.5)
    assert all(marginals.covers.values())
    assert np.allclose(list(marginals.scores.values()), -2.0, atol=0.05)
    assert not any(gaussian(3.0, 1.0).covers.values())
    shift, spread = gaussian(0.0, 1.1).beside(gaussian(0.2, 1.0))
    assert shift == pytest.approx(0.2, abs=1e-2)
    assert spread == pytest.approx(0.1, abs=1e-6)
    assert exact[0].exists
    assert all(exact[0].covers.values())


def test_laplace_draws_are_those_of_the_approximation(exact):
    marginals, found = exact
    again = of_laplace(marginals.study, found, "", 0.0)
    mean, sd = again.moments
    assert np.array_equal(again.draws, marginals.draws)
    assert np.abs((mean - found.mode) / sd).max() < 0.03
    assert np.allclose(sd, np.sqrt(np.diag(found.covariance)), rtol=0.02)


def test_score_is_a_distance_in_standard_deviations():
    assert score(np.diag([-4.0, -25.0]), 1.0, 1) == pytest.approx(5.0)
    assert np.isnan(score(np.diag([-4.0, 1.0]), 1.0, 0))
    assert np.isnan(score(np.full((2, 2), np.nan), 1.0, 0))


@pytest.mark.nightly
def test_the_gradient_of_the_papers_likelihood_is_that_of_its_values():
    study = fitzhugh_nagumo_study()
    paper = PaperLogLikelihood(study, "dalton", GRIDS["fn"][0])
    value, gradient = paper.value_and_gradient(study.truth[None, :])
    moves = 1e-6 * np.eye(len(study.truth))
    slopes = (paper(study.truth + moves) - paper(study.truth - moves)) / 2e-6
    assert value == pytest.approx(paper(study.truth[None, :]), rel=1e-12)
    assert gradient[0] == pytest.approx(slopes, rel=1e-5)


def test_the_highest_search_of_every_start_counts():
    heights = [1.0, 3.0, 2.0, 0.0, 7.0, 5.0, 6.0, 4.0]
    searches = [
        SimpleNamespace(log_density=height, values=np.array([height, 28.0, 8.0 / 3.0, 1.0]))
        for height in heights
    ]
    maximum: Any = SimpleNamespace(starts=searches)
    learned = Sweep("dalton", True, maximum)
    assert [one.log_density for one in learned.highest] == [3.0, 7.0]
    assert len(Sweep("dalton", False, maximum).highest) == len(heights)
    assert not learned.found.any()
    searches[4].values[0] = 10.05
    assert learned.found.tolist() == [False, True]


def test_classical_likelihood_takes_counts():
    study = counts_study()
    y = study.problem.records[0].y
    likelihood = build_likelihood(study.problem, RK4(160))
    values = np.array([[*FITZHUGH_NAGUMO, -1.0, 1.0]])
    got = likelihood.evaluate(values, likelihood.n_samples)[1][0]
    rates = np.exp(0.1 + 0.5 * fitzhugh_nagumo_solution())
    assert got == pytest.approx(stats.poisson.logpmf(y, rates).sum(), abs=1e-6)


def test_a_missing_count_adds_nothing():
    study = counts_study()
    record = study.problem.records[0]
    y = record.y.copy()
    y[3, 1], y[7] = np.nan, np.nan
    problem = study.problem.with_records([smcpn.Record(y=y, dt=1.0)])
    likelihood = build_likelihood(problem, RK4(160))
    values = np.array([[*FITZHUGH_NAGUMO, -1.0, 1.0]])
    got = likelihood.evaluate(values, likelihood.n_samples)[1][0]
    rates = np.exp(0.1 + 0.5 * fitzhugh_nagumo_solution())
    assert got == pytest.approx(np.nansum(stats.poisson.logpmf(y, rates)), abs=1e-6)


def test_rows_say_what_the_paper_says():
    reference, close, far = gaussian(0.0, 1.0), gaussian(0.05, 1.0), gaussian(1.0, 1.0)
    rows = list(dalton.convergence_rows([reference, close, far]))
    assert [row.met for row in rows] == [True, False]
    assert "none: why" in dalton.posterior_row(gaussian(0.0, 1.0, "why")).value
    assert "covers all" in dalton.posterior_row(reference).value
    *rows, picture = dalton.told([reference, close])
    assert isinstance(picture, Picture)
    assert picture.name == "dalton_fn"
    text = table(row for row in rows if isinstance(row, Row))
    assert "as RK" in text
    assert len(text.splitlines()) == 1 + len(rows)


@pytest.mark.nightly
def test_two_starts_of_lorenz_find_the_truth():
    (row,) = [row for row in dalton.starts(True) if isinstance(row, Row)]
    assert row.met
    assert str(row.value).startswith("2 of 2")


@pytest.mark.nightly
def test_the_posterior_of_short_steps_is_that_of_runge_kutta(exact):
    study = fitzhugh_nagumo_study()
    ours = fitted(study, "dalton", GRIDS["fn"][2].solver, "1/20")[0]
    shift, spread = ours.beside(exact[0])
    assert shift < 0.1
    assert spread < 0.1


def test_a_ratio_beyond_what_data_can_be_counts_as_diverged():
    """Of steps of 1/4 far from the truth, where the filter without data diverges."""
    study = fitzhugh_nagumo_study()
    found = smcpn.LogLikelihood(study.problem, "dalton", GRIDS["fn"][0].solver)
    away = np.random.default_rng(0).normal(size=(200, len(study.truth)))
    values = found(study.truth * np.exp(0.3 * away))
    peak = -0.5 * np.log(2 * np.pi * 0.005)
    assert np.isneginf(values).any()
    assert np.isfinite(values).any()
    assert values.max() <= 82 * (peak + 1.0)
