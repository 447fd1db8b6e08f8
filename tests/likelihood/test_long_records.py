"""A long record is read in pieces, and its likelihood is the same to the last bit."""

import pickle
from functools import partial

import numpy as np
import pytest

import smcpn
from smcpn.likelihood import inputs, lanes, solver_choice
from smcpn.likelihood.inputs import KernelRows
from smcpn.likelihood.prediction import predictions
from smcpn.likelihood.registry import build_likelihood
from smcpn.likelihood.solver_choice import error_budget
from tests.models import duffing_problem


@pytest.fixture
def short_chunks(monkeypatch):
    """Chunks of eight samples, and two of them in a piece."""
    for module in (inputs, lanes):
        monkeypatch.setattr(module, "CHUNK", 8)
    monkeypatch.setattr(inputs, "PIECE", 2)


def computed(problem, solver):
    """Values, increments from a sample in the middle on, and information."""
    values = problem.prior.natural(problem.prior.sample(np.random.default_rng(0), 3))
    likelihood = build_likelihood(problem, solver)
    state, first = likelihood.advance(values, likelihood.start(values), 0, 30)
    state, rest = likelihood.advance(values, state, 30, 70)
    function = smcpn.LogLikelihood(problem, solver=solver)
    return likelihood, [first, rest, state, function(values), *function.expansion(values)]


@pytest.mark.parametrize("hold", ["zoh", "foh", "bandlimited"])
@pytest.mark.parametrize(
    "solver",
    [smcpn.RK4(3), smcpn.EKF0(2, 2), pytest.param(smcpn.EKF1(1, 1), marks=pytest.mark.slow)],
)
def test_pieces_have_the_bytes_of_the_whole(hold, solver, short_chunks, monkeypatch):
    problem = duffing_problem(70, hold)
    whole, expected = computed(problem, solver)
    middle = problem.prior.natural(np.zeros((1, len(problem.names))))[0]
    predicted = partial(predictions, problem, solver)
    budget = error_budget(problem, predicted(enumerate(problem.records)), middle, solver.steps)
    for module in (inputs, solver_choice):
        monkeypatch.setattr(module, "LONG", 10)
    pieces, found = computed(problem, solver)
    assert isinstance(pieces._rows[0], KernelRows)
    assert not isinstance(whole._rows[0], KernelRows)
    assert pieces.n_steps == whole.n_steps
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    in_parts = error_budget(problem, predicted(enumerate(problem.records)), middle, solver.steps)
    np.testing.assert_allclose(in_parts.change, budget.change, rtol=1e-9)
    np.testing.assert_allclose(in_parts.claimed, budget.claimed, rtol=1e-9)
    sent, rows_of_all = pickle.loads(pickle.dumps(pieces._rows[0])), whole._rows[0]
    for name in ("start", "gains", "samples", "record"):
        np.testing.assert_array_equal(getattr(sent.whole(), name), getattr(rows_of_all, name))


def test_a_record_of_a_file_is_not_copied(tmp_path):
    np.save(tmp_path / "u.npy", np.arange(5.0))
    mapped = np.load(tmp_path / "u.npy", mmap_mode="r")
    record = smcpn.Record(u=mapped, dt=0.1)
    assert np.shares_memory(record.u, mapped)
    sent = pickle.loads(pickle.dumps(record[1:4]))
    np.testing.assert_array_equal(sent.u, record.u[1:4])
    np.testing.assert_array_equal(sent.t, record[1:4].t)
    assert isinstance(sent.u.base, np.memmap)
    with pytest.raises(smcpn.InputError, match="same file"):
        pickle.loads(pickle.dumps(record).replace(b"u.npy", b"v.npy"))
    own = np.arange(5.0)
    assert not np.shares_memory(smcpn.Record(u=own, dt=0.1).u, own)
    own.setflags(write=False)
    view = np.arange(6.0)[:5]
    view.setflags(write=False)
    assert np.shares_memory(smcpn.Record(u=own, dt=0.1).u, own)
    assert not np.shares_memory(smcpn.Record(u=view, dt=0.1).u, view)
