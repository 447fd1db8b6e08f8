"""Rows that compiled code writes, sample by sample, against those that numpy writes: to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from smcpn import EKF0, RK4, Record
from smcpn.likelihood.classical import ClassicalRowWriter
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from tests.models import PROBLEMS

SOLVERS = {"ekf0": EKF0(order=3, steps=3), "rk4": RK4(steps=5)}


def written(problem, solver, compiled):
    """Inputs, gains, samples and intervals of a record that is given sample by sample."""
    record = problem.records[0]
    history = History(record.n_inputs, len(problem.observe), intervals=16)
    likelihood = growing_likelihood(problem, solver, history, threads=1)
    assert likelihood._stream.row_code is not None
    if not compiled:
        likelihood._stream.row_code = None
    for k in range(len(record)):
        part = slice(k, k + 1)
        likelihood.append(record.t[part], record.u[part], record.y[part])
    rows = []
    for piece, first, last in likelihood.pieces(0, len(record)):
        steps = piece.steps * (last - 1)
        gains = piece.gains[:steps] if len(piece.gains) == len(piece.inputs) else piece.gains
        rows += [piece.inputs[:steps], gains, piece.samples[first:last]]
        rows.append(piece.intervals[: last - 1])
    return rows


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("hold", ["zoh", "foh"])
@pytest.mark.parametrize("sampling", ["equal", "irregular", "no input"])
def test_compiled_rows_are_those_of_numpy(sampling, hold, solver):
    problem = PROBLEMS["lotka-volterra" if sampling == "no input" else "duffing"]()
    if sampling != "no input":
        record, rng = problem.records[0][:50].with_hold(hold), np.random.default_rng(0)
        times = None if sampling == "equal" else np.cumsum(rng.uniform(0.05, 0.2, 50))
        y = record.y.copy()
        y[[0, 7, 20]] = np.nan
        dt = record.dt if times is None else None
        problem = problem.with_records([Record(u=record.u, y=y, dt=dt, t=times, hold=hold)])
    pairs = zip(*(written(problem, solver, compiled) for compiled in (True, False)), strict=True)
    for found, expected in pairs:
        np.testing.assert_array_equal(found, expected)


def test_who_writes_other_rows_has_no_graph_of_them():
    class Other(ClassicalRowWriter):
        def rows(self, window, memory):
            return super().rows(window, memory)

    problem = PROBLEMS["duffing"]()
    record = problem.records[0].with_hold("zoh")
    writers = [kind(problem.model, record, 2) for kind in (ClassicalRowWriter, Other)]
    assert [writer.graph() is None for writer in writers] == [False, True]
    band_limited = record.with_hold("bandlimited")
    assert ClassicalRowWriter(problem.model, band_limited, 2).graph() is None
