"""Validation accepts what the model can have made, and rejects what it cannot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import signal, stats

import smcpn
from smcpn.likelihood.prediction import predictive_moments
from smcpn.likelihood.registry import build_likelihood
from smcpn.results.validation import frequency_response, validate, whiteness
from smcpn.results.validation.correlation import worst_pair
from smcpn.results.validation.innovations import BAND, LAGS, _factors, innovations, largest_error
from smcpn.results.validation.verdict import judge
from tests import models
from tests.nightly import nightly_but
from tests.reference.likelihoods import ekf0


def test_data_from_the_model_pass_every_test():
    validation = models.oscillator_posterior("right").validate()
    (output,) = validation.outputs
    assert output.white
    assert output.independent
    assert output.calibrated
    assert "no test fails" in str(validation)
    assert str(validation).splitlines()[-1].startswith("verdict: usable, fit 9")


def test_data_from_another_model_fail():
    (output,) = models.oscillator_posterior("wrong").validate().outputs
    assert not output.white
    assert not output.calibrated
    assert output.variance > 1
    verdict = models.oscillator_posterior("wrong").validate().verdict
    assert verdict.level == "wrong"
    assert "errors are correlated in time" in str(verdict)


def test_a_fresh_record_is_validated_too():
    validation = models.oscillator_posterior("right").validate(models.oscillator_record(seed=77))
    assert validation.outputs[0].white
    assert validation.outputs[0].calibrated
    assert (
        not models.oscillator_posterior("right")
        .validate(models.oscillator_record(models.hardening))
        .outputs[0]
        .white
    )


def test_overstated_noise_is_noticed():
    problem = models.oscillator_problem(
        models.oscillator_record(), noise=3 * models.OSCILLATOR_NOISE
    )
    solver = smcpn.EKF0(order=2, steps=8)
    (part,) = innovations(problem, solver, np.array(list(models.OSCILLATOR_TRUTH.values())))
    tests = whiteness([part.normalised[:, 0]], [part.record.u])
    assert tests.variance == pytest.approx(1 / 9, rel=0.25)
    assert not tests.calibrated
    assert tests.white


@pytest.mark.parametrize("solver", [smcpn.EKF0(order=2, steps=3), smcpn.RK4(steps=3)])
def test_innovations_are_those_of_the_likelihood(solver):
    problem = models.oscillator_problem(models.oscillator_record())
    values = np.array([0.5, 3.7])
    (part,) = innovations(problem, solver, values)
    density = stats.norm.logpdf(part.normalised[:, 0]) - 0.5 * np.log(part.variance[:, 0])
    _, expected = build_likelihood(problem, solver).evaluate(values[None, :], problem.n_samples)
    assert density.sum() == pytest.approx(expected[0], rel=1e-10)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("solver", [smcpn.EKF0(order=2, steps=1), smcpn.RK4(steps=1)])
def test_a_simulation_beyond_all_numbers_is_compared_with_nothing(solver):
    problem = models.oscillator_problem(models.oscillator_record())
    (part,) = innovations(problem, solver, np.array([-1e6, 4.0]))
    finite = np.isfinite(part.mean[:, 0]) & np.isfinite(part.variance[:, 0])
    assert 0 < finite.sum() < problem.n_samples
    np.testing.assert_array_equal(np.isfinite(part.normalised[:, 0]), finite)


def test_outputs_that_are_multiples_of_each_other_are_whitened_too():
    sd = np.array([1e7, 3e3, 2e8])
    dependent = np.outer(sd, sd)[None]
    factors = _factors(dependent + 1e-2 * np.eye(3))
    product = factors @ np.swapaxes(factors, 1, 2)
    np.testing.assert_allclose(product, dependent, rtol=1e-8)
    regular = np.array([[[2.0, 0.3], [0.3, 1.0]]])
    np.testing.assert_array_equal(_factors(regular), np.linalg.cholesky(regular))


def test_moments_are_those_of_the_plain_filter():
    problem = models.oscillator_problem(models.oscillator_record(samples=40))
    values = np.array([0.5, 3.7])
    solver = smcpn.EKF0(order=2, steps=3)
    ((mean, covariance),) = predictive_moments(
        problem, solver, values, list(enumerate(problem.records))
    )
    plain = ekf0(problem.model, problem.records[0], values, order=2, steps=3)
    np.testing.assert_allclose(mean[:, 0], plain.mean[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(covariance[:, 0, 0], plain.covariance[:, 0, 0], rtol=1e-8)


def test_two_outputs_with_gaps_are_whitened_together():
    clean = models.oscillator_record(samples=40)
    y = np.column_stack([clean.y[:, 0], np.gradient(clean.y[:, 0])])
    y[3, 0] = y[5, 1] = np.nan
    y[7] = np.nan
    problem = smcpn.Problem(
        models.oscillator,
        smcpn.Record(u=clean.u, y=y, dt=models.OSCILLATOR_DT, hold="foh"),
        observe=["x", lambda x, v: x + 0.5 * v],
        noise=[0.02, 0.1],
        prior=models.oscillator_problem(clean).prior.distributions,
    )
    solver, values = smcpn.EKF0(order=1, steps=1), np.array([0.5, 3.7])
    (part,) = innovations(problem, solver, values)
    assert np.array_equal(np.isnan(part.normalised), np.isnan(y))
    ((mean, numerical),) = predictive_moments(problem, solver, values, [(0, part.record)])
    total = numerical[20] + np.diag([0.02**2, 0.1**2])
    error = y[20] - mean[20]
    assert abs(numerical[20, 0, 1]) > 0
    assert part.normalised[20] @ part.normalised[20] == pytest.approx(
        error @ np.linalg.solve(total, error)
    )
    alone = error_of(y, mean, 5) / np.sqrt(numerical[5, 0, 0] + 0.02**2)
    assert part.normalised[5, 0] == pytest.approx(alone)


def error_of(y, mean, sample):
    return y[sample, 0] - mean[sample, 0]


def test_bands_hold_99_percent_of_white_noise():
    rng = np.random.default_rng(3)
    outside, p_values = 0, []
    for _ in range(200):
        tests = whiteness([rng.normal(size=300)], [rng.normal(size=(300, 1))])
        outside += int((np.abs(tests.autocorrelation) > tests.autocorrelation_band).sum())
        outside += int((np.abs(tests.cross_correlation) > tests.cross_correlation_band).sum())
        p_values.append(tests.whiteness_p)
    share = outside / (200 * (LAGS + 2 * LAGS + 1))
    assert 0.005 < share < 0.015
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_correlations_skip_gaps_and_do_not_cross_records():
    rng = np.random.default_rng(4)
    e = signal.lfilter([1.0], [1.0, -0.8], rng.normal(size=4000))
    u = np.roll(e, -3)[:, None]  # e follows u three samples later
    e[::7] = np.nan
    tests = whiteness([e[:2000], e[2000:]], [u[:2000], u[2000:]])
    assert tests.samples == np.isfinite(e).sum()
    assert tests.autocorrelation[0] == pytest.approx(0.8, abs=0.05)
    assert int(np.argmax(tests.cross_correlation[0])) - LAGS == 3
    assert tests.cross_correlation[0].max() == pytest.approx(1.0, abs=0.05)
    assert tests.autocorrelation_band[0] > BAND / np.sqrt(tests.samples)
    assert not tests.independent


def test_without_input_nothing_is_said_of_it():
    tests = whiteness([np.random.default_rng(1).normal(size=300)], [np.empty((300, 0))])
    assert np.isnan(tests.independence_p)
    assert tests.independent
    assert tests.cross_correlation.size == 0


def test_frequency_response_is_that_of_a_known_filter():
    rng = np.random.default_rng(2)
    u = rng.normal(size=20_000)
    b, a = [0.2, 0.1], [1.0, -1.2, 0.6]
    y = signal.lfilter(b, a, u)
    noisy = smcpn.Record(u=u, y=y + 0.3 * rng.normal(size=len(u)), dt=0.01)
    response = frequency_response(noisy, y[:, None])
    _, exact = signal.freqz(b, a, worN=2 * np.pi * response.frequency * 0.01)
    assert np.max(np.abs(response.simulated - exact) / np.abs(exact)) < 0.05
    z = np.abs(response.measured - response.simulated) / (response.standard_error * np.sqrt(2))
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4
    assert response.coherence.min() < 0.9
    expected = np.square(response.standard_error).sum() / np.square(np.abs(exact)).sum()
    assert response.error == pytest.approx(np.sqrt(2 * expected), rel=0.15)


def test_frequency_response_uses_the_longest_measured_stretch():
    u = np.random.default_rng(2).normal(size=2000)
    record = smcpn.Record(u=u, y=2 * u, dt=0.01).hide(0, 900)
    wrong_where_hidden = np.where(np.arange(2000) < 900, 0.0, 2 * u)[:, None]
    assert frequency_response(record, wrong_where_hidden).error < 1e-12


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (smcpn.Record(u=np.ones(50), y=np.ones(50), dt=1.0), "50 samples in a row are measured"),
        (smcpn.Record(y=np.ones(500), dt=1.0), "needs one input, not 0"),
        (smcpn.Record(u=np.ones(9), y=np.ones(9), t=np.arange(9.0) ** 2), "uniform sampling"),
    ],
)
def test_no_frequency_response_is_said_in_a_sentence(record, sentence):
    with pytest.raises(smcpn.InputError, match=sentence):
        frequency_response(record, np.ones((len(record), 1)))


def test_steps_that_are_coarse_are_looked_at_again():
    """By the shift of the posterior, which ``steps="auto"`` and its warning go by too."""
    fine, coarse = (models.oscillator_posterior("right", steps=steps) for steps in (8, 1))
    assert fine.validate().shift is fine.shift
    assert not fine.shift.warnings
    assert fine.validate().verdict.level == "usable"
    (warning,) = coarse.shift.warnings
    assert warning in str(coarse.validate().verdict)


def test_variance_says_nothing_where_the_noise_was_learned():
    problem = models.oscillator_problem(models.oscillator_record())
    prior = problem.prior.distributions | {"sigma": stats.lognorm(1.0, scale=0.02)}
    learned = smcpn.Problem(
        problem.ode, problem.records[0], observe="x", noise="sigma", prior=prior
    )
    found = smcpn.laplace(learned, solver=smcpn.RK4(8)).to_posterior(200).validate()
    assert found.learned == (True,)
    assert "says nothing: the noise was learned" in str(found)
    assert found.verdict.level == "usable"


def test_verdict_weighs_all_outputs():
    rng = np.random.default_rng(1)
    white, wide = rng.normal(size=500), 1.3 * rng.normal(size=500)
    white /= white.std()
    coloured = signal.lfilter([1.0], [1.0, -0.5], white)
    nothing = [np.empty((500, 0))]
    good, large, bad = (whiteness([e], nothing) for e in (white, wide, coloured))
    assert str(judge([good], [False])) == "usable, reduced chi^2 1"
    verdict = judge([good, large], [False, False])
    assert verdict.level == "look again"
    assert "the noise of output 1" in str(verdict)
    assert judge([large], [True]).level == "usable"
    assert judge([good, bad], [True, True]).level == "wrong"
    assert judge([good], [False], ["steps=1 shifts k"]).level == "look again"


def test_an_output_that_its_mean_explains_better_is_looked_at_again():
    """And with it what its noise takes it for."""
    white = np.random.default_rng(1).normal(size=500)
    good = whiteness([white / white.std()], [np.empty((500, 0))])
    told = dict(taken_for=["", "Poisson() takes it for the logarithm of the mean of y"])
    assert judge([good, good], [True, True], **told).reasons == ()
    verdict = judge([good, good], [True, True], misses_mean=[False, True], **told)
    assert verdict.level == "look again"
    assert verdict.reasons == (
        "the mean of y of output 1 is nearer to y than the model",
        "look at the output of output 1: Poisson() takes it for the logarithm of the mean of y",
    )


@pytest.mark.parametrize(
    ("mean", "draw"),
    nightly_but(
        [(0.0, "normal"), (0.9, "binomial")],
        [(0.0, "normal"), (0.3, "poisson"), (0.9, "binomial")],
    ),
)
def test_one_right_record_in_two_hundred_is_nearer_to_its_mean_than_noise_makes_it(mean, draw):
    """Of a constant output, which always is: of 300 records 1.5.

    The standard error is 1.4, for all are compared with the same replicates.
    """
    validation, rng, n = (
        models.oscillator_posterior("right").validate(),
        np.random.default_rng(5),
        12,
    )
    variance = {"normal": 1.0, "poisson": mean, "binomial": mean * (1.0 - mean)}[draw]
    law = partial(
        getattr(rng, draw), *{"normal": (0.0, 1.0), "poisson": (mean,)}.get(draw, (1, mean))
    )

    def told(y):
        one = replace(validation)
        # In place of the innovations.
        vars(one)["_together"] = y, np.full((n, 1), mean), np.full((n, 1), variance)
        return any(one.misses_mean)

    assert sum(told(law(size=(n, 1)).astype(float)) for _ in range(300)) <= 1.5 + 3 * 1.4
    assert told(2.0 + 4.0 * np.sqrt(variance) + np.linspace(0.0, 0.5, n)[:, None])


def test_the_largest_error_is_tested_against_the_others_whatever_their_size():
    rng = np.random.default_rng(5)
    errors = 7.0 * rng.normal(size=300)
    errors[[3, 200]] = np.nan, 7.0 * 9.0
    kept = errors[np.isfinite(errors) & (np.arange(300) != 200)]
    found = largest_error([errors[:150], errors[150:]])
    assert (found.record, found.sample) == (1, 50)
    assert found.size == pytest.approx((63.0 - kept.mean()) / kept.std(ddof=1))
    # The same as two samples of which one has a single value.
    p = stats.ttest_ind([63.0], kept).pvalue
    assert found.p == pytest.approx(min(1.0, 299 * p), rel=1e-9)
    assert np.isnan(largest_error([np.array([1.0, 1.0, 1.0])]).size)


def test_one_normal_record_in_twenty_has_a_largest_error_to_look_at():
    rng = np.random.default_rng(6)
    p_values = np.array([largest_error([rng.normal(size=40)]).p for _ in range(1000)])
    # Standard error .0069 of the share; the bound of Grubbs is nearly exact below a few percent.
    assert abs((p_values < 0.05).mean() - 0.05) < 0.021


def test_an_outlier_is_looked_at_again_by_verdict_and_summary():
    record = models.oscillator_record()
    y = record.y.copy()
    y[30] += 20 * models.OSCILLATOR_NOISE
    problem = models.oscillator_problem(record.with_outputs(y))
    posterior = smcpn.laplace(problem, solver=smcpn.RK4(8)).to_posterior(200)
    verdict = posterior.validate().verdict
    assert verdict.level == "look again"
    assert "at sample 30: an outlier" in str(verdict)
    assert "at sample 30: an outlier" in posterior.summary()
    (clean,) = models.oscillator_posterior("right").validate().outputs
    assert clean.largest.p > 0.05


def test_error_budget_counts_the_solver():
    fine, coarse = (
        models.oscillator_posterior("right", steps=steps).validate() for steps in (8, 2)
    )
    assert 0 < fine.solver_share < coarse.solver_share < 1
    part = coarse.innovations[0]
    np.testing.assert_allclose(
        part.variance - part.solver_variance, models.OSCILLATOR_NOISE**2, rtol=1e-9
    )


def test_the_worst_pair_is_found():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(500, 3))
    theta[:, 2] = -theta[:, 0] + 0.05 * theta[:, 1]
    pair = worst_pair(("a", "b", "c"), theta, np.full(500, 1 / 500))
    assert pair is not None
    assert (pair.first, pair.second) == ("a", "c")
    assert pair.correlation < -0.99
    assert pair.ridge
    assert worst_pair(("a",), theta[:, :1], np.full(500, 1 / 500)) is None


@pytest.mark.numerics
def test_a_ridge_is_flagged_in_the_table():
    @smcpn.ode
    def product(x, u, *, a, b, rate):
        return u * a * b - rate * x

    u = np.random.default_rng(1).normal(size=200)
    silent = smcpn.Record(u=u, dt=0.1, hold="zoh")
    y = smcpn.simulate(product, silent, {"a": 1.0, "b": 2.0, "rate": 1.0}, observe="x")[:, 0]
    problem = smcpn.Problem(
        product,
        smcpn.Record(u=u, y=y, dt=0.1, hold="zoh"),
        observe="x",
        noise=0.01,
        prior={name: stats.lognorm(0.3, scale=1.4) for name in ("a", "b", "rate")},
    )
    solver = smcpn.EKF0(order=2, steps=4)
    posterior = smcpn.identify(problem, solver=solver, particles=300, seed=2, progress=False)
    flags = {row.name: row.flag for row in posterior.table()}
    assert flags["rate"] == ""
    assert flags["a"]
    assert flags["b"]
    assert posterior.validate().pair == worst_pair(
        posterior.names, posterior.theta, posterior.weights
    )


def test_a_record_that_does_not_fit_is_refused():
    posterior = models.oscillator_posterior("right")
    with pytest.raises(smcpn.InputError, match="has 0 columns but model 'oscillator'"):
        posterior.validate(smcpn.Record(y=np.ones(10), dt=0.1))
    record = models.oscillator_record()
    with pytest.raises(smcpn.InputError, match="nothing to validate on"):
        posterior.validate(record.hide(0, len(record)))


def test_an_output_that_was_never_measured_is_named():
    clean = models.oscillator_record(samples=40)

    def record(second):
        y = np.column_stack([clean.y[:, 0], second])
        return smcpn.Record(u=clean.u, y=y, dt=models.OSCILLATOR_DT, hold="foh")

    prior = models.oscillator_problem(clean).prior
    problem = smcpn.Problem(
        models.oscillator, record(np.gradient(clean.y[:, 0])), observe=["x", "v"], noise=0.1,
        prior=prior.distributions,
    )  # fmt: skip
    theta, other = prior.sample(np.random.default_rng(0), 8), record(np.full(40, np.nan))
    with pytest.raises(smcpn.InputError, match="'v' is NaN in every sample"):
        validate(problem, smcpn.RK4(steps=2), None, theta, np.zeros(8), record=other)


def test_the_predictive_band_counts_the_step_of_the_simulation():
    posterior = models.oscillator_posterior("right")
    record = models.oscillator_record(seed=9)
    coarse, fine = (posterior.simulate(record, steps=steps) for steps in (1, 16))
    total = coarse.parameter_variance + coarse.noise_variance + coarse.solver_variance
    np.testing.assert_allclose(coarse.sd, np.sqrt(total))
    # The squared change at half the step is the squared error of the simulation, but for 15/16.
    error = np.square(coarse.mean - fine.mean).mean()
    assert coarse.solver_variance.mean() == pytest.approx(error, rel=0.25)
    assert fine.solver_variance.mean() < 1e-4 * coarse.solver_variance.mean()
    assert 0.9 < fine.coverage[0] < 0.99


def test_automatic_steps_report_the_change_they_settled_on():
    posterior = models.oscillator_posterior("right")
    record = models.oscillator_record(seed=9)
    automatic = posterior.simulate(record)
    named = posterior.simulate(record, steps=automatic.steps)
    np.testing.assert_allclose(automatic.mean, named.mean)
    assert automatic.solver_variance.mean() == pytest.approx(named.solver_variance.mean(), rel=0.1)


@pytest.mark.numerics
def test_several_records_start_from_their_own_states():
    first, second = (
        models.oscillator_record(samples=60),
        models.oscillator_record(seed=8, samples=40),
    )
    problem = smcpn.Problem(
        models.oscillator,
        [first, second],
        observe="x",
        noise=models.OSCILLATOR_NOISE,
        prior=models.oscillator_problem(first).prior.distributions,
        initial=["rest", [0.3, -0.1]],
    )
    solver, values = smcpn.EKF0(order=2, steps=4), np.array([0.5, 3.7])
    parts = innovations(problem, solver, values)
    density = sum(
        (stats.norm.logpdf(p.normalised[:, 0]) - 0.5 * np.log(p.variance[:, 0])).sum()
        for p in parts
    )
    _, expected = build_likelihood(problem, solver).evaluate(values[None, :], problem.n_samples)
    assert density == pytest.approx(expected[0], rel=1e-10)
    (alone,) = innovations(problem, solver, values, second)
    np.testing.assert_array_equal(alone.normalised, parts[1].normalised)
    (resampled,) = innovations(problem, solver, values, smcpn.Record(u=first.u, y=first.y, dt=0.2))
    assert resampled.solver_variance[-1, 0] < 10 * parts[0].solver_variance[-1, 0]


def test_an_outlier_is_named_among_the_samples_that_were_given():
    @smcpn.ode
    def emptied(x, *, k):
        return -k * x

    t = 0.5 * np.arange(40)
    doses = [smcpn.Dose(at, "x", 5.0) for at in (0.7, 3.7, 6.7, 9.7)]
    record = smcpn.Record(t=t, doses=doses)
    y = smcpn.simulate(emptied, record, {"k": 0.3}, observe="x", initial=[1.0])[:, 0]
    y += 0.1 * np.random.default_rng(0).normal(size=40)
    y[30] += 3.0
    record = smcpn.Record(t=t, y=y, doses=doses)
    problem = smcpn.Problem(
        emptied, record, observe="x", noise=0.1, prior={"k": stats.lognorm(1)}, initial=[1.0]
    )
    posterior = smcpn.identify(problem, seed=0, particles=64)
    largest = posterior.validate().outputs[0].largest
    assert len(problem.records[0]) > 40
    assert largest.sample == 30
