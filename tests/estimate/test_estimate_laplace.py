"""The Gaussian about a mode: exact where the posterior is one, refused where it is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from benchmarks.trust.checks import kinked_maximum
from smcpn import RK4, InputError, LogLikelihood, Problem
from smcpn.estimate.log_density import LogDensity
from smcpn.likelihood.gradient import fisher_information
from smcpn.likelihood.prediction import predictive_moments
from smcpn.smc.ibis import Ibis
from smcpn.smc.proposals import DefensiveGaussian
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import Tempering
from tests.models import LINE_SOLVER, decay_problem, duffing_problem, line, line_answer, two_modes
from tests.targets import LinearRegression


@pytest.fixture(scope="module")
def linear() -> smcpn.Laplace:
    return smcpn.laplace(line(), solver=LINE_SOLVER)


@pytest.fixture(scope="module")
def decay() -> smcpn.Laplace:
    return smcpn.laplace(decay_problem(), solver=RK4(steps=4))


def test_linear_gaussian_posterior_is_exact(linear):
    mode, covariance, log_evidence = line_answer()
    assert linear.success
    np.testing.assert_allclose(linear.mode, mode, atol=1e-6)
    np.testing.assert_allclose(linear.covariance, covariance, rtol=1e-6)
    assert linear.log_evidence == pytest.approx(log_evidence, abs=1e-6)
    np.testing.assert_allclose(list(linear.sd.values()), np.sqrt(np.diag(covariance)), rtol=1e-6)
    np.testing.assert_allclose(list(linear.mean.values()), mode, atol=1e-6)


def test_values_on_a_log_coordinate_are_lognormal(decay):
    """sigma is lognormal and start normal, whatever the posterior truly is."""
    j = decay.names.index("sigma")
    sd = np.sqrt(decay.covariance[j, j])
    exact = stats.lognorm(sd, scale=np.exp(decay.mode[j]))
    mean, sd = decay.gaussian_moments
    assert mean["sigma"] == pytest.approx(exact.mean(), rel=1e-10)
    assert sd["sigma"] == pytest.approx(exact.std(), rel=1e-10)
    for q in (0.025, 0.5, 0.9):
        assert decay.quantile("sigma", q) == pytest.approx(exact.ppf(q), rel=1e-10)


def test_draws_follow_the_gaussian(decay):
    """20000 draws, 5 standard errors."""
    draws = decay.draw(20_000)
    mean, sd = (np.array(list(one.values())) for one in decay.gaussian_moments)
    error = sd / np.sqrt(20_000)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * error).all()
    theta = decay.draw_theta(20_000)
    np.testing.assert_allclose(decay.problem.prior.natural(theta), draws)
    whitened = np.linalg.solve(decay.factor, (theta - decay.mode).T)
    assert np.abs(np.cov(whitened) - np.eye(3)).max() < 5 * np.sqrt(2 / 20_000)


def test_quantiles_of_a_coordinate_that_falls():
    """A prior bounded above has x = bound - exp(z)."""
    problem = line()
    prior = {"rate": stats.truncnorm(-np.inf, 2.0, loc=0.0, scale=2.0), "x0": stats.norm(1.0, 3.0)}
    bounded = smcpn.Problem(
        problem.ode, problem.records[0], observe="x", noise=0.3, initial=["x0"], prior=prior
    )
    found = smcpn.laplace(bounded, solver=LINE_SOLVER)
    low, high = found.quantile("rate", 0.025), found.quantile("rate", 0.975)
    assert low < found.maximum["rate"] < high
    draws = found.draw(4000)[:, 0]
    # Standard error of a share of .025 in 4000 draws: .0025.
    assert abs((draws < low).mean() - 0.025) < 0.012
    assert abs((draws > high).mean() - 0.025) < 0.012


def test_newton_finishes_what_a_search_left(linear):
    function = linear.maximum.function
    rough = smcpn.maximise(line(), function, starts=[[-5.0, 9.0]], iterations=2, search="shooting")
    assert not rough.success
    found = smcpn.laplace(rough)
    assert found.maximum.success
    np.testing.assert_allclose(found.mode, linear.mode, atol=1e-6)
    np.testing.assert_allclose(found.maximum.path[0], [-5.0, 9.0])


@pytest.fixture(scope="module")
def saddle() -> smcpn.Laplace:
    """Between two modes the gradient is zero, by symmetry."""
    problem = two_modes(centre=0.0)
    return smcpn.laplace(problem, solver=RK4(steps=4), starts=[[0.0]], search="shooting")


def test_a_posterior_that_does_not_fall_is_refused_as_a_value(saddle):
    assert not saddle.success
    assert saddle.reason.startswith("the posterior does not fall from the mode along 1 a (in")
    assert np.isnan(saddle.log_evidence)
    assert np.isnan(saddle.covariance).all()
    assert saddle.reason in saddle.warnings
    assert "warning " in saddle.summary()
    for attempt in (
        lambda: saddle.draw(3),
        lambda: smcpn.identify(saddle.problem, start=saddle),
        saddle.to_posterior,
    ):
        with pytest.raises(InputError, match="there is no Laplace approximation: the posterior"):
            attempt()


def test_no_mode_is_refused_as_a_value(saddle):
    lost = smcpn.laplace(saddle.problem, saddle.maximum.function, starts=[[1e5]])
    assert not lost.success
    assert lost.reason == "there is no mode: the solution diverges at the start"
    assert "nan" in lost.summary()


def test_a_maximum_of_the_likelihood_is_no_mode(linear):
    likely = smcpn.maximise(line(), linear.maximum.function, target="likelihood")
    with pytest.raises(InputError, match="target='posterior'"):
        smcpn.laplace(likely)


def test_comparison_with_a_posterior(decay):
    posterior = smcpn.identify(decay.problem, start=decay, particles=2000, seed=1, progress=False)
    compared = decay.compare(posterior)
    for row in compared.rows:
        assert row.difference == (row.laplace_mean - row.mean) / row.sd
        assert abs(row.difference) < 0.6
        assert 0.8 < row.sd_ratio < 1.1
    assert abs(compared.laplace_log_evidence - compared.log_evidence) < 0.3
    assert "Laplace mean" in compared.summary()
    assert decay.summary().splitlines()[0].split() == (
        ["parameter", "prior", "mode", "mean", "sd", "sd", "%", "2.5", "%", "97.5", "%"]
    )
    with pytest.raises(InputError, match="the approximation rate, x0"):
        smcpn.laplace(line(), solver=LINE_SOLVER).compare(posterior)


def test_draws_as_a_posterior_simulate(decay):
    record = decay.problem.records[0]
    drawn = decay.to_posterior(500, seed=3)
    assert drawn.log_evidence == decay.log_evidence
    assert drawn.simulate(record).rmse.shape == (500, 1)
    np.testing.assert_allclose(drawn.log_likelihood, decay.maximum.function(drawn.values))
    mode = decay.maximum.to_posterior()
    np.testing.assert_allclose(mode.values[0], decay.maximum.values)
    assert mode.simulate(record).rmse_of_mean[0] < 0.06


# Tempering from a density near the posterior: the evidence must not see where it began.


class OneComponent(DefensiveGaussian):
    """A start of which all draws are of one kind."""

    def memberships(self, theta: np.ndarray) -> np.ndarray:
        return np.ones((1, len(theta)))


def started(
    likelihood: LinearRegression, seed: int, shift: float, width: float, particles: int = 1000
):
    mean, covariance = likelihood.moments()
    factor = np.linalg.cholesky(covariance)
    start = OneComponent(mean + shift * factor.sum(axis=1), width * factor)
    settings = Settings(particles=particles, start=start)
    return Tempering(likelihood.prior, likelihood, settings, np.random.default_rng(seed))


@pytest.mark.parametrize(("shift", "width"), [(0.0, 1.0), (1.5, 0.5), (-4.0, 3.0)])
def test_evidence_and_posterior_do_not_depend_on_the_start(shift, width):
    """Ten runs of 1000 particles; 4 standard errors, estimated from the runs themselves."""
    likelihood = LinearRegression(30, 2, 0.05)
    runs = [started(likelihood, seed, shift, width) for seed in range(10)]
    for run in runs:
        run.run()
    errors = np.array([run.log_evidence for run in runs]) - likelihood.log_evidence()
    assert abs(errors.mean()) < 4 * max(errors.std(ddof=1), 0.005) / np.sqrt(10)
    assert errors.std(ddof=1) < 0.1
    mean, covariance = likelihood.moments()
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    means = [whitening @ (run.system.weights @ run.system.theta - mean) for run in runs]
    # Of 400 independent draws at least in each run, ten runs, 5 standard errors.
    assert (np.abs(np.mean(means, axis=0)) < 5 / np.sqrt(4000)).all()
    spread = [
        run.system.weights @ np.square((run.system.theta - mean) @ whitening.T) for run in runs
    ]
    # A variance from 4000 draws: standard error sqrt(2 / 4000).
    assert (np.abs(np.mean(spread, axis=0) - 1.0) < 5 * np.sqrt(2 / 4000)).all()


def test_a_good_start_needs_no_rejuvenation_and_the_books_are_right():
    likelihood = LinearRegression(30, 2, 0.05)
    run = started(likelihood, 0, 0.0, 1.0)
    run.run()
    assert len(run.rejuvenations) == 0
    far = started(likelihood, 0, 3.0, 1.0)
    far.run()
    assert len(far.rejuvenations) > 0
    for system in (run.system, far.system):
        np.testing.assert_allclose(
            system.log_likelihood, likelihood.evaluate(system.theta, 30)[1], rtol=1e-9
        )
        np.testing.assert_allclose(system.log_prior, likelihood.prior.log_density(system.theta))


def test_a_started_sampler_goes_on_from_a_snapshot_to_the_same_bytes():
    likelihood = LinearRegression(30, 2, 0.05)
    whole, part = started(likelihood, 5, 3.0, 1.0), started(likelihood, 5, 3.0, 1.0)
    whole.run()
    part.proceed(30)
    assert part.state.exponent is not None
    again = Tempering.resumed(likelihood.prior, likelihood, part.settings, part.snapshot())
    again.run()
    np.testing.assert_array_equal(again.system.theta, whole.system.theta)
    assert again.log_evidence == whole.log_evidence


def test_only_tempering_takes_a_start(decay):
    likelihood = LinearRegression()
    settings = Settings(start=OneComponent(np.zeros(2), np.eye(2)))
    with pytest.raises(InputError, match="can begin elsewhere than at the prior"):
        Ibis(likelihood.prior, likelihood, settings, np.random.default_rng(0))
    with pytest.raises(InputError, match="can begin elsewhere than at the prior"):
        smcpn.identify(decay.problem, start=decay, method="ibis", progress=False)


def test_a_run_from_the_approximation_is_the_run_from_the_prior(decay):
    """Log-evidences within 4 combined standard errors, few rejuvenations, its solver."""
    near = smcpn.identify(decay.problem, start=decay, seed=1, progress=False)
    far = smcpn.identify(
        decay.problem, solver=RK4(steps=4), method="tempering", seed=2, progress=False
    )
    error = np.hypot(near.log_evidence_se, far.log_evidence_se)
    assert abs(near.log_evidence - far.log_evidence) < 4 * error
    assert len(near.rejuvenations) < len(far.rejuvenations)
    assert near.solver == decay.solver
    assert near.likelihood == "classical"


def test_a_checkpointed_run_keeps_its_start(decay, tmp_path):
    file = tmp_path / "run.h5"
    first = smcpn.identify(decay.problem, start=decay, seed=1, progress=False, checkpoint=file)
    np.testing.assert_array_equal(smcpn.resume(file, progress=False).theta, first.theta)
    with pytest.raises(InputError, match="was started with start"):
        smcpn.identify(
            decay.problem, solver=decay.solver, seed=1, method="tempering", progress=False,
            checkpoint=file,
        )  # fmt: skip


def test_a_start_of_another_problem_is_refused(decay, linear):
    with pytest.raises(InputError, match="make it of the same problem"):
        smcpn.identify(decay.problem, start=linear)
    with pytest.raises(InputError, match=r"give smcpn\.laplace"):
        smcpn.identify(decay.problem, start=decay.mode)


def test_function_of_a_problem_brings_its_solver():
    function = LogLikelihood(line(), solver=LINE_SOLVER)
    found = smcpn.laplace(line(), function)
    assert found.maximum.solver == function.solver
    assert found.maximum.likelihood == function.likelihood
    assert replace(found, reason="x").success is False


def test_expected_information_is_that_of_the_outputs_slopes():
    """J' J / R by differences of simulated outputs, and n / 2 for log R of a learned noise."""
    problem = duffing_problem(40)
    problem = Problem(
        problem.ode, problem.records[0], observe="x", noise="sigma",
        prior=problem.prior.distributions | {"sigma": stats.lognorm(0.5, scale=0.1)},
    )  # fmt: skip
    values, chosen = np.array([1.0, 0.4, 2.0, 0.5, 0.1]), [(0, problem.records[0])]
    function = smcpn.LogLikelihood(problem, solver=RK4(2))
    seen = np.isfinite(problem.records[0].y[:, 0])

    def outputs(at: np.ndarray) -> np.ndarray:
        return predictive_moments(problem, RK4(2), at, chosen)[0][0][seen, 0]

    steps = 1e-5 * np.diag(values)[:4]
    slopes = np.array([(outputs(values + h) - outputs(values - h)) / (2 * h.sum()) for h in steps])
    found = fisher_information(function, values)
    np.testing.assert_allclose(found[:4, :4], slopes @ slopes.T / 0.01, rtol=1e-6)
    assert found[4, 4] == pytest.approx(2 * seen.sum() / 0.01)
    np.testing.assert_allclose(found[4, :4], 0.0, atol=1e-9)


def test_at_a_kink_the_gauss_newton_matrix_is_the_precision():
    """Differences of gradients across it say that the log density has no maximum there."""
    maximum = kinked_maximum()
    density = LogDensity(maximum.function)
    assert np.linalg.eigvalsh(density.hessian(maximum.theta[None, :])[0])[-1] > 0
    found = smcpn.laplace(maximum)
    assert found.success
    assert "is by first derivatives" in found.summary()
    # The sampler of benchmarks.trust has .0466 and .0139.
    np.testing.assert_allclose(list(found.sd.values()), [0.0466, 0.0139], rtol=0.1)
