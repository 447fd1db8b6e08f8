from __future__ import annotations

import numpy as np
import pytest

import smcpn
from smcpn.datasets.models import duffing
from smcpn.likelihood import lanes
from smcpn.likelihood.inputs import KernelInputs
from smcpn.results.simulation import simulator
from tests.models import forced_input


@smcpn.ode
def slow_decay(x, u, t, *, k):
    """A rate that depends on the time and jumps with the input."""
    return -k * x * (1.0 + 0.1 * t) + u


def records():
    n, rng = 700, np.random.default_rng(0)
    u = forced_input(n, 0.2)
    yield from (smcpn.Record(u=u, dt=0.2, start=3.7, hold=h) for h in ("zoh", "foh", "bandlimited"))
    yield smcpn.Record(u=u, t=np.cumsum(rng.uniform(0.1, 0.3, n)), hold="foh")
    yield smcpn.Record(u=u, dt=0.2, hold="bandlimited", periodic=True)
    yield smcpn.Record(u=np.sin, t=0.2 * np.arange(n))


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("record", list(records()), ids=lambda one: one.hold)
def test_a_record_in_pieces_is_simulated_as_one(record, steps, monkeypatch):
    def simulated():
        return smcpn.simulate(slow_decay, record, {"k": 0.5}, observe="x", steps=steps)

    whole = simulated()
    monkeypatch.setattr(simulator, "PIECE", 100)
    monkeypatch.setattr(lanes, "CHUNK", 37)
    assert np.array_equal(simulated(), whole)
    # Fewer lanes for a single parameter vector.
    monkeypatch.setattr(simulator, "WORTH_COMPILING", 0)
    assert np.array_equal(simulated(), whole)


def test_pieces_are_no_longer_than_wanted(monkeypatch):
    monkeypatch.setattr(simulator, "PIECE", 100)
    record = smcpn.Record(u=forced_input(700, 0.2), dt=0.2, hold="zoh")
    sizes, rows = [], KernelInputs.rows

    def counted(self, samples, a, b, memory):
        sizes.append(b - a)
        return rows(self, samples, a, b, memory)

    monkeypatch.setattr(KernelInputs, "rows", counted)
    parameters = {"m": 1.0, "c": 0.4, "k": 2.0, "k3": 0.5}
    smcpn.simulate(duffing, record, parameters, observe="x", steps=4)
    assert max(sizes) == 26
    assert sum(size - 1 for size in sizes) == 699
