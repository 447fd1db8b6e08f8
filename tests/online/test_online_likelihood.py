"""The growing likelihood against that of whole records: the same rows, to the bit."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import smcpn
from smcpn import EKF0, EKF1, RK4
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.prediction import predictive_moments
from smcpn.likelihood.registry import build_likelihood
from tests.models import PROBLEMS
from tests.nightly import nightly_but

pytestmark = pytest.mark.numerics

SINGLE = [name for name in sorted(PROBLEMS) if len(PROBLEMS[name]().records) == 1]
SOLVERS = {
    "ekf0": EKF0(order=3, steps=4),
    "rk4": RK4(steps=4),
    "rosenbrock": smcpn.Rosenbrock(1e-6),
}
CONDITIONED = {
    "filtering, calibrated": ("filtering", EKF1(2, 2, diffusion="fixed")),
    "filtering, chain": ("filtering", EKF1(3, 2, form="chain", diffusion=2.0)),
    "filtering, shared gains": ("filtering", EKF0(2, 2, diffusion=2.0)),
    "dalton": ("dalton", EKF1(2, 2, diffusion=2.0)),
    "dalton, shared gains": ("dalton", EKF0(2, 2, diffusion=2.0)),
    "fenrir, shared gains": ("fenrir", EKF0(2, 2, diffusion=2.0)),
}


def grown(problem, solver, parts, name=None, **history):
    record = problem.records[0]
    likelihood = growing_likelihood(
        problem,
        solver,
        History(record.n_inputs, len(problem.observe), **history),
        threads=1,
        likelihood=name,
    )
    for a in range(0, len(record), parts):
        part = slice(a, a + parts)
        likelihood.stream.append(record.t[part], record.u[part], record.y[part])
    likelihood.stream.finish()
    return likelihood


def values_of(problem, n=30):
    return problem.prior.natural(problem.prior.sample(np.random.default_rng(0), n))


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("name", SINGLE)
def test_increments_equal_those_of_the_record(name, solver):
    problem = PROBLEMS[name]()
    values, t = values_of(problem), len(problem.records[0])
    batch, stream = build_likelihood(problem, solver, 1), grown(problem, solver, 1)
    expected = batch.advance(values, batch.start(values), 0, t)[1]
    found = stream.advance(values, stream.start(values), 0, t)[1]
    if problem.records[0].hold == "bandlimited" and problem.records[0].n_inputs:
        # The record's interpolation is a convolution, which rounds another way.
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    elif solver.adaptive:
        # The kernel of a stream emits more, and the compiler fuses other products in it.
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    else:
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(stream.evaluate(values, t)[1], batch.evaluate(values, t)[1])


@pytest.mark.parametrize(
    ("case", "hold"),
    nightly_but(
        [("filtering, shared gains", "bandlimited"), *((case, "zoh") for case in CONDITIONED)],
        product(CONDITIONED, ["zoh", "bandlimited"]),
    ),
)
def test_conditioned_increments_equal_those_of_the_record(case, hold):
    name, solver = CONDITIONED[case]
    problem = PROBLEMS["duffing"]()
    problem = problem.with_records([problem.records[0].with_hold(hold)])
    values, t = values_of(problem), len(problem.records[0])
    batch, stream = build_likelihood(problem, solver, 1, name), grown(problem, solver, 3, name)
    expected = batch.advance(values, batch.start(values), 0, t)[1]
    found = stream.advance(values, stream.start(values), 0, t)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    if hold == "zoh":
        np.testing.assert_array_equal(found, expected)
    spilled = grown(problem, solver, 7, name, intervals=8, kept=2)
    np.testing.assert_array_equal(spilled.advance(values, spilled.start(values), 0, t)[1], found)


@pytest.mark.parametrize("name", ["shared", pytest.param("held", marks=pytest.mark.nightly)])
def test_conditioned_predictions_are_those_of_the_record(name):
    """What a stream expects of a sample is what `predictive_moments` has, and the noise."""
    solver = EKF0(2, 2, diffusion=2.0) if name == "shared" else EKF1(2, 2, diffusion=2.0)
    problem = PROBLEMS["duffing"]()
    problem = problem.with_records([problem.records[0].with_hold("zoh")])
    values, stream = values_of(problem, 1), grown(problem, solver, 1, "filtering")
    ((mean, covariance),) = predictive_moments(
        problem, solver, values[0], enumerate(problem.records), "filtering"
    )
    noise = problem.model.with_numbers().noise_variances(values)[:, 0]
    update = stream.update(stream.columns(values), 0)
    population = update.population(stream.start(values), np.zeros(1), np.zeros(1))
    for sample in range(20):
        population = update(population, sample)
        expected = np.concatenate([mean[sample], np.diag(covariance[sample]) + noise])
        np.testing.assert_allclose(update.moments[:2, 0], expected, rtol=1e-7)
    rows, first, last = next(
        stream.stream.ahead(10, *stream.stream.history.samples(10, 15)[:2], block=8)
    )
    unmeasured = problem.with_records([problem.records[0].hide(10, 15)])
    known = next(grown(unmeasured, solver, 1, "filtering").stream.pieces(10, 15))[0]
    np.testing.assert_array_equal(rows.samples[first:last], known.samples[10:15])
    # Where gains are not shared there are none, in rows of no number or in no rows.
    np.testing.assert_array_equal(rows.gains.ravel(), known.gains[18:28].ravel())


def test_a_filter_follows_a_stream_to_the_bytes_of_a_run():
    problem = PROBLEMS["duffing"]()
    problem = problem.with_records([problem.records[0].with_hold("zoh")[:40]])
    options = {"solver": EKF1(2, 2, diffusion="fixed"), "particles": 100, "seed": 1}
    live = smcpn.Online(problem, likelihood="filtering", **options)
    for u, y in zip(problem.records[0].u, problem.records[0].y, strict=True):
        live.update(u, y)
    batch = smcpn.identify(
        problem, method="ibis", likelihood="filtering", progress=False, **options
    )
    streamed = live.posterior()
    assert streamed.likelihood == batch.likelihood == "filtering"
    np.testing.assert_array_equal(streamed.theta, batch.theta)
    np.testing.assert_array_equal(streamed.log_weights, batch.log_weights)
    assert np.isfinite(live.predict(problem.records[0].u[:3]).sd).all()


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_spilled_samples_evaluate_to_the_same(solver, tmp_path):
    problem = PROBLEMS["bouc-wen"]()
    values, t = values_of(problem), len(problem.records[0])
    whole = grown(problem, solver, 7)
    spilled = grown(problem, solver, 7, intervals=8, kept=2, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    np.testing.assert_array_equal(
        spilled.advance(values, spilled.start(values), 0, t)[1],
        whole.advance(values, whole.start(values), 0, t)[1],
    )
    np.testing.assert_allclose(
        spilled.evaluate(values, t)[1], whole.evaluate(values, t)[1], rtol=1e-13
    )
    spilled.stream.history.close()
    assert not list(tmp_path.iterdir())


def test_lookahead_delays_what_counts():
    problem = PROBLEMS["duffing"]()
    record = problem.records[0]
    likelihood = growing_likelihood(problem, RK4(steps=2), History(1, 1), threads=1, lookahead=5)
    likelihood.stream.append(record.t[:9], record.u[:9], record.y[:9])
    assert likelihood.n_samples == 4
    likelihood.stream.finish()
    assert likelihood.n_samples == 9
