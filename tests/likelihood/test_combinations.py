"""The table of combinations in CONTRIBUTING.md: what it takes is traced, the rest is refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn import AR1, EKF0, EKF1, RK4, AdaptiveEKF1, InputError, Record, Rosenbrock
from smcpn.datasets.models import duffing
from smcpn.likelihood.growing import growing_likelihood
from smcpn.likelihood.history import History
from smcpn.likelihood.lanes import Grid
from smcpn.likelihood.particle.stream import stream_estimate
from smcpn.likelihood.registry import (
    LIKELIHOODS,
    build_estimate,
    build_likelihood,
    suitable_likelihood,
    weighing_program,
)
from tests.nightly import nightly_but

PRIOR = {"m": 1.0, "c": stats.lognorm(0.5), "k": 2.0, "k3": 0.5}
LAG = stats.uniform(0.0, 0.3)
SOLVERS = {
    "marginal": EKF0(2, 2), "classical": RK4(2), "filtering": EKF1(2, 2, diffusion=1.0),
    "dalton": EKF1(2, 2, diffusion=1.0), "fenrir": EKF1(2, 2, diffusion=1.0),
    "kalman": RK4(2), "kalman-iterated": RK4(2), "particle": RK4(2), "particle-bootstrap": RK4(2),
    "adaptive": AdaptiveEKF1(tolerance=1e-4), "rosenbrock": Rosenbrock(tolerance=1e-4),
}  # fmt: skip
RNG = np.random.default_rng(0)


WALL = [smcpn.event(when=lambda x: x - 0.3, then=lambda v: {"v": -0.8 * v}, direction="rising")]


@smcpn.ode(events=WALL)
def stopped(x, v, u, *, m, c, k, k3):
    """A Duffing oscillator that hits a wall."""
    return v, (u - c * v - k * x - k3 * x**3) / m


def with_force(x, v, force, u, *, m, c, k, k3):
    """A Duffing oscillator whose force is a variable."""
    return v, (u - force) / m, force - c * v - k * x - k3 * x**3


sprung = smcpn.ode(algebraic=["force"])(with_force)
COLUMNS = {
    "held or linear": {"hold": "foh"},
    "band-limited": {"hold": "bandlimited"},
    "function": {"u": np.sin},
    "uneven": {"t": np.cumsum(RNG.uniform(0.05, 0.2, 40)), "dt": None},
    "dead time": {"delay": {"u": 0.23}},
    "late, doses": {"delay": {"u": 0.23}, "doses": [smcpn.Dose(0.73, "v", 0.1)]},
    "late, lag": {"delay": {"u": 0.23}, "doses": [smcpn.Dose(0.73, "v", 0.1, lag="lag")]},
    "band-limited, doses": {"hold": "bandlimited", "doses": [smcpn.Dose(0.73, "v", 0.1)]},
    "function, lag": {"u": np.sin, "doses": [smcpn.Dose(0.73, "v", 0.1, lag="lag")]},
    "late, events": {"delay": {"u": 0.23}, "ode": stopped},
    "late, algebraic": {"delay": {"u": 0.23}, "ode": sprung},
    "events, algebraic": {"ode": smcpn.ode(algebraic=["force"], events=WALL)(with_force)},
    "AR1": {"noise": AR1(0.1, 0.5)},
    "density": {"noise": smcpn.StudentT(0.1, 4.0)},
    "count": {"ode": duffing.accumulating("x")},
}


def table() -> dict[tuple[str, str], bool]:
    """Cells of the table by likelihood and column."""
    text = Path(__file__).parents[2].joinpath("CONTRIBUTING.md").read_text()
    begin = text.index("| likelihood | held or linear |")
    head, _, *rows = (
        [cell.strip().strip("`") for cell in line.strip("|").split("|")]
        for line in text[begin : text.index("\n\n", begin)].splitlines()
    )
    return {
        (row[0], name): cell == "yes"
        for row in rows
        for name, cell in zip(head, row, strict=True)
        if row[0] != cell
    }


TABLE = table()
RUN = ("stream", "executor")
CELLS = {cell: taken for cell, taken in TABLE.items() if cell[1] not in RUN}


def test_every_likelihood_has_its_row():
    known = {name for name, kind in LIKELIHOODS.items() if kind.__module__.startswith("smcpn.")}
    assert {name for name, _ in TABLE} == known


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_a_cell_is_as_the_table_says(cell):
    likelihood, column = cell
    given = {"hold": "zoh", "u": RNG.normal(size=40), "dt": 0.1, "noise": 0.1, **COLUMNS[column]}
    times, ode = given.pop("t", None), given.pop("ode", duffing)
    if callable(given["u"]) and times is None:
        times, given["dt"] = 0.1 * np.arange(40), None
    record = Record(
        u=given["u"], y=RNG.normal(size=40), dt=given["dt"], t=times, hold=given["hold"],
        doses=given.get("doses", ()),
    )  # fmt: skip
    options = {name: given[name] for name in ("noise", "delay") if name in given}
    if LIKELIHOODS[likelihood].takes_process_noise:
        options["process_noise"] = {"v": 0.1}
    solver = SOLVERS[likelihood]

    def traced():
        prior = PRIOR | {"lag": LAG} if column.endswith("lag") else PRIOR
        problem = smcpn.Problem(ode, record, observe="x", prior=prior, **options)
        kind, (one,) = suitable_likelihood(problem, solver, likelihood), problem.records
        recursion = kind.traced(problem, solver, Grid.of([one], problem.model.delay))
        program = weighing_program(recursion)
        for part, graph in (("step", program.step), ("sample", program.emitted)):
            assert program.raw(part, graph)[0].numel() == graph.numel()
        return recursion.inputs(one, 2).whole(one), one

    if CELLS[cell]:
        rows, one = traced()
        assert len(rows) == len(one)
    else:
        with pytest.raises(InputError):
            traced()


@pytest.mark.parametrize(
    "likelihood", nightly_but(SOLVERS.keys() - {"dalton", "fenrir", "particle-bootstrap"}, SOLVERS)
)
def test_a_stream_and_what_an_executor_is_sent_have_the_increments_of_the_record(likelihood):
    """All rows of the table say yes there: samples as they come, the likelihood as bytes."""
    assert all(TABLE[likelihood, column] for column in RUN)
    kind, solver, n = LIKELIHOODS[likelihood], SOLVERS[likelihood], 12
    record = Record(u=np.sin(np.arange(n)), y=0.1 * np.cos(np.arange(n)), dt=0.1, hold="zoh")
    options = {"process_noise": {"v": 0.1}} if kind.takes_process_noise else {}
    problem = smcpn.Problem(duffing, record, observe="x", prior=PRIOR, noise=0.1, **options)
    build, make = build_likelihood, growing_likelihood
    if kind.estimated:
        build, make = build_estimate, stream_estimate
    whole = build(problem, solver, 1, likelihood)
    stream = make(problem, solver, History(1, 1), threads=1, likelihood=likelihood)
    stream.stream.append(record.t, record.u, record.y)
    values, keys = np.array([[0.5], [1.5]]), np.ones((2, 1), dtype=np.uint64)

    def increments(of):
        return of.advance(values, of.start(values), 0, n, keys)[1]

    expected = increments(whole)
    sent = pickle.loads(pickle.dumps(whole.detached()))
    np.testing.assert_array_equal(increments(sent), expected)
    np.testing.assert_allclose(increments(stream), expected, rtol=1e-10)
