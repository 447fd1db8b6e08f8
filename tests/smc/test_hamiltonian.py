"""Moves along gradients: the metric, the leapfrog steps, and what must hold of any moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from smcpn.errors import InputError
from smcpn.likelihood.contract import Likelihood
from smcpn.model.prior import Prior
from smcpn.smc.hamiltonian import (
    HamiltonianMonteCarlo,
    LangevinMetropolis,
    Metric,
    Phase,
    Trajectories,
    Tuning,
    _of_all_chains,
    _start_correlation,
)
from smcpn.smc.ibis import Ibis
from smcpn.smc.particles import RecordTarget, RefinementTarget
from smcpn.smc.replicates import diagnose
from smcpn.smc.resampling import systematic
from smcpn.smc.sampler import Settings
from smcpn.smc.start import MixtureStart, Modes
from smcpn.smc.tempering import Tempering
from tests.targets import BOUNDS, QUANTILES, LinearRegression, WithGradient, skewed, skewed_draws

STRATEGIES = (HamiltonianMonteCarlo(), LangevinMetropolis())


class Regression(WithGradient, LinearRegression):
    """With its gradient."""

    def gradient(self, values):
        residual = self.y[:, None] - np.einsum("td,nd->tn", self.x, values)
        return residual.T @ self.x / self.noise**2


class Skewed(WithGradient, Likelihood):
    """A prior N(0, 25) that one sample turns into a log-gamma variable and a t variable."""

    n_samples = 1
    prior = Prior({"a": stats.norm(0.0, 5.0), "b": stats.norm(0.0, 5.0)})

    def start(self, values):
        return np.empty((0, len(values)))

    def advance(self, values, state, a, b, *keys):
        return state, self.evaluate(values, 1)[1][None]

    def evaluate(self, values, b, *keys):
        return self.start(values), skewed(values) - self.prior.log_density(values)

    def gradient(self, values):
        a, b = values.T
        slopes = np.stack([1.5 - np.exp(a), -5.0 * b / (4.0 + b**2)], axis=1)
        return slopes + values / 25.0


@pytest.mark.parametrize("moves", STRATEGIES, ids=lambda m: m.name)
def test_exact_draws_stay_exact(moves):
    """Quantiles after rejuvenations of 1000 exact draws, weights random.

    50 chains are independent, each time: 5 standard errors of 50 times five rejuvenations.
    """
    likelihood, rng = Skewed(), np.random.default_rng(0)
    target = RecordTarget(likelihood.prior, likelihood, 0, 1.0)
    system, below, previous = target.particles(skewed_draws(rng, 1000)), [], None
    for _ in range(10):
        system = replace(system, log_weights=0.3 * rng.normal(size=len(system)))
        system, previous = moves.rejuvenate(system, target, rng, systematic, previous)
        below.append((system.theta < BOUNDS[:, None]).mean(axis=1))
    assert previous.acceptance == pytest.approx(moves.acceptance, abs=0.1)
    error = np.sqrt(np.array([0.05 * 0.95, 0.25, 0.05 * 0.95]) / 250)[:, None]
    expected = np.array(QUANTILES)[:, None]
    assert (np.abs(np.mean(below[5:], axis=0) - expected) < 5 * error).all()


def test_moments_and_evidence_of_a_gaussian():
    """Errors within 4 standard errors, those of the means by the chains of the population."""
    likelihood = Regression(40, 25, 0.5, seed=2)
    sampler = Tempering(
        likelihood.prior,
        likelihood,
        Settings(500, moves=HamiltonianMonteCarlo()),
        np.random.default_rng(1),
    )
    sampler.run()
    mean, covariance = likelihood.moments()
    system, sd = sampler.system, np.sqrt(np.diag(covariance))
    estimate = system.weights @ system.theta
    z = (estimate - mean) / sd
    assert np.sqrt(np.mean(z**2)) < 4 / np.sqrt(50)
    error = sampler.log_evidence - likelihood.log_evidence()
    assert abs(error) < 4 * sampler.log_evidence_se < 3.0
    assert diagnose(sampler.rejuvenations) == {}
    assert {r.chains for r in sampler.rejuvenations} == {25}


def test_every_snapshot_leads_to_the_same_end():
    likelihood, snapshots = Regression(20, 3, 0.05), []
    settings = Settings(100, moves=STRATEGIES[0])
    sampler = Tempering(likelihood.prior, likelihood, settings, np.random.default_rng(3))
    while sampler.sample < likelihood.n_samples:
        snapshots.append(sampler.snapshot())
        sampler.proceed(likelihood.n_samples)
    assert len(snapshots) > 5
    for snapshot in snapshots[::8]:
        again = Tempering.resumed(likelihood.prior, likelihood, settings, snapshot)
        again.run()
        assert again.system.theta.tobytes() == sampler.system.theta.tobytes()
        assert again.log_evidence_se == sampler.log_evidence_se


def test_metric_of_a_gaussian_is_its_covariance_from_few_particles():
    """From d + 1 particles anywhere, with any weights: of the whole line, not of the particles."""
    rng, d = np.random.default_rng(0), 12
    root = rng.normal(size=(d, d)) * np.geomspace(1e-3, 1e3, d)[:, None]
    covariance = root @ root.T
    theta = rng.normal(size=(2 * d, d)) @ root.T + 5.0
    gradient = -np.linalg.solve(covariance, theta.T).T
    weights = rng.random(len(theta))
    gradient[3] = np.nan
    metric = Metric.fit(theta, gradient, weights)
    np.testing.assert_allclose(
        metric.factor @ metric.factor.T / np.outer(root.std(axis=1), root.std(axis=1)),
        covariance / np.outer(root.std(axis=1), root.std(axis=1)),
        atol=1e-3,
    )
    z = metric.coordinates(theta)
    np.testing.assert_allclose(z @ metric.factor.T + metric.centre, theta, rtol=1e-6)


@pytest.mark.parametrize("chains", [0, 1, 50, 36])
def test_metric_is_fitted_to_particles_of_all_chains(chains):
    fitted = np.arange(1000)[_of_all_chains(1000, 160, chains)]
    assert len(fitted) >= 160
    assert set(fitted % max(chains, 1)) == set(range(max(chains, 1)))


@pytest.mark.parametrize("n", [3, 40])
def test_metric_of_fewer_particles_than_parameters_is_whole(n):
    rng = np.random.default_rng(n)
    scale = np.geomspace(0.1, 10.0, 60)
    theta = rng.normal(size=(n, 60)) * scale
    metric = Metric.fit(theta, -theta / scale**2, np.ones(n))
    ratio = np.linalg.svd(metric.factor / scale[:, None], compute_uv=False)
    assert 0.3 < ratio[-1] <= ratio[0] < 3.0


def test_without_gradients_there_is_no_metric():
    gradient = np.full((10, 2), np.nan)
    gradient[3] = 1.0
    with pytest.raises(InputError, match="is finite at 1 of 10 particles"):
        Metric.fit(np.random.default_rng(0).normal(size=(10, 2)), gradient, np.full(10, 0.1))


class Cliff(Regression):
    """Very small beyond a distance, but not zero."""

    def evaluate(self, values, b, *keys):
        state, total = super().evaluate(values, b)
        return state, np.where(values[:, 0] > 0.5, -1e200, total)


def test_a_proposal_far_off_does_not_count_for_the_time_of_trajectories():
    rng = np.random.default_rng(0)
    tuning = Tuning(0.5, 1.0, 0.8, 10)
    likelihood = Cliff(n=4, d=1)
    target = RecordTarget(likelihood.prior, likelihood, 4, 1.0)
    system = target.particles(0.1 * rng.normal(size=(50, 1)))
    metric = Metric(np.zeros(1), np.eye(1))
    list(Trajectories("hmc", metric, tuning).moves(system, target, rng, 3))
    assert all(np.isfinite(half.renewed).all() for half in tuning._halves)


def test_leapfrog_steps_are_reversible():
    likelihood, rng = Regression(20, 4), np.random.default_rng(0)
    target = RecordTarget(likelihood.prior, likelihood, 0, 0.5)
    theta, momentum = rng.normal(size=(2, 10, 4))
    metric = Metric(np.zeros(4), np.eye(4) + 0.1 * rng.normal(size=(4, 4)))
    kernel = Trajectories("hmc", metric, Tuning(0.1, 1.0, 0.8, 100))
    steps, number = rng.uniform(0.01, 0.1, 10), rng.integers(1, 12, 10)
    begin = Phase(theta, metric.coordinates(theta), momentum, target.gradient(theta))
    end = kernel._leapfrog(target, begin, steps, number)
    np.testing.assert_allclose(end.z, metric.coordinates(end.theta), atol=1e-10)
    back = kernel._leapfrog(target, replace(end, momentum=-end.momentum), steps, number)
    np.testing.assert_allclose(back.theta, theta, rtol=1e-9)
    np.testing.assert_allclose(-back.momentum, momentum, rtol=1e-9)


def differences(function, theta, h=1e-5):
    shifts = h * np.eye(theta.shape[1])
    return np.stack([(function(theta + e) - function(theta - e)) / (2 * h) for e in shifts], axis=1)


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0])
def test_gradients_of_targets_are_those_of_their_densities(exponent):
    likelihood, rng = Regression(20, 3), np.random.default_rng(0)
    finer = Regression(20, 3, seed=0)
    finer.y = finer.y + 0.1
    factors = np.tril(rng.random((2, 3, 3))) + np.eye(3)
    modes = Modes(np.array([0.4, 0.6]), rng.normal(size=(2, 3)), factors, 4, 0.0)
    prior = likelihood.prior
    targets = [
        RecordTarget(prior, likelihood, 0, exponent),
        RecordTarget(prior, likelihood, 0, exponent, MixtureStart(prior, modes)),
        RefinementTarget(prior, likelihood, 20, exponent, finer),
    ]
    theta = rng.normal(size=(7, 3))
    for target in targets:
        found = differences(lambda t, own=target: own.log_density(own.particles(t)), theta)
        np.testing.assert_allclose(target.gradient(theta), found, rtol=1e-5, atol=1e-5)


def test_gradient_of_a_prior():
    prior = Prior(
        {
            "a": stats.norm(1.0, 2.0),
            "b": stats.lognorm(0.5),
            "c": stats.beta(2, 3),
            "d": stats.t(4),
            "w": stats.norm(),
            "v": stats.t(5),
            "s": stats.lognorm(1.0, scale=0.3),
        },
        scales={"w": "s", "v": "s", "d": 2.0},
    )
    theta = prior.sample(np.random.default_rng(0), 20)
    found = differences(prior.log_density, theta)
    np.testing.assert_allclose(prior.gradient(theta), found, rtol=1e-6, atol=1e-6)


def test_the_step_goes_to_its_acceptance_and_time_to_what_renews():
    """Of a standard normal in many dimensions from a step and a time that are far off."""

    class Standard(Skewed):
        prior = Prior({f"x{j}": stats.norm() for j in range(30)})

        def evaluate(self, values, b, *keys):
            return self.start(values), -1.5 * np.square(values).sum(axis=1)

        def gradient(self, values):
            return -3.0 * values

    likelihood, rng = Standard(), np.random.default_rng(0)
    target = RecordTarget(likelihood.prior, likelihood, 0, 1.0)
    system = target.particles(0.5 * rng.normal(size=(300, 30)))
    moves, previous = STRATEGIES[0], None
    for k in range(12):
        system, previous = moves.rejuvenate(system, target, rng, systematic, previous)
        if k == 0:
            previous = replace(previous, step=0.02, time=0.1)
    assert previous.acceptance == pytest.approx(0.8, abs=0.05)
    assert 0.8 < previous.time < 2.0
    assert previous.start_correlation < 0.4


def test_start_correlation_is_the_correlation_with_the_start():
    rng, chain = np.random.default_rng(0), [np.random.default_rng(1).normal(size=4000)]
    for _ in range(3):
        chain.append(0.5 * chain[-1] + np.sqrt(0.75) * rng.normal(size=4000))
    assert _start_correlation(np.array(chain)) == pytest.approx((0.5 + 0.25 + 0.125) / 3, abs=0.03)


def test_what_has_no_gradient_is_refused():
    without, with_gradient = LinearRegression(10, 2), Regression(10, 2)
    for method, likelihood, message in (
        (Tempering, without, "the likelihood has none"),
        (Ibis, with_gradient, "of a whole record only"),
    ):
        settings = Settings(100, moves=STRATEGIES[0])
        sampler = method(likelihood.prior, likelihood, settings, np.random.default_rng(0))
        with pytest.raises(InputError, match=message):
            sampler.run()
