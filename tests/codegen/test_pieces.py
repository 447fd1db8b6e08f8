"""Long blocks of statements cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import smcpn
from smcpn.codegen import emit
from smcpn.codegen.long_blocks import pieces
from smcpn.codegen.lower import Level, Literal, Statement, Value
from smcpn.codegen.machine_code import Block

OPERATIONS = {"add": np.add, "sub": np.subtract}
SLOTS = 6


@smcpn.ode
def pendulum(x, v, u, *, c, k):
    return v, u - c * v - k * np.sin(x)


def run(block: Block, slots: dict[int, float], arguments: dict[Value, float]) -> None:
    """Do what a block says, in Python."""
    values = {value: arguments[value] for value in block.arguments}
    values |= {value: slots[slot] for value, slot in block.loads}

    def number(operand):
        return operand.number if isinstance(operand, Literal) else values[operand]

    for s in block.statements:
        values[s.target] = OPERATIONS[s.operation](*map(number, s.operands))
    slots.update({slot: number(operand) for slot, operand in block.stores})


def random_block(rng: np.random.Generator, size: int) -> Block:
    """Slots 0 to 5 are read, all of them but the last are written, in any order."""
    loads = [(Value("m", k, Level.LANE), k) for k in range(SLOTS)]
    known = [value for value, _ in loads] + [Value("r", 0, Level.SHARED), Literal(2.0)]
    statements = []
    for k in range(size):
        operands = (known[rng.integers(len(known))], known[rng.integers(len(known))])
        statements.append(Statement(Value("a", k, Level.LANE), rng.choice([*OPERATIONS]), operands))
        known.append(statements[-1].target)
    stores = [(slot, known[rng.integers(len(known))]) for slot in rng.permutation(SLOTS - 1)]
    return Block((Value("r", 0, Level.SHARED),), tuple(loads), tuple(statements), tuple(stores))


@pytest.mark.parametrize("seed", range(30))
def test_pieces_do_what_the_block_does(seed):
    rng = np.random.default_rng(seed)
    block = random_block(rng, int(rng.integers(0, 40)))
    slots = {k: float(rng.integers(-9, 9)) for k in range(SLOTS)}
    expected, arguments = dict(slots), {Value("r", 0, Level.SHARED): 3.0}
    run(block, expected, arguments)
    parts, end = pieces(block, SLOTS, 4)
    for part in parts:
        assert len(part.statements) <= 4
        assert all(slot < end for _, slot in part.loads)
        run(part, slots, arguments)
    assert {slot: slots[slot] for slot in expected} == expected


def test_slots_of_values_that_wait_are_used_again():
    first = Value("m", 0, Level.LANE)
    chain = [first, *(Value("a", k, Level.LANE) for k in range(40))]
    statements = tuple(
        Statement(after, "add", (before, first)) for before, after in pairwise(chain)
    )
    _, end = pieces(Block((), ((first, 0),), statements, ((0, chain[-1]),)), 1, 2)
    assert end == 2


@pytest.mark.parametrize(
    "solver", [smcpn.EKF1(2), smcpn.AdaptiveEKF1(order=2), smcpn.Rosenbrock(1e-6), smcpn.RK4()]
)
def test_a_kernel_of_pieces_is_the_kernel(solver, monkeypatch):
    t = np.linspace(0.0, 2.0, 9)
    record = smcpn.Record(t=t, u=np.sin(t), y=np.cos(t))
    prior = {name: stats.lognorm(0.5) for name in ("c", "k", "sigma")}
    problem = smcpn.Problem(pendulum, record, observe="x", noise="sigma", prior=prior)
    values = np.exp(0.3 * np.random.default_rng(0).normal(size=(11, 3)))
    whole = smcpn.LogLikelihood(problem, solver=solver)(values)
    monkeypatch.setattr(emit, "LONG", 3)
    cut = smcpn.LogLikelihood(problem, solver=solver)(values)
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(cut, whole, rtol=1e-12)
