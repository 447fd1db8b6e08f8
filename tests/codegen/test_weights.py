"""Compiled weights, and the update of a population by one sample, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smcpn import EKF0
from smcpn.codegen import stream_step
from smcpn.codegen import weights as weights_module
from smcpn.codegen.kernel import KernelArgumentError
from smcpn.codegen.stream_step import Update, weigh
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from tests.models import PROBLEMS

LOG_WEIGHTS = st.one_of(st.floats(-800.0, 800.0), st.just(-np.inf))


def plainly_weighed(log_weights):
    """Weights relative to the largest, effective sample size, and log of the mean weight."""
    top = log_weights.max()
    top = top if np.isfinite(top) else 0.0
    weights = np.exp(log_weights - top)
    total, squares = weights.sum(), np.square(weights).sum()
    with np.errstate(divide="ignore"):
        log_mean = np.log(total / len(weights)) + top
    return weights, total**2 / (squares if squares > 0 else 1.0), log_mean


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(LOG_WEIGHTS, min_size=7, max_size=7), min_size=1, max_size=3))
def test_weights_are_those_of_numpy(rows):
    log_weights = np.array(rows)
    weights = np.empty_like(log_weights)
    ess, log_mean = weigh(log_weights, weights)
    for k, row in enumerate(log_weights):
        expected = plainly_weighed(row)
        np.testing.assert_allclose(weights[k], expected[0], rtol=1e-15, atol=1e-322)
        np.testing.assert_allclose([ess[k], log_mean[k]], expected[1:], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("n", [1, 3, 4, 5, 1000])
def test_equal_weights_are_exact(n):
    ess, log_mean = weigh(np.zeros((2, n)))
    assert ess.tolist() == [n, n]
    assert log_mean.tolist() == [0.0, 0.0]
    # A row does not depend on those it comes with.
    rows = np.random.default_rng(n).normal(size=(3, n))
    np.testing.assert_array_equal(weigh(rows)[0][1:], weigh(rows[1:])[0])


@pytest.mark.parametrize("width", [2, 8])
def test_sums_are_the_same_for_vectors_of_any_width(monkeypatch, width):
    rows = np.random.default_rng(width).normal(scale=3.0, size=(1, 1003))
    here, wanted = weigh(rows), plainly_weighed(rows[0])[1:]
    np.testing.assert_allclose(np.array(here)[:, 0], wanted, rtol=1e-14)
    monkeypatch.setattr(weights_module, "doubles", lambda: width)
    monkeypatch.setattr(stream_step, "_weigh", stream_step._weigh.__wrapped__)
    np.testing.assert_array_equal(weigh(rows), here)


@pytest.fixture(scope="module")
def stream():
    problem = PROBLEMS["duffing"]()
    record = problem.records[0]
    likelihood = growing_likelihood(problem, EKF0(2, 2), History(1, 1), threads=1)
    likelihood.stream.append(record.t, record.u, record.y)
    likelihood.stream.finish()
    return problem, likelihood


@pytest.mark.parametrize(("n", "brief"), [(1, 60.0), (30, 60.0), (131, 60.0), (30, 0.0)])
def test_an_update_is_an_advance_and_weights(stream, monkeypatch, n, brief):
    problem, likelihood = stream
    # Of seconds: other threads wait for calls that take less.
    monkeypatch.setattr(stream_step, "BRIEF", brief)
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), n))
    # One of them diverges as soon as a step is made.
    values[0, 0] = 1e-200
    state, log_weights, log_likelihood = likelihood.start(values), np.zeros(n), np.zeros(n)
    update = likelihood.update(likelihood.columns(values), 0)
    population = update.population(state, log_weights, log_likelihood)
    measured = problem.records[0].y
    for sample in range(12):
        weights = plainly_weighed(log_weights)[0]
        ((rows, first, last),) = likelihood.stream.pieces(sample, sample + 1)
        _, moments = likelihood.kernel.moments(values.T.copy(), state, rows, first, last)
        state, (increment,) = likelihood.advance(values, state, sample, sample + 1)
        increment = np.where(np.isfinite(increment), increment, -np.inf)
        log_weights, log_likelihood = log_weights + increment, log_likelihood + increment
        _, ess, log_mean = plainly_weighed(log_weights)
        population = update(population, sample)
        np.testing.assert_array_equal(population.state, state)
        np.testing.assert_array_equal(population.log_weights, log_weights)
        np.testing.assert_array_equal(population.log_likelihood, log_likelihood)
        np.testing.assert_array_equal(update.moments, moments[0])
        np.testing.assert_allclose(population.summary, [ess, log_mean], rtol=1e-13)
        np.testing.assert_array_equal(population.summary, np.ravel(weigh(log_weights[None])))
        assert sample == 0 or log_weights[0] == -np.inf
        alive = weights > 0
        mean, variance = moments[0, :2, alive].T
        if alive.any() and np.isfinite(mean).all():
            share = weights[alive] / weights[alive].sum()
            spread = np.sqrt(share @ (np.square(mean - share @ mean) + variance))
            expected = (measured[sample] - share @ mean) / spread
            np.testing.assert_allclose(population.innovation, expected, rtol=1e-10, atol=1e-12)
            predicted = [share @ mean], [spread]
            np.testing.assert_allclose(population.prediction, predicted, rtol=1e-10, atol=1e-15)


def test_what_does_not_fit_is_refused(stream):
    problem, likelihood = stream
    columns = likelihood.columns(problem.prior.natural(np.zeros((5, len(problem.prior)))))
    update = likelihood.update(columns, 0)
    state, zero = likelihood.start(columns[:4].T), np.zeros(5)
    population = update.population(state, zero, zero)
    few = likelihood.update(columns[:, :4].copy(), 0)
    for wrong in (
        (population, -1),
        (population, 9999),
        (few.population(state[:, :4], zero[:4], zero[:4]), 0),
    ):
        with pytest.raises(KernelArgumentError, match="not of these rows"):
            update(*wrong)
    rows, *_ = next(likelihood.stream.pieces(0, 5))
    for measured in (0, 99):
        with pytest.raises(KernelArgumentError, match="as many columns"):
            Update(likelihood.kernel, columns, rows, measured)
    with pytest.raises(KernelArgumentError, match="program's shape"):
        Update(likelihood.kernel, columns[1:], rows, 3)
    with pytest.raises(TypeError, match="cannot read"):
        Update(likelihood.kernel, np.asfortranarray(columns), rows, 3)
