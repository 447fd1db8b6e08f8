"""A maximum and a Laplace approximation do what a posterior does, by draws of their own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.results.scores import Score


@smcpn.ode
def decay(x, u, *, rate, gain):
    """A first-order lag."""
    return gain * u - rate * x


@pytest.fixture(scope="module")
def maximum():
    rng = np.random.default_rng(1)
    u = rng.normal(size=300)
    record = smcpn.Record(u=u, dt=0.1, hold="zoh")
    y = smcpn.simulate(decay, record, {"rate": 1.0, "gain": 2.0}, observe="x")
    record = smcpn.Record(u=u, y=y + 0.05 * rng.normal(size=y.shape), dt=0.1, hold="zoh")
    prior = {"rate": stats.lognorm(1.0), "gain": stats.lognorm(1.0)}
    problem = smcpn.Problem(decay, record, observe="x", noise=0.05, prior=prior)
    return smcpn.maximise(problem, solver=smcpn.RK4(steps=1), starts=1)


def test_residuals_of_a_maximum_are_tested(maximum):
    validation = maximum.validate()
    assert validation.verdict.level == "usable"
    assert validation.pair is None
    assert validation is maximum.validate()


def test_a_summary_has_no_number_that_is_none(maximum):
    assert "nan" not in smcpn.laplace(maximum).to_posterior(50).summary()


def test_scores_are_those_of_its_one_particle(maximum):
    record = maximum.problem.records[0]
    score = Score.of(maximum.simulate(record))
    assert score.particles == 1
    assert score.rmse_of_mean == pytest.approx(score.rmse_mean, rel=1e-12)
    assert score.rmse_mean == pytest.approx(0.05, rel=0.15)


def test_plots_of_a_maximum(maximum):
    record = maximum.problem.records[0]
    left, _ = maximum.plot_parameters().axes[:2]
    assert {"prior", "maximum"} <= set(left.get_legend_handles_labels()[1])
    assert "nan" not in maximum.plot_corner().axes[1].get_title(loc="right")
    assert "fit" in maximum.plot_prediction(record).axes[0].get_title()
    assert maximum.plot_innovations().axes
    assert maximum.plot_frf().axes


def test_laplace_draws_once_and_has_the_band_of_its_posterior(maximum):
    laplace = smcpn.laplace(maximum)
    record = maximum.problem.records[0]
    assert laplace.posterior is laplace.posterior
    np.testing.assert_array_equal(
        laplace.simulate(record).sd, laplace.to_posterior().simulate(record).sd
    )


@pytest.mark.slow
def test_report_of_a_maximum(maximum, tmp_path):
    page = maximum.report(tmp_path / "maximum.html").read_text(encoding="utf-8")
    assert "decay" in page
    assert ">nan<" not in page


def test_an_output_that_is_none_and_a_truth_that_is_no_number_are_refused(maximum):
    for drawn in (maximum.plot_innovations, maximum.plot_frf, maximum.plot_error_budget):
        with pytest.raises(smcpn.InputError, match="output is 2: give one of 1 outputs, from 0"):
            drawn(output=2)
    for truth in ("x", np.nan, np.zeros(3)):
        with pytest.raises(smcpn.InputError, match=r"truth of rate is .*: give a finite number"):
            maximum.plot_parameters(truth={"rate": truth})


def test_a_model_without_unknown_functions_visits_none(maximum):
    assert smcpn.laplace(maximum).visited == {}


@pytest.mark.parametrize("count", [0, 2])
def test_records_are_as_many_as_the_problem_has_initial_states_for(maximum, count):
    records = list(maximum.problem.records) * count
    with pytest.raises(smcpn.InputError, match=f"records has {count}, and the problem 1"):
        maximum.problem.with_records(records)


def test_samples_that_cannot_tell_the_parameters_are_warned_of(maximum):
    record = maximum.problem.records[0]
    short = maximum.problem.with_records([record[:2]])
    sentence = "2 measured numbers cannot tell 2 parameters and how well they fit"
    found = smcpn.maximise(short, solver=smcpn.RK4(steps=1), starts=1)
    assert sentence in found.warnings[0]
    with pytest.warns(smcpn.SamplerWarning, match=sentence):
        posterior = smcpn.identify(
            short, solver=smcpn.RK4(steps=1), method="ibis", particles=20, seed=1
        )
    assert sentence in posterior.warnings[0]
    assert not maximum.problem.warnings


def test_a_noise_variance_has_the_shape_of_the_outputs_and_is_not_negative(maximum):
    run = maximum.simulate(maximum.problem.records[0])
    wider = run.with_noise(np.ones(1))
    assert wider.noise_variance.shape == run.mean.shape
    with pytest.raises(smcpn.InputError, match=r"variance has the shape \(5, 0\)"):
        run.with_noise(np.zeros((5, 0)))
    with pytest.raises(smcpn.InputError, match="variance is negative"):
        run.with_noise(np.full(1, -1.0))
