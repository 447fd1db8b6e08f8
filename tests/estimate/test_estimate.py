"""Maximisation: exact answers, many starts, stages, and failures that are values."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import smcpn
from smcpn import RK4, InputError, LogLikelihood, Prior
from smcpn.estimate.batching import run_batched
from smcpn.estimate.log_density import LogDensity
from smcpn.estimate.multistart import NEGLIGIBLE, SHOOTING, MultiStart, further_starts
from smcpn.estimate.quasi_newton import search
from smcpn.estimate.search import CONVERGED, SEARCHES, Region, SearchEnd, chosen_search
from smcpn.likelihood.shift import AUTOMATIC_SHIFT
from tests.models import LINE_SOLVER, decay_problem, line, line_answer, line_design, two_modes

METHODS = ("l-bfgs-b", "trust-exact", "trust-ncg")
"""Those of SciPy."""


@pytest.fixture(scope="module")
def linear() -> LogLikelihood:
    return LogLikelihood(line(), solver=LINE_SOLVER)


@pytest.fixture(scope="module")
def decay() -> LogLikelihood:
    return LogLikelihood(decay_problem(), solver=RK4(steps=4))


@pytest.mark.parametrize("method", SEARCHES)
def test_linear_gaussian_mode_and_maximum_are_exact(linear, method):
    mode, covariance, _ = line_answer()
    found = smcpn.maximise(line(), linear, method=method)
    assert found.success
    assert found.reason == "converged"
    assert found.method == method
    np.testing.assert_allclose(found.values, mode, atol=1e-5 * np.sqrt(covariance.diagonal().min()))
    x, y = line_design()
    prior = stats.norm([0.0, 1.0], 3.0).logpdf(found.values).sum()
    assert found.log_density == pytest.approx(found.log_likelihood + prior, abs=1e-9)
    likely = smcpn.maximise(line(), linear, method=method, target="likelihood")
    np.testing.assert_allclose(likely.values, np.linalg.lstsq(x, y)[0], atol=1e-6)
    expected = stats.norm(x @ likely.values, 0.3).logpdf(y).sum()
    assert likely.log_density == likely.log_likelihood == pytest.approx(expected, abs=1e-9)


class Quadratic:
    """A log-likelihood of parameter values without an ODE."""

    def __init__(self, prior: Prior) -> None:
        self.problem: Any = type("Problem", (), {"prior": prior})

    def __call__(self, values):
        return self.value_and_gradient(values)[0]

    def value_and_gradient(self, values):
        weights = 1.0 + np.arange(values.shape[1])
        sums = values @ weights
        return -0.5 * sums**2, -sums[:, None] * weights

    def gradient_and_hessian(self, values, difference=None):
        weights = 1.0 + np.arange(values.shape[1])
        hessian = np.broadcast_to(-np.outer(weights, weights), (len(values), *[len(weights)] * 2))
        return self.value_and_gradient(values)[1], hessian


FAMILIES = Prior(
    {
        "normal": stats.norm(1.0, 2.0),
        "lognormal": stats.lognorm(0.5, scale=2.0),
        "gamma": stats.gamma(3.0),
        "below": stats.truncnorm(-np.inf, 2.0, loc=-1.0, scale=0.5),
        "uniform": stats.uniform(-1.0, 3.0),
        "beta": stats.beta(2.0, 3.0),
    }
)


@pytest.mark.parametrize("target", ["posterior", "likelihood"])
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_derivatives_in_unconstrained_coordinates(target, seed):
    """Against central differences: truncation 1e-10, rounding 1e-9 relative to the value."""
    density = LogDensity(Quadratic(FAMILIES), target)  # type: ignore[arg-type]
    theta = FAMILIES.sample(np.random.default_rng(seed), 1)
    _, gradient = density.value_and_gradient(theta)
    hessian = density.hessian(theta)[0]
    h = 1e-5 * np.eye(len(FAMILIES))
    up, down = density.value(theta + h), density.value(theta - h)
    scale = 1.0 + np.abs(density.value(theta))
    assert np.abs(gradient[0] - (up - down) / 2e-5).max() < 1e-6 * scale
    ups, downs = density.value_and_gradient(theta + h)[1], density.value_and_gradient(theta - h)[1]
    assert np.abs(hessian - (ups - downs) / 2e-5).max() < 1e-5 * scale
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-12 * scale[0])


@pytest.fixture(scope="module")
def modes() -> LogLikelihood:
    return LogLikelihood(two_modes(), solver=RK4(steps=4))


def test_starts_find_both_modes_and_the_higher_one_counts(modes):
    found = smcpn.maximise(two_modes(), modes, starts={"a": [-0.6, -0.4, 0.4, 0.6]})
    ends = np.array([start.values[0] for start in found.starts])
    np.testing.assert_array_equal(np.sign(ends), [-1, -1, 1, 1])
    assert found["a"] == pytest.approx(0.5, abs=0.05)
    assert found.best in (2, 3)
    assert found.agreeing == 2
    np.testing.assert_array_equal([s.start[0] for s in found.starts], [-0.6, -0.4, 0.4, 0.6])
    # The likelihood is the same at both, the log prior differs by that of -0.5 and 0.5.
    assert found.starts[0].log_density == pytest.approx(found.log_density - 0.5, abs=0.02)
    alone = smcpn.maximise(two_modes(), modes, starts=[[-0.6]])
    np.testing.assert_array_equal(alone.path, found.starts[0].path)


def test_path_leads_from_the_start_to_the_maximum_and_rises(decay):
    found = smcpn.maximise(decay.problem, decay, starts=3, seed=4)
    for start in found.starts:
        np.testing.assert_allclose(start.path[0], start.start)
        np.testing.assert_allclose(start.path[-1], start.values, rtol=1e-9)
        assert (np.diff(start.path_log_density) >= 0).all()
    assert found.path is found.starts[found.best].path


def test_stages_move_only_their_parameters(decay):
    starts = {"rate": 2.0, "sigma": 0.01, "start": 1.0}
    found = smcpn.maximise(decay.problem, decay, starts=starts, stages=[("sigma",)])
    rate, sigma, begin = found.path.T
    # Alone, the noise finds its maximum for the wrong line before anything else moves.
    residual = decay.problem.records[0].y[:, 0] - np.exp(-2.0 * decay.problem.records[0].t)
    first = int(np.flatnonzero(rate != rate[0])[0])
    assert (begin[:first] == begin[0]).all()
    assert sigma[first - 1] == pytest.approx(np.sqrt(np.mean(residual**2)), rel=0.1)
    direct = smcpn.maximise(decay.problem, decay, starts=starts)
    np.testing.assert_allclose(found.values, direct.values, rtol=1e-4)


@pytest.mark.parametrize("method", SEARCHES)
def test_same_bytes_for_any_threads_and_company(method):
    problem = decay_problem()
    runs = []
    for threads in (1, 2):
        function = LogLikelihood(problem, solver=RK4(steps=4), threads=threads)
        runs.append(smcpn.maximise(problem, function, starts=5, seed=3, method=method))
    for one, other in zip(runs[0].starts, runs[1].starts, strict=True):
        np.testing.assert_array_equal(one.path, other.path)
        assert one.evaluations == other.evaluations
    third = runs[0].starts[2]
    alone = smcpn.maximise(problem, function, starts=third.start, method=method)
    # Values and back to coordinates: rounding.
    np.testing.assert_allclose(alone.values, third.values, rtol=1e-6)


def test_a_start_that_diverges_is_a_row_with_a_reason(modes):
    found = smcpn.maximise(two_modes(), modes, starts={"a": [1e5, 0.1]})
    assert [start.reason for start in found.starts] == [
        "the solution diverges at the start",
        "converged",
    ]
    assert found.starts[0].log_density == -np.inf
    assert found["a"] == pytest.approx(0.5, abs=0.05)
    lost = smcpn.maximise(two_modes(), modes, starts=[[1e5]])
    assert not lost.success
    assert not lost.found
    assert lost.values[0] == pytest.approx(1e5)
    assert "diverges at the start" in lost.summary()


def test_the_limit_of_iterations_is_a_reason(decay):
    found = smcpn.maximise(decay.problem, decay, starts=2, iterations=1, search="shooting")
    assert not found.success
    assert found.reason == "the limit of iterations"
    assert "STOPPED: the limit of iterations after 1 iterations" in found.summary()


def test_a_likelihood_that_rises_to_the_edge_of_the_support_stops_there():
    """A decreasing line under a prior of positive rates: the best rate is 0."""
    record = smcpn.Record(t=np.arange(5.0), y=-1e4 * np.arange(5.0))
    problem = smcpn.Problem(
        line().ode,
        record,
        observe="x",
        noise=0.3,
        initial=["x0"],
        prior={"rate": stats.expon(), "x0": stats.norm(0.0, 0.1)},
    )
    found = smcpn.maximise(problem, solver=LINE_SOLVER, target="likelihood")
    assert not found.success
    assert found.reason == "at the edge of the support of rate"
    mode = smcpn.maximise(problem, solver=LINE_SOLVER, target="posterior")
    assert mode.success
    # In log rate the density is rate exp(-(2 sum t^2 + ...)): the Jacobian keeps it inside.
    assert 0.0 < mode["rate"] < 0.1


class Bowl:
    """A parabola about (1, 2) with what may go wrong about it."""

    def __init__(self, wall: float = np.inf, cliff: float = np.inf) -> None:
        self.wall, self.cliff, self.calls = wall, cliff, 0

    def value_and_gradient(self, theta):
        self.calls += 1
        away = theta - [1.0, 2.0]
        value = -np.square(away).sum(axis=1)
        gradient = -2.0 * away
        beyond = theta[:, 0] > self.wall
        value = np.where(beyond, -np.inf, value)
        gradient[beyond | (theta[:, 0] > self.cliff)] = np.nan
        return value, gradient

    def hessian(self, theta):
        return np.broadcast_to(-2.0 * np.eye(2), (len(theta), 2, 2))


REGION = Region(("p", "q"), np.ones(2), np.array([[-30.0, 30.0]] * 2))


def searches(count: int, method: str = "l-bfgs-b", region: Region = REGION):
    starts = np.random.default_rng(0).uniform(-5, 0.9, (count, 2))
    return [lambda caller, s=s: search(caller, region, s, [[0, 1]], method, 100) for s in starts]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wall", [1.0 + 1e-9, 1.5])
def test_a_wall_of_divergence_does_not_end_a_search(method, wall):
    for found in run_batched(Bowl(wall), searches(8, method)):
        assert found.reason == "converged"
        np.testing.assert_allclose(found.theta, [1.0, 2.0], atol=1e-4)


class Overflowing(Bowl):
    """Its curvature and slopes are about to overflow, as those of a solution that diverges."""

    def value_and_gradient(self, theta):
        value, gradient = super().value_and_gradient(theta)
        return value, 1e116 * gradient

    def hessian(self, theta):
        return -1e250 * np.array([[[1.0, 0.5], [0.5, np.inf]]]).repeat(len(theta), axis=0)


@pytest.mark.parametrize("method", METHODS)
def test_curvature_that_overflows_ends_in_a_reason(method):
    for found in run_batched(Overflowing(), searches(4, method)):
        assert np.isfinite(found.theta).all()
        assert found.reason


def test_a_gradient_that_is_not_finite_is_a_reason():
    everywhere = run_batched(Bowl(cliff=-100.0), searches(2))
    assert [found.reason for found in everywhere] == ["the gradient is not finite"] * 2
    for found in run_batched(Bowl(cliff=0.9), searches(3)):
        assert found.reason == "the gradient is not finite"
        assert found.theta[0] <= 0.9


def test_a_maximum_beyond_what_diverges_is_not_called_converged():
    for found in run_batched(Bowl(wall=0.9), searches(3)):
        assert found.reason == "the solution diverges just beyond"
        assert found.theta[0] <= 0.9


@pytest.mark.parametrize("method", METHODS)
def test_bounds_hold(method):
    region = replace(REGION, bounds=np.array([[-30.0, 0.95], [-30.0, 30.0]]))
    for found in run_batched(Bowl(), searches(4, method, region)):
        assert (found.path[:, 0] <= 0.95).all()
        assert not found.success
        if method == "l-bfgs-b":
            assert found.reason == "at the edge of the support of p"
            np.testing.assert_allclose(found.theta, [0.95, 2.0], atol=1e-6)


def test_searches_share_their_calls():
    alone = [run_batched(Bowl(), [one])[0] for one in searches(20)]
    bowl = Bowl()
    together = run_batched(bowl, searches(20))
    assert bowl.calls == max(found.evaluations for found in together)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.path, other.path)


@pytest.mark.parametrize("where", ["function", "search"])
def test_an_exception_ends_all_searches(where):
    class Broken(Bowl):
        def value_and_gradient(self, theta):
            if self.calls == 2 and where == "function":
                raise ZeroDivisionError("broken")
            return super().value_and_gradient(theta)

    def breaks(caller):
        caller.value_and_gradient(np.zeros(2))
        raise ZeroDivisionError("broken")

    several = searches(4) + ([breaks] if where == "search" else [])
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError, match="broken"):
        run_batched(Broken(), several)
    assert threading.active_count() == before


def test_automatic_steps_suffice_at_the_maximum():
    """At the prior median the solution hardly moves, and one step seems enough."""
    problem = smcpn.Problem(
        decay_problem().ode,
        smcpn.Record(y=np.exp(-np.arange(12) * 2.0), dt=1.0),
        observe="x",
        noise="sigma",
        initial=["start"],
        prior={
            "rate": stats.lognorm(2.0, scale=0.05),
            "sigma": stats.lognorm(0.01, scale=1e-4),
            "start": stats.norm(1.0, 1e-4),
        },
    )
    found = smcpn.maximise(problem, solver=RK4())
    assert found.success
    assert found["rate"] == pytest.approx(2.0, rel=1e-3)
    assert found.shift is not None
    assert found.shift.size <= AUTOMATIC_SHIFT
    assert int(found.solver.steps) > 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": "mean"}, "target is 'mean': choose one of posterior, likelihood"),
        ({"method": "adam"}, "method is 'adam': choose one of auto"),
        ({"starts": 0}, "starts is 0: give a whole number from 1"),
        ({"starts": "many"}, "starts is 'many': give a whole number from 1"),
        (
            {"starts": [[1.0, 2.0]]},
            r"starts has shape \(1, 2\): give \(S, 3\) values, in the order",
        ),
        ({"starts": {"mass": 1.0}}, "starts names 'mass', which is no parameter"),
        ({"starts": {"rate": "big"}}, r"starts\['rate'\] is 'big': give numbers"),
        ({"starts": {"rate": -1.0}}, r"starts gives rate = -1, which is not inside the support"),
        ({"starts": {"rate": [1, 2], "sigma": [1, 2, 3]}}, "different numbers of values"),
        ({"stages": ["sigma"]}, r"stages holds 'sigma': give sequences of names"),
        ({"stages": [("mass",)]}, "choose from the parameters rate, sigma, start"),
        ({"iterations": 0}, "iterations is 0: give a whole number from 1"),
        ({"likelihood": "exact"}, "likelihood is 'exact': choose one of"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments, message):
    with pytest.raises(InputError, match=message):
        smcpn.maximise(decay_problem(), solver=RK4(steps=4), **arguments)


def test_a_log_likelihood_of_another_problem_is_refused(decay):
    with pytest.raises(InputError, match="give the problem it was made of"):
        smcpn.maximise(decay_problem(), decay)


def test_summary_says_how_it_was_found(decay):
    text = smcpn.maximise(decay.problem, decay, starts=12, stages=[("sigma",)]).summary()
    for words in ("mode", "log posterior", "unconstrained coordinates", "log-likelihood",
                  "converged after", "12: 12 ended at log", "classical", "RK4(steps=4)",
                  "and 2 more"):  # fmt: skip
        assert words in text


def test_one_further_search_begins_at_a_draw(decay):
    rng = np.random.default_rng(0)
    assert further_starts(LogDensity(decay), rng, count=1, draws=16).shape == (1, 3)


@pytest.mark.parametrize("claimed", [False, True])
def test_only_ends_that_matter_are_searched_on_from(decay, claimed):
    """Those are high by either density; a low end that was claimed to be high goes on as well."""
    density, climb = LogDensity(decay), chosen_search("auto", decay)
    top = smcpn.maximise(decay.problem, decay, starts=2)
    far = top.theta + 3.0 * density.scale
    ends = np.stack([top.theta, far])
    values = density.value(ends)
    assert values[1] < values[0] - 2 * NEGLIGIBLE
    heights = [values[0], values[0] if claimed else values[0] - NEGLIGIBLE - 1.0]
    found = [
        SearchEnd(end, height, CONVERGED, 1, end[None], np.array([height]))
        for end, height in zip(ends, heights, strict=True)
    ]
    first, second = MultiStart(climb, density, [[0, 1]], 50, SHOOTING).on_from(found)
    assert first.log_density == pytest.approx(values[0], abs=1e-6)
    if claimed:
        assert second.evaluations > 2
        assert second.log_density > values[1]
    else:
        np.testing.assert_array_equal(second.theta, far)
        assert second.log_density == values[1]
