"""The growing likelihood against that of whole records: the same rows, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from smcpn import EKF0, RK4
from smcpn.likelihood.growing import History
from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.rows import growing_likelihood
from tests.models import PROBLEMS

pytestmark = pytest.mark.numerics

SINGLE = [name for name in sorted(PROBLEMS) if len(PROBLEMS[name]().records) == 1]
SOLVERS = {"ekf0": EKF0(order=3, steps=4), "rk4": RK4(steps=4)}


def grown(problem, solver, parts, **history):
    record = problem.records[0]
    likelihood = growing_likelihood(
        problem, solver, History(record.n_inputs, len(problem.observe), **history), threads=1
    )
    for a in range(0, len(record), parts):
        part = slice(a, a + parts)
        likelihood.append(record.t[part], record.u[part], record.y[part])
    likelihood.finish()
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
    else:
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(stream.evaluate(values, t)[1], batch.evaluate(values, t)[1])


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_spilled_samples_weigh_the_same(solver, tmp_path):
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
    spilled.history.close()
    assert not list(tmp_path.iterdir())


def test_lookahead_delays_what_counts():
    problem = PROBLEMS["duffing"]()
    record = problem.records[0]
    likelihood = growing_likelihood(problem, RK4(steps=2), History(1, 1), threads=1, lookahead=5)
    likelihood.append(record.t[:9], record.u[:9], record.y[:9])
    assert likelihood.n_samples == 4
    likelihood.finish()
    assert likelihood.n_samples == 9
