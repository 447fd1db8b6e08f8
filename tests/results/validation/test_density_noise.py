"""Bands and residuals of noise with a density, against their closed forms."""

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.likelihood.solver_choice import choose_solver
from smcpn.results.simulation.initialisation import simulate_started
from smcpn.results.simulation.simulation import simulate_particles


@smcpn.ode
def decay(x, *, rate):
    """Something that decays."""
    return -rate * x


T = 0.1 * np.arange(60)


def _problem(y, noise):
    record = smcpn.Record(y=y, t=T)
    prior = {"rate": stats.lognorm(0.5, scale=0.5)}
    return smcpn.Problem(decay, record, observe="x", noise=noise, prior=prior, initial=[3.0])


def _measured(seed=0, correlation=0.0):
    z = np.random.default_rng(seed).normal(size=len(T))
    for k in range(1, len(T)):
        z[k] = correlation * z[k - 1] + np.sqrt(1 - correlation**2) * z[k]
    return 3.0 * np.exp(-0.5 * T) * np.exp(0.2 * z)


def _samples(problem):
    return problem.model.sample_numbers(problem.records[0])


def test_log_normal_noise_has_residuals_of_the_logarithm():
    problem = _problem(_measured(), smcpn.LogNormal(0.2))
    y, output = problem.records[0].y, np.linspace(0.5, 3.0, len(T))[:, None]
    variance, residual = problem.model.density_scatter(
        np.array([0.5]), output, y, _samples(problem)
    )
    np.testing.assert_allclose(variance, (0.2 * output) ** 2, rtol=1e-12)
    np.testing.assert_allclose(residual, np.log(y / output) / 0.2, rtol=1e-9, atol=1e-7)


def test_residuals_of_students_t_are_those_of_its_deviance():
    problem = _problem(_measured(), smcpn.StudentT(0.2, 4.0))
    y, output = problem.records[0].y, np.linspace(0.5, 3.0, len(T))[:, None]
    variance, residual = problem.model.density_scatter(
        np.array([0.5]), output, y, _samples(problem)
    )
    z = (y - output) / 0.2
    np.testing.assert_allclose(variance, 0.2**2 * 4 / 5 * np.ones_like(y), rtol=1e-12)
    np.testing.assert_allclose(residual, np.sign(z) * np.sqrt(5 * np.log1p(z**2 / 4)), rtol=1e-8)


def test_counts_are_not_about_the_logarithm_of_their_mean():
    problem = _problem(np.ones(len(T)), smcpn.Poisson())
    ones = np.ones((len(T), 1))
    assert np.isnan(
        problem.model.density_scatter(np.array([0.5]), ones, ones, _samples(problem))
    ).all()


def test_counts_are_simulated_as_counts():
    log_means = 3.0 * np.exp(-0.5 * T)
    counts = np.random.default_rng(0).poisson(np.exp(log_means))
    problem = _problem(counts, smcpn.Poisson())
    found = simulate_particles(
        problem, problem.records[0], np.array([[0.5], [0.5]]), np.array([0.5, 0.5])
    )
    np.testing.assert_allclose(found.mean[:, 0], np.exp(log_means), rtol=1e-3)
    np.testing.assert_allclose(found.noise_variance, found.mean, rtol=1e-9)
    # 60 counts, each inside with probability 0.95: 0.87 is three standard errors below.
    assert 0.87 < found.coverage[0] <= 1.0
    later = problem.records[0][10:].with_outputs(np.exp(log_means[10:]))
    begun = simulate_started(problem, later, np.array([[0.5]]), np.ones(1), samples=20)
    np.testing.assert_allclose(begun.mean[20:, 0], np.exp(log_means[30:]), rtol=1e-3)


def test_zeros_and_ones_have_probabilities_for_means():
    means, slopes, natural = _problem(np.ones(len(T)), smcpn.Bernoulli()).model.natural_means()(0.7)
    p = 1 / (1 + np.exp(-0.7))
    np.testing.assert_allclose([float(means), float(slopes)], [p, p * (1 - p)], rtol=1e-12)
    assert float(natural) == 1.0
    assert _problem(_measured(), smcpn.LogNormal(0.2)).model.natural_means() is None
    assert _problem(_measured(), smcpn.StudentT(0.2)).model.natural_means() is None


def test_a_density_needs_no_likelihood_named():
    problem = _problem(_measured(), smcpn.LogNormal(0.2))
    assert choose_solver(problem).solver == smcpn.RK4()


@pytest.mark.numerics
def test_the_band_counts_the_noise_and_validate_tests_it():
    right = smcpn.maximise(_problem(_measured(), smcpn.LogNormal(0.2)), starts=2)
    # 60 samples, each inside with probability 0.95: 0.87 is three standard errors below.
    assert 0.87 < right.simulate(right.problem.records[0]).coverage[0] <= 1.0
    assert right.validate().verdict.level == "usable"
    small = smcpn.maximise(_problem(_measured(), smcpn.LogNormal(0.1)), starts=2)
    assert "larger than it explains" in str(small.validate().verdict)
    coloured = smcpn.maximise(_problem(_measured(correlation=0.8), smcpn.LogNormal(0.2)), starts=2)
    assert "correlated in time" in str(coloured.validate().verdict)


@pytest.mark.numerics
def test_a_missing_sample_of_an_output_of_nothing_is_left_out():
    @smcpn.ode
    def filling(x, *, rate):
        return rate * (1.0 - x)

    t = np.array([0.0, 0.1, 0.4, 5.0, 9.0])
    y = np.where(t > 0, 1.05 * (1.0 - np.exp(-3.0 * t)), np.nan)
    prior = {"rate": stats.lognorm(0.5, scale=3.0)}
    problem = smcpn.Problem(
        filling, smcpn.Record(t=t, y=y), observe="x", noise=smcpn.LogNormal(0.1), prior=prior
    )
    found = smcpn.maximise(problem, starts=2)
    validation = found.validate()
    assert np.isnan(validation.innovations[0].normalised[0, 0])
    assert np.isfinite(validation.innovations[0].normalised[1:, 0]).all()


@pytest.mark.numerics
def test_a_run_at_irregular_times_is_stable_where_that_of_the_posterior_was():
    t = np.append(0.1 * np.arange(20), 12.0)
    record = smcpn.Record(t=t, y=np.exp(-t))
    prior = {"rate": stats.lognorm(0.5, scale=3.0)}
    problem = smcpn.Problem(decay, record, observe="x", noise=0.1, prior=prior, initial=[1.0])
    # The last is stable only at the posterior's steps of 0.2 s; the mean is at ones of 0.5 s.
    rates, weights = np.array([[3.0], [3.0], [3.0], [12.0]]), np.full(4, 0.25)
    found = simulate_particles(problem, record, rates, weights, step_length=0.2)
    assert found.mean[-1, 0] == pytest.approx(0.0, abs=1e-3)
