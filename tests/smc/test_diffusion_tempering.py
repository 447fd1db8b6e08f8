"""The path of falling diffusion: exact answers, and a likelihood with many maxima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import EKF1, RK4, InputError
from smcpn.likelihood.registry import build_likelihood
from smcpn.smc.sampler import Settings
from smcpn.smc.tempering import DiffusionTempering, Tempering
from tests.models import decay_problem, exact_solution
from tests.targets import LinearRegression


class DiffusedLinear(LinearRegression):
    """y = X theta + noise e, where the diffusion adds to the noise: closed form at any factor."""

    def __init__(self, diffusion: float = 0.05, factor: float = 1.0, **options):
        super().__init__(**options)
        self.own_noise, self.diffusion = self.noise, diffusion
        self.noise = float(np.hypot(self.own_noise, factor * diffusion))
        self.options = options

    def at_diffusion(self, factor: float) -> LinearRegression:
        return DiffusedLinear(self.diffusion, factor, **self.options)


def run(kind, likelihood, seed=0, **settings):
    sampler = kind(likelihood.prior, likelihood, Settings(**settings), np.random.default_rng(seed))
    sampler.run()
    return sampler


def test_evidence_and_posterior_are_exact():
    """Ten runs; 4 standard errors, estimated from the runs themselves."""
    likelihood = DiffusedLinear(n=30, d=2, noise=0.05)
    runs = [run(DiffusionTempering, likelihood, seed) for seed in range(10)]
    errors = np.array([r.log_evidence for r in runs]) - likelihood.log_evidence()
    assert abs(errors.mean()) < 4 * max(errors.std(ddof=1), 0.01) / np.sqrt(10)
    assert errors.std(ddof=1) < 0.1
    stated = np.array([r.log_evidence_se for r in runs])
    assert 0.3 < np.sqrt(np.mean(stated**2)) / errors.std(ddof=1) < 3.0
    mean, covariance = likelihood.moments()
    whitening = np.linalg.inv(np.linalg.cholesky(covariance))
    means = [whitening @ (r.system.weights @ r.system.theta - mean) for r in runs]
    # Of 400 independent draws at least in each run, ten runs, 5 standard errors.
    assert (np.abs(np.mean(means, axis=0)) < 5 / np.sqrt(4000)).all()


def test_factors_fall_to_one_and_keep_the_ess():
    sampler = run(DiffusionTempering, DiffusedLinear(n=30, d=2, noise=0.02))
    assert sampler.state.factors[0] >= 100.0
    assert sampler.state.factors[-1] == 1.0
    assert (np.diff(sampler.state.factors) < 0).all()
    assert len(sampler.rejuvenations) >= 3
    for record in sampler.rejuvenations[:-1]:
        assert 500 <= record.ess <= 550
    assert sampler.state.trace.samples.tolist() == [30]
    assert sampler.state.trace.log_evidence.tolist() == [sampler.log_evidence]
    assert sampler.sample == 30
    at_end = sampler.likelihood.evaluate(sampler.system.theta, 30)[1]
    np.testing.assert_array_equal(sampler.system.log_likelihood, at_end)


def test_what_no_diffusion_flattens_is_tempered():
    """A likelihood that ignores its diffusion: the run is that of tempering, to the byte."""

    class Deaf(LinearRegression):
        def at_diffusion(self, factor: float) -> LinearRegression:
            return self

    first = run(DiffusionTempering, Deaf(30, 2, 0.05))
    second = run(Tempering, LinearRegression(30, 2, 0.05))
    assert first.state.factors == (1.0,)
    assert first.log_evidence == second.log_evidence
    assert first.system.theta.tobytes() == second.system.theta.tobytes()


def test_diverging_parameters_do_not_stop_the_path():
    """Half the prior diverges; the rest is as if it were not there."""

    class Half(DiffusedLinear):
        def evaluate(self, values, b, *keys):
            state, total = super().evaluate(values, b)
            return state, np.where(values[:, 0] > 0.0, np.nan, total)

        def at_diffusion(self, factor: float) -> LinearRegression:
            return Half(self.diffusion, factor, **self.options)

    likelihood = Half(n=30, d=2, noise=0.05, seed=3)
    mean, covariance = likelihood.moments()
    assert mean[0] < -5 * np.sqrt(covariance[0, 0])
    sampler = run(DiffusionTempering, likelihood)
    assert sampler.state.factors[0] < 1e6
    assert sampler.log_evidence == pytest.approx(likelihood.log_evidence(), abs=0.3)


def test_a_likelihood_without_diffusion_is_refused():
    with pytest.raises(
        InputError, match="method='diffusion-tempering' needs a likelihood with a diffusion"
    ):
        smcpn.identify(decay_problem(), solver=RK4(2), method="diffusion-tempering")
    with pytest.raises(InputError, match="method is 'up': choose one of auto, ibis, tempering"):
        smcpn.identify(decay_problem(), solver=RK4(2), method="up")


def test_every_particle_lost_is_told():
    class Nan(DiffusedLinear):
        def evaluate(self, values, b, *keys):
            return self.start(values), np.full(len(values), np.nan)

        def at_diffusion(self, factor: float) -> LinearRegression:
            return self

    with pytest.raises(InputError, match="NaN or infinite at every draw"):
        run(DiffusionTempering, Nan())


PENDULUM_SOLVER = EKF1(2, 1, diffusion=10.0)


@smcpn.ode
def pendulum(angle, rate, *, length):
    """Free pendulum."""
    return rate, -9.81 / length * np.sin(angle)


def pendulum_problem(seed: int, samples: int = 1001):
    """Angular rate over ten seconds, length 1, start (0, pi/2) known; length from .01 to 100."""
    start, t = (0.0, np.pi / 2), np.linspace(0.0, 10.0, samples)
    rate = exact_solution(pendulum, [1.0], start, t)[:, 1]
    noise = np.sqrt(0.1)
    return smcpn.Problem(
        pendulum,
        smcpn.Record(y=rate + noise * np.random.default_rng(seed).normal(size=samples), t=t),
        observe="rate",
        noise=noise,
        prior={"length": stats.loguniform(0.01, 100.0)},
        initial=start,
    )


def pendulum_length(seed: int, particles: int, samples: int = 1001) -> float:
    posterior = smcpn.identify(
        pendulum_problem(seed, samples),
        solver=PENDULUM_SOLVER,
        likelihood="fenrir",
        method="diffusion-tempering",
        particles=particles,
        seed=seed,
    )
    return posterior.mean["length"]


@pytest.mark.slow
def test_the_likelihood_of_the_pendulum_has_many_maxima_and_a_diffusion_removes_them():
    likelihood = build_likelihood(pendulum_problem(0), PENDULUM_SOLVER, likelihood="fenrir")
    lengths = 10.0 ** np.linspace(-1.0, 1.0, 201)[:, None]

    def maxima(factor: float) -> int:
        values = likelihood.at_diffusion(factor).evaluate(lengths, 1001)[1]
        return int(((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])).sum())

    assert maxima(1.0) > 5
    assert maxima(1e6) <= 1


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_pendulum_is_found_by_every_seed(seed):
    assert pendulum_length(seed, particles=200) == pytest.approx(1.0, abs=1e-2)
