from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import smcpn
from smcpn import RK4
from smcpn.checkpoint.nested import read_nested, write_nested
from tests import models
from tests.simulation.test_states import STEPS, simulated


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    problem = simulated(1)[0]
    live = smcpn.NestedFilter(problem, solver=RK4(steps=STEPS), particles=12, seed=1)
    live.update(0.0, 0.5)
    path = tmp_path_factory.mktemp("nested") / "live.h5"
    live.save(path)
    return read_nested(path)


HOSTILE = {
    "other parameters": lambda a: {"theta": a["theta"][:, :1]},
    "fewer vectors": lambda a: {"theta": a["theta"][:5]},
    "fewer filters": lambda a: {"filters": a["filters"][:5]},
    "narrow filters": lambda a: {"filters": a["filters"][:, :7]},
    "no weight": lambda a: {"log_weights": np.full_like(a["log_weights"], -np.inf)},
    "no number": lambda a: {"theta": np.full_like(a["theta"], np.nan)},
    "no sample": lambda a: {"last": a["last"][:0]},
    "unknown input": lambda a: {"last": np.full_like(a["last"], np.nan)},
    "another input": lambda a: {"held": np.zeros(3)},
    "whole numbers": lambda a: {"theta": a["theta"].astype(int)},
    "one more": lambda a: {"more": np.zeros(1)},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_arrays_that_do_not_fit_are_refused(stored, case, tmp_path):
    path = tmp_path / "hostile.h5"
    arrays = dict(stored.arrays)
    write_nested(path, replace(stored, arrays=arrays | HOSTILE[case](arrays)))
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
        {"random_state": {"bit_generator": "MT19937"}},
        {"axis": {"start": 0.0}},
        {"problem": models.duffing_problem()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_documents_that_do_not_fit_are_refused(stored, change, tmp_path):
    path = tmp_path / "hostile.h5"
    write_nested(path, replace(stored, **change))
    with pytest.raises(smcpn.InputError):
        smcpn.NestedFilter.load(path)


def test_another_file_is_told_apart(stored, tmp_path):
    path = tmp_path / "live.h5"
    write_nested(path, stored)
    with pytest.raises(smcpn.InputError, match="nested filter"):
        smcpn.Online.load(path)
    assert smcpn.NestedFilter.load(path).sample == 1
