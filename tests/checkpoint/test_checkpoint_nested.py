from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import smcpn
from smcpn import RK4
from smcpn.checkpoint.nested import read_nested, write_nested
from smcpn.io.axis import AxisState
from tests import models
from tests.results.simulation.test_states import STEPS, simulated


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    problem = simulated(1)[0]
    live = smcpn.NestedFilter(problem, solver=RK4(steps=STEPS), particles=12, seed=1)
    live.update(0.0, 0.5)
    path = tmp_path_factory.mktemp("nested") / "live.h5"
    live.save(path)
    return read_nested(path)


HOSTILE = {
    "other parameters": lambda s: {"theta": s.theta[:, :1]},
    "fewer vectors": lambda s: {"theta": s.theta[:5]},
    "fewer filters": lambda s: {"filters": s.filters[:5]},
    "narrow filters": lambda s: {"filters": s.filters[:, :7]},
    "no weight": lambda s: {"log_weights": np.full_like(s.log_weights, -np.inf)},
    "no number": lambda s: {"theta": np.full_like(s.theta, np.nan)},
    "no sample": lambda s: {"last": s.last[:0]},
    "unknown input": lambda s: {"last": np.full_like(s.last, np.nan)},
    "another input": lambda s: {"held": np.zeros(3)},
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.slow
def test_arrays_that_do_not_fit_are_refused(stored, case, tmp_path):
    path = tmp_path / "hostile.h5"
    problem, state = stored
    write_nested(path, problem, replace(state, **HOSTILE[case](state)))
    with pytest.raises(smcpn.InputError):
        smcpn.NestedFilter.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"sample": 7},
        {"sample": -1},
        {"state_particles": 33},
        {"state_particles": 1 << 60},
        {"log_evidence": float("nan")},
        {"random_state": None},
        {"axis": AxisState(0.0, 0, 0.0, 0.0)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_documents_that_do_not_fit_are_refused(stored, change, tmp_path):
    path = tmp_path / "hostile.h5"
    problem, state = stored
    write_nested(path, problem, replace(state, **change))
    with pytest.raises(smcpn.InputError):
        smcpn.NestedFilter.load(path)


def test_another_problem_is_refused(stored, tmp_path):
    path = tmp_path / "hostile.h5"
    write_nested(path, models.duffing_problem(), stored[1])
    with pytest.raises(smcpn.InputError):
        smcpn.NestedFilter.load(path)


def test_another_file_is_told_apart(stored, tmp_path):
    path = tmp_path / "live.h5"
    write_nested(path, *stored)
    with pytest.raises(smcpn.InputError, match="nested filter"):
        smcpn.Online.load(path)
    assert smcpn.NestedFilter.load(path).sample == 1
