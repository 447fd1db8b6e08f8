"""Likelihoods compared by reweighting the particles of a posterior."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from smcpn import InputError
from smcpn.cli.app import app
from smcpn.likelihood.registry import build_likelihood
from smcpn.model.solver import RK4
from smcpn.report.html import likelihood_table
from smcpn.results.validation import reweighting
from smcpn.results.validation.reweighting import compare_likelihoods
from tests.models import oscillator_posterior

pytestmark = pytest.mark.numerics


def compared(*names):
    p = oscillator_posterior()
    return compare_likelihoods(p.problem, p.solver, p.likelihood, p.theta, p.log_weights, *names)


@pytest.fixture(scope="module")
def rows():
    return {row.likelihood: row for row in compared()}


def test_the_own_likelihood_changes_nothing(rows):
    own = rows["marginal"]
    assert own.solver == oscillator_posterior().solver
    assert own.kept == pytest.approx(1.0)
    assert own.largest_shift[1] == pytest.approx(0.0, abs=1e-9)
    assert own.log_likelihood == pytest.approx(
        oscillator_posterior().weights @ oscillator_posterior().log_likelihood, rel=1e-9
    )


def test_with_fine_steps_all_likelihoods_see_the_same(rows):
    for row in rows.values():
        assert row.kept == pytest.approx(1.0, abs=0.05)
        assert row.largest_shift[1] < 0.1
        assert row.log_likelihood == pytest.approx(rows["marginal"].log_likelihood, abs=0.1)


def test_another_mean_is_that_of_importance_weights(rows):
    p = oscillator_posterior()
    _, log_likelihood = build_likelihood(p.problem, RK4(8)).evaluate(p.values, p.problem.n_samples)
    weights = p.weights * np.exp(log_likelihood - p.log_likelihood)
    mean = (weights / weights.sum()) @ p.values
    shifts = np.abs(mean - list(p.mean.values())) / list(p.sd.values())
    assert rows["classical"].largest_shift[1] == pytest.approx(shifts.max(), rel=1e-6)


def test_the_diffusion_is_the_most_likely_one():
    """At the posterior centre: neither half nor twice of it is likelier."""
    p = oscillator_posterior()
    (row,) = compared(["fenrir"])
    diffusion = row.solver.diffusion
    centre = p.problem.prior.natural((p.weights @ p.theta)[None, :])

    def value(factor):
        solver = replace(row.solver, diffusion=diffusion * factor)
        likelihood = build_likelihood(p.problem, solver, likelihood="fenrir")
        return likelihood.evaluate(centre, p.problem.n_samples)[1][0]

    assert value(1.0) >= max(value(0.5), value(2.0)) - 1e-6
    assert not row.reason


def test_a_likelihood_without_a_value_says_why(monkeypatch):
    """A bound that nothing respects leaves no value at any diffusion."""
    monkeypatch.setattr(reweighting, "_evaluated", lambda likelihood, values: nothing(values))
    (row,) = compared(["fenrir"])
    assert "none at any diffusion from 1e-06 to 1e+18" in row.reason
    assert np.isnan(row.log_likelihood)
    ((*_, told, _, _, _),) = likelihood_table([row]).rows
    assert told == row.reason


def nothing(values):
    return np.full(len(values), -np.inf)


def test_an_unknown_likelihood_is_refused():
    with pytest.raises(InputError, match="likelihood is 'exact'"):
        compared(["exact"])


@pytest.mark.nightly
def test_the_report_has_the_comparison(tmp_path):
    path = oscillator_posterior().report(
        tmp_path / "report.html", likelihoods=["marginal", "classical"]
    )
    text = path.read_text()
    assert "Likelihoods compared" in text
    assert "RK4(steps=8)" in text


def test_the_command_asks_for_a_report():
    result = CliRunner().invoke(app, ["identify", "bouc-wen", "--compare"])
    assert "--compare adds a page to the report" in str(result.exception)
