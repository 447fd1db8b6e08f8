"""How far a linearised likelihood is from that which filters estimate: measured, and told of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.errors import InputError
from smcpn.run import judge as judge_module
from smcpn.run.departure import departure, estimates, shift_by_filters
from smcpn.smc.particles import ParticleSystem
from tests.targets import BootstrapFilter, OrnsteinUhlenbeck

PROCESS = OrnsteinUhlenbeck.simulated(40)
ESTIMATE = BootstrapFilter(PROCESS).with_state_particles(128)
SOLVERS = smcpn.RK4(1), smcpn.RK4(2)


def posterior_draws(rng: np.random.Generator, size: int) -> np.ndarray:
    theta = PROCESS.prior.sample(rng, 50 * size)
    log_likelihood = PROCESS.evaluate(np.exp(theta), 40)[1]
    weights = np.exp(log_likelihood - log_likelihood.max())
    return theta[rng.choice(len(theta), size, p=weights / weights.sum())]


def population(tilt: float, level: float) -> ParticleSystem:
    """Draws from the posterior, whose log-likelihood is said to be tilted along the rate."""
    theta = posterior_draws(np.random.default_rng(1), 400)
    said = PROCESS.evaluate(np.exp(theta), 40)[1] - tilt * theta[:, 0] - level
    nothing = np.zeros(400)
    keys = np.empty((400, 0), dtype=np.uint64)
    return ParticleSystem.of(theta, nothing, said, nothing, np.empty((0, 400)), keys)


def measured(tilt: float, level: float, seed: int = 0):
    rng = np.random.default_rng(seed)
    system = population(tilt, level)
    return departure(
        PROCESS.prior.names, SOLVERS[0], system, np.exp, "kalman", ESTIMATE, "particle", rng
    )


def test_estimates_are_those_of_the_likelihood():
    """40 draws, with half a variance added: the mean error is within three standard errors."""
    theta = posterior_draws(np.random.default_rng(3), 40)
    found = estimates(ESTIMATE, np.exp(theta), np.random.default_rng(0))
    away = found.values - PROCESS.evaluate(np.exp(theta), 40)[1]
    error = np.sqrt(found.variance / 40)
    assert abs(away.mean()) < 3 * error < 0.3
    assert away.var() < 3 * found.variance


def test_what_is_no_departure_is_not_told_of():
    found = [measured(0.0, 0.0, seed) for seed in range(20)]
    assert all(abs(one.shift.log_evidence) < 4 * one.error for one in found)
    assert sum(bool(one.warnings) for one in found) <= 1


def test_a_departure_of_level_and_slope_is_told_of():
    """The tilt moves the mean of the rate by tilt x sd, to first order."""
    theta = population(0.0, 0.0).theta
    sd = theta.std(axis=0)[0]
    found = measured(1.0 / sd, 3.0)
    assert found.shift.parameters["rate"] == pytest.approx(1.0, abs=0.5)
    # Draws of a normal tilt: half its square, and the mean of the tilt itself.
    expected = 3.0 + theta[:, 0].mean() / sd + 0.5
    assert found.shift.log_evidence == pytest.approx(expected, abs=0.7)
    (sentence,) = found.warnings
    assert "the kalman likelihood is linearised" in sentence
    assert "rate by +" in sentence
    assert sentence.endswith("take likelihood='particle'")


def test_steps_that_change_nothing_shift_nothing_and_others_do():
    theta = posterior_draws(np.random.default_rng(4), 200)
    rng = np.random.default_rng(0)

    def shift(finer):
        both = ESTIMATE, BootstrapFilter(finer).with_state_particles(128)
        return shift_by_filters(PROCESS.prior.names, SOLVERS, both, theta, np.exp(theta), rng)

    assert shift(PROCESS).size < 0.25
    coarser = OrnsteinUhlenbeck(PROCESS.y, noise=0.6)
    exact = coarser.evaluate(np.exp(theta), 40)[1] - PROCESS.evaluate(np.exp(theta), 40)[1]
    expected = np.log(np.exp(exact).mean())
    assert shift(coarser).log_evidence == pytest.approx(expected, abs=0.25)


@smcpn.ode
def well(x, *, a):
    """Two wells."""
    return a * (x - x**3)


@smcpn.ode
def relaxing(x, *, a):
    """Linear."""
    return -a * x


def problem_of(ode) -> smcpn.Problem:
    rng, x, path = np.random.default_rng(11), 1.0, []
    for _ in range(60):
        path.append(x)
        for _ in range(50):
            x += 0.02 * (x - x**3) + 0.75 * np.sqrt(0.02) * rng.normal()
    return smcpn.Problem(
        ode,
        smcpn.Record(y=np.array(path) + 0.4 * rng.normal(size=60), dt=1.0),
        observe="x",
        noise=0.4,
        initial={"x": 1.0},
        prior={"a": stats.lognorm(0.5), "s": stats.lognorm(0.5, scale=0.7)},
        process_noise={"x": "s"},
    )


def told(ode) -> list[str]:
    options = {"solver": smcpn.RK4(10), "particles": 100, "seed": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", smcpn.SamplerWarning)
        found = smcpn.identify(problem_of(ode), threads=1, **options)
    return [one for one in found.warnings if "linearised" in one]


def test_the_default_between_two_wells_warns():
    (sentence,) = told(well)
    assert "log-evidence by about +" in sentence


def test_a_linear_model_is_not_compared(monkeypatch):
    monkeypatch.setattr(judge_module, "build_estimate", None)
    assert told(relaxing) == []


def test_where_filters_refuse_the_problem_nothing_is_compared(monkeypatch):
    def refuse(*_):
        raise InputError("not taken")

    monkeypatch.setattr(judge_module, "build_estimate", refuse)
    assert told(well) == []
