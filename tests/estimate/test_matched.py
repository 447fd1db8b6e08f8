"""Starts that match slopes of the smoothed outputs, and maxima that are doubted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import RK4
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.matched import Matching, _observed, matched_starts
from smcpn.estimate.maximise import _doubt, _finer_for_unfinished
from smcpn.estimate.search import LIMIT
from tests.models import decay, exact_solution, fitzhugh_nagumo, lotka_volterra

RATES = {"a": 1.0, "b": 0.4, "c": 0.5, "d": 0.1}


@smcpn.ode
def oscillator(x, v, u, *, c, k):
    """Oscillator whose velocity is not measured."""
    return v, u - c * v - k * x


@smcpn.ode
def rotation(x, y, *, w):
    """Rotation at the angular velocity w."""
    return w * y, -w * x


@smcpn.ode
def square_decay(x, *, a):
    """Decay whose rate has a sign that no sample tells."""
    return -(a**2) * x


def log_density(problem: smcpn.Problem) -> LogDensity:
    """One that is not compiled: smoothed outputs tell of it without."""
    function: Any = SimpleNamespace(problem=problem)
    return LogDensity(function)


def measured(ode: smcpn.ODE, values: Any, begin: Any, noise: float, t: np.ndarray) -> np.ndarray:
    clean = exact_solution(ode, np.array(values), list(begin), t)
    return clean + noise * np.random.default_rng(0).normal(size=clean.shape)


def two_states(ode: smcpn.ODE, values: Any, begin: Any, noise: Any = "sigma") -> smcpn.Problem:
    t = np.linspace(0.0, 20.0, 201)
    y = measured(ode, values, begin, 0.05, t)
    y[40:45, 0] = np.nan
    learned = (noise,) if isinstance(noise, str) else ()
    return smcpn.Problem(
        ode, smcpn.Record(t=t, y=y), observe=list(ode.states), noise=noise,
        prior={name: stats.lognorm(1.0) for name in (*ode.parameters, *learned)},
        initial=[stats.norm(0.0, 5.0) for _ in begin],
    )  # fmt: skip


CASES = {
    "linear": two_states(lotka_volterra, list(RATES.values()), (5.0, 3.0)),
    "not linear": two_states(fitzhugh_nagumo, [0.2, 0.2, 3.0], (-1.0, 1.0)),
}
TRUTH = {
    "linear": [*RATES.values(), 0.05, 5.0, 3.0],
    "not linear": [0.2, 0.2, 3.0, 0.05, -1.0, 1.0],
}


@pytest.mark.parametrize("name", CASES)
def test_starts_are_near_the_truth(name):
    problem = CASES[name]
    (first, *_) = problem.prior.natural(matched_starts(log_density(problem)).starts)
    np.testing.assert_allclose(first, TRUTH[name], rtol=0.15)


@pytest.mark.parametrize("name", CASES)
def test_slopes_of_the_matching_are_differences_of_it(name):
    problem = CASES[name]
    density, model = log_density(problem), problem.model.with_numbers()
    observe = _observed(model)
    assert observe is not None
    matching = Matching(density, problem, model, observe, np.array([False, False]))
    theta = problem.prior.sample(np.random.default_rng(1), 1)
    value, gradient, _ = matching.expansion(theta)
    step = 1e-6 * np.eye(theta.shape[1])
    differences = (matching.expansion(theta + step)[0] - matching.expansion(theta - step)[0]) / 2e-6
    np.testing.assert_allclose(gradient[0], differences, rtol=1e-4, atol=1e-6 * abs(value[0]))


def test_every_hill_of_the_slopes_is_found():
    t = np.linspace(0.0, 2.0, 41)
    y = np.exp(-0.64 * t) + 0.01 * np.random.default_rng(1).normal(size=41)
    problem = smcpn.Problem(
        square_decay, smcpn.Record(t=t, y=y), observe="x", noise=0.01, initial=[1.0],
        prior={"a": stats.norm(0.5, 0.7)},
    )  # fmt: skip
    found = problem.prior.natural(matched_starts(log_density(problem)).starts)
    np.testing.assert_allclose(np.sort(found[:, 0]), [-0.8, 0.8], atol=0.03)


def oscillator_of(observe: Any) -> smcpn.Problem:
    t = np.arange(300) * 0.05
    u = np.sin(t**1.3)
    y = smcpn.simulate(
        oscillator, smcpn.Record(u=u, t=t), {"c": 0.3, "k": 2.0}, observe="x", steps=4
    )
    y += 0.002 * np.random.default_rng(0).normal(size=y.shape)
    prior: dict[str, Any] = {"c": stats.lognorm(1.0), "k": stats.lognorm(1.0)}
    return smcpn.Problem(
        oscillator, smcpn.Record(u=u, y=y, t=t), observe=observe, noise=0.002, prior=prior
    )


def test_a_velocity_is_told_by_the_equation_of_the_position():
    problem = oscillator_of("x")
    (found,) = problem.prior.natural(matched_starts(log_density(problem)).starts)
    np.testing.assert_allclose(found, [0.3, 2.0], rtol=0.1)


@pytest.mark.parametrize(
    "observe", ["v", lambda x, *, k: k * x, lambda x: x**3], ids=["hidden", "scaled", "cubed"]
)
def test_outputs_that_do_not_tell_the_states_give_no_start(observe):
    problem = oscillator_of(observe)
    assert matched_starts(log_density(problem)).starts.shape == (0, 2)


def test_few_samples_give_no_start():
    t = np.linspace(0.0, 1.0, 7)
    problem = smcpn.Problem(
        decay, smcpn.Record(t=t, y=np.exp(-t)), observe="x", noise=0.01,
        initial=[1.0], prior={"rate": stats.lognorm(1.0)},
    )  # fmt: skip
    assert len(matched_starts(log_density(problem)).starts) == 0


def slow_decay(y: np.ndarray) -> smcpn.Maximum:
    problem = smcpn.Problem(
        decay, smcpn.Record(y=y, dt=0.1), observe="x", noise="sigma", initial=[1.0],
        prior={"rate": stats.lognorm(1.0), "sigma": stats.lognorm(1.0)},
    )  # fmt: skip
    return smcpn.maximise(problem, seed=0)


def test_residuals_far_beyond_the_noise_are_doubted():
    t, noise = np.arange(100) * 0.1, 0.02 * np.random.default_rng(0).normal(size=100)
    wrong = slow_decay(np.cos(t) + noise)
    # Searches agree on it, so that more of them do not help.
    assert wrong.agreeing > 1
    assert "times the noise that the samples show" in wrong.warnings[-1]
    assert wrong.warnings[-1].endswith("ended there: look at the model, its units and its inputs")
    assert slow_decay(np.exp(-0.5 * t) + noise).warnings == ()


def test_a_higher_search_that_did_not_converge_is_doubted_and_calls_for_finer_steps():
    maximum = slow_decay(np.exp(-0.05 * np.arange(100)) + 0.02 * np.sin(17.0 * np.arange(100)))
    density = LogDensity(maximum.function)
    cut = replace(
        maximum.starts[0], log_density=maximum.log_density + 50.0, success=False, reason=LIMIT
    )
    lesser = replace(maximum, starts=(*maximum.starts, cut))
    assert "did not converge" in _doubt(lesser, density)
    assert lesser.agreeing == maximum.agreeing
    steps = maximum.solver.steps
    assert _finer_for_unfinished(maximum, 0) is None
    finer = _finer_for_unfinished(lesser, 0)
    assert finer is not None
    assert finer.steps == 2 * steps
    assert _finer_for_unfinished(lesser, 2) is None


def test_one_search_that_matches_slopes_is_believed():
    """Of a model that states more noise than there is, other modes are looked for."""
    told = [
        len(smcpn.maximise(two_states(fitzhugh_nagumo, [0.2, 0.2, 3.0], (-1.0, 1.0), noise=noise),
                           solver=RK4(4)).starts)
        for noise in ("sigma", 1.0)
    ]  # fmt: skip
    assert told[0] < 12 < told[1]


@pytest.mark.parametrize(("interval", "alone"), [(0.1, True), (1.0, False)])
def test_a_prior_that_reaches_an_alias_needs_more_searches(interval, alone):
    """A rotation through the same samples, once more between each two of them."""
    t = np.arange(0.0, 30.0, interval)
    y = np.column_stack([np.cos(0.5 * t), -np.sin(0.5 * t)])
    y += 0.02 * np.random.default_rng(0).normal(size=y.shape)
    problem = smcpn.Problem(
        rotation, smcpn.Record(t=t, y=y), observe=["x", "y"], noise=0.02, initial=[1.0, 0.0],
        prior={"w": stats.lognorm(1.0)},
    )  # fmt: skip
    found = matched_starts(log_density(problem))
    assert len(found.starts)
    assert found.alone == alone


@smcpn.ode
def released(x, v, *, w, z):
    """Damped oscillator of angular frequency w."""
    return v, -(w**2) * x - z * v


def sampled_twice_a_second() -> smcpn.Problem:
    """Positions that an oscillation at 4 pi less its frequency explains as well."""
    t = 0.5 * np.arange(60.0)
    y = np.exp(-0.025 * t) * np.cos(2.0 * t) + 0.1 * np.random.default_rng(4).normal(size=60)
    return smcpn.Problem(
        released, smcpn.Record(t=t, y=y), observe="x", noise=0.1, initial=[1.0, 0.0],
        prior={"w": stats.lognorm(1.0, scale=3.0), "z": stats.lognorm(0.7, scale=0.05)},
    )  # fmt: skip


def test_modes_that_the_first_steps_hide_are_found_and_kept_by_finer_ones():
    problem = sampled_twice_a_second()
    found = smcpn.laplace(problem, solver=RK4(), seed=0)
    there = problem.prior.natural(np.stack([mode.theta for mode in found.modes]))
    w = np.sort(there[:, 0])
    np.testing.assert_allclose(w[:2], [2.0, 4 * np.pi - 2.0], atol=0.02)
    assert found.maximum.doubt == ""
    first = smcpn.LogLikelihood(problem, solver=RK4())
    assert found.solver.steps > first.solver.steps
    by_finer = smcpn.LogLikelihood(problem, solver=RK4(2 * found.solver.steps))(there)
    by_found = smcpn.LogLikelihood(problem, solver=found.solver)(there)
    np.testing.assert_allclose(by_finer, by_found, atol=0.1)


def test_modes_that_no_affordable_steps_show_are_warned_of(monkeypatch):
    monkeypatch.setattr("smcpn.estimate.maximise.finest_affordable", lambda density: 1.0)
    found = smcpn.maximise(sampled_twice_a_second(), solver=RK4(), seed=0)
    (warning,) = found.warnings
    assert "a mode there may be missed: narrow the prior, or give steps" in warning
