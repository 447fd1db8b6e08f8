"""IBIS against exact answers. Tolerances are k standard errors, over seeds stated beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF0
from smcpn.codegen import kernel
from smcpn.smc.ibis import Ibis
from smcpn.smc.moves import IndependentMetropolis
from smcpn.smc.particles import Target
from smcpn.smc.rejuvenation import MoveSettings
from smcpn.smc.resampling import systematic
from smcpn.smc.sampler import Settings
from tests.models import duffing_problem
from tests.targets import ExponentialRate, HalfNan, LinearRegression


def run(likelihood, seed=0, **settings) -> Ibis:
    sampler = Ibis(likelihood.prior, likelihood, Settings(**settings), np.random.default_rng(seed))
    sampler.run()
    return sampler


def test_log_evidence_at_every_time():
    """Ten runs: the mean error at each t is below 4 standard errors of itself."""
    likelihood = LinearRegression(60, 3, 0.5)
    exact = np.array([likelihood.log_evidence(t) for t in range(1, 61)])
    errors = (
        np.array([run(likelihood, seed).state.trace.log_evidence for seed in range(10)]) - exact
    )
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(10)
    assert np.abs(errors).max() < 0.5
    assert (np.abs(errors.mean(axis=0)) < 4 * standard_error + 1e-9).mean() > 0.95


def test_posterior_moments():
    likelihood = LinearRegression(60, 3, 0.5)
    mean, covariance = likelihood.moments(60)
    system = run(likelihood, particles=4000).system
    sd = np.sqrt(np.diag(covariance))
    # A weighted mean of about 2000 independent draws: 5 standard errors.
    assert (np.abs(system.weights @ system.theta - mean) < 5 * sd / np.sqrt(2000)).all()
    estimate = np.sqrt(system.weights @ (system.theta - mean) ** 2)
    np.testing.assert_allclose(estimate, sd, rtol=0.1)


@pytest.mark.parametrize("noise", [pytest.param(1e-2, marks=pytest.mark.nightly), 1e-6])
def test_noise_ladder(noise):
    """One sample outweighs the prior by far: without a bridge every particle dies."""
    likelihood = LinearRegression(40, 4, noise)
    exact = likelihood.log_evidence(40)
    runs = [run(likelihood, seed) for seed in range(5)]
    errors = np.array([r.log_evidence for r in runs]) - exact
    # Standard deviation of one run is about .13, .24, .32 over 100 seeds: 5 runs, 4 of them.
    assert np.abs(errors.mean()) < 4 * 0.32 / np.sqrt(5)
    mean, covariance = likelihood.moments(40)
    whitened = np.linalg.solve(
        np.linalg.cholesky(covariance), runs[0].system.theta.T - mean[:, None]
    )
    np.testing.assert_allclose(whitened @ runs[0].system.weights, 0, atol=0.25)
    assert np.median([len(r.rejuvenations) for r in runs]) < 120
    assert any(rejuvenation.exponent < 1 for rejuvenation in runs[0].rejuvenations)


@pytest.mark.parametrize("shape", [0.3, 1.0, 20.0])
def test_skewed_targets(shape):
    likelihood = ExponentialRate(50, shape)
    sampler = run(likelihood, particles=4000, seed=1)
    assert sampler.log_evidence == pytest.approx(likelihood.log_evidence(), abs=0.2)
    rates, weights = np.exp(sampler.system.theta[:, 0]), sampler.system.weights
    exact = likelihood.posterior()
    for q in (0.025, 0.5, 0.975):
        assert weights[rates < exact.ppf(q)].sum() == pytest.approx(q, abs=5 * 0.5 / np.sqrt(2000))


def test_model_that_is_nan_for_half_the_prior():
    half, whole = HalfNan(30, 2, 0.5, seed=4), LinearRegression(30, 2, 0.5, seed=4)
    mean, covariance = whole.moments(30)
    kept = stats.norm.sf(0, mean[0], np.sqrt(covariance[0, 0]))
    assert kept > 0.02
    exact = whole.log_evidence(30) + np.log(kept)
    errors = [run(half, seed).log_evidence - exact for seed in range(5)]
    assert abs(np.mean(errors)) < 0.15
    flat = HalfNan(30, 2, 1e6)
    assert run(flat).log_evidence - run(LinearRegression(30, 2, 1e6)).log_evidence == pytest.approx(
        np.log(0.5), abs=0.1
    )


def test_move_leaves_the_posterior_as_it_is():
    """Twenty moves of exact draws: variances stay, ratio 1 +- .05 (5 standard errors)."""
    likelihood = LinearRegression(25, 2, 0.7)
    mean, covariance = likelihood.moments(25)
    rng = np.random.default_rng(0)
    target = Target(likelihood.prior, likelihood, 24, 1.0)
    system = target.particles(rng.multivariate_normal(mean, covariance, 20_000))
    # A proposal far too wide: a wrong acceptance ratio would show.
    system = replace(system, log_weights=0.3 * rng.normal(size=len(system)))
    moves = IndependentMetropolis(MoveSettings(max_moves=1))
    for _ in range(20):
        system, record = moves.rejuvenate(system, target, rng, systematic, None)
        assert record.moves == 1
    ratio = system.theta.var(axis=0) / np.diag(covariance)
    np.testing.assert_allclose(ratio, 1.0, atol=0.05)
    offset = (system.theta.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(offset, 0.0, atol=0.05)


def test_moves_correct_a_wrong_start():
    """Particles drawn from another density reach the target by moves alone."""
    likelihood = LinearRegression(25, 2, 0.7)
    mean, covariance = likelihood.moments(25)
    rng = np.random.default_rng(1)
    target = Target(likelihood.prior, likelihood, 24, 1.0)
    system = target.particles(mean + 3 * rng.multivariate_normal(np.zeros(2), covariance, 5000))
    for _ in range(10):
        system, _ = IndependentMetropolis().rejuvenate(system, target, rng, systematic, None)
    np.testing.assert_allclose(system.theta.var(axis=0) / np.diag(covariance), 1.0, atol=0.1)


def fingerprint(sampler: Ibis) -> bytes:
    system = sampler.system
    return b"".join(
        array.tobytes()
        for array in (system.theta, system.log_weights, system.log_likelihood, system.state)
    )


def test_same_bytes_for_any_block():
    likelihood = LinearRegression(60, 3, 0.05)
    runs = [run(likelihood, block=block, particles=200) for block in (1, 7, 64)]
    assert len({fingerprint(r) for r in runs}) == 1
    assert len({tuple(r.state.trace.ess) for r in runs}) == 1
    assert len({tuple(r.state.trace.log_evidence) for r in runs}) == 1
    assert runs[0].state.trace.length == len(runs[0].state.trace.ess) == 60


def test_same_bytes_for_any_thread_count_and_block(monkeypatch):
    monkeypatch.setattr(kernel, "INLINE_STEPS", 0)  # threads share even the shortest work
    options = {"solver": EKF0(order=3, steps=2), "method": "ibis", "particles": 150, "seed": 3}
    results = [
        smcpn.identify(duffing_problem(30), threads=threads, block=block, **options)
        for threads, block in ((1, 64), (2, 7))
    ]
    assert len({r.theta.tobytes() + r.log_weights.tobytes() for r in results}) == 1


def test_global_random_state_is_untouched():
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    run(LinearRegression(20, 2, 0.1))
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


def test_carried_log_likelihood_and_state_are_those_of_theta():
    """What rides along with a particle is what a fresh evaluation of it gives."""
    problem = duffing_problem(50)
    from smcpn.likelihood.registry import build_likelihood

    likelihood = build_likelihood(problem, EKF0(steps=2))
    sampler = Ibis(problem.prior, likelihood, Settings(particles=200), np.random.default_rng(0))
    sampler.run()
    state, loglik = likelihood.evaluate(problem.prior.natural(sampler.system.theta), 50)
    np.testing.assert_allclose(sampler.system.log_likelihood, loglik, rtol=1e-10)
    np.testing.assert_array_equal(sampler.system.state, state)
    np.testing.assert_allclose(
        sampler.system.log_prior, problem.prior.log_density(sampler.system.theta), rtol=1e-12
    )
